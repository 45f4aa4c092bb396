"""The requests and answers of a trial."""

import msgspec

from edgeopt.backends.base import Placement, TensorInfo
from edgeopt.decoding import thread_safe
from edgeopt.workers.protocol import Failed


class Calls(msgspec.Struct, frozen=True):
    callers: int = 1
    """Threads that call the one session, each waiting for its answer before it calls again."""
    batch: int = 1
    """Samples in one run, along the first axis."""

    def __str__(self) -> str:
        several = "callers" if self.callers > 1 else "caller"
        return f"{self.callers} {several}, batch {self.batch}"


ONE = Calls()
"""One sample at a time."""


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Load a model and run it once."""

    backend: str
    """A backend's name; or "bundle", "command" (a program of the user's), "url" (a served model)."""
    model_path: str
    """The model or bundle; the command line of a program; the address of a served model."""
    options: dict[str, str | int | float | bool | dict[str, list[int]]]
    samples_path: str
    """A folder of samples (see `edgeopt.data`)."""
    custom_ops: tuple[str, ...] = ()
    """Libraries of custom operators that the runtime is to load first."""
    strict: bool = False
    """Refuse the model when a part of it would fall back to another provider or device."""
    cores: tuple[int, ...] = ()
    """The only cores that the trial may use; empty: all."""
    counters: bool = False
    """Count hardware events during slices."""
    patience_s: float = 50.0
    """How long a program may take to say that it is ready: a little less than its answer is waited for."""
    batch: int = 1
    """Samples in each run."""


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    """Load a model or bundle to say what its inputs and outputs are; nothing is run."""

    backend: str
    model_path: str
    custom_ops: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool | dict[str, list[int]]] = {}
    """Those that change what it takes."""


class Time(msgspec.Struct, frozen=True, tag="time"):
    """Run for a time slice; its first fifth warms up and is not reported."""

    slice_ms: float
    concurrency: int = 1
    """Threads that call the session."""


class Outputs(msgspec.Struct, frozen=True, tag="outputs"):
    """Run some samples and save their outputs."""

    first: int
    count: int
    out_path: str
    batch: int = 1
    """Samples in one run; each still gets its own answer."""


class Unseen(msgspec.Struct, frozen=True, tag="unseen"):
    """Run inputs that no run has had before, each twice, and save the first outputs."""

    seed: int
    pairs: int
    out_path: str


class Watch(msgspec.Struct, frozen=True, tag="watch"):
    """Run for a time slice that follows the one before without a gap; every run is reported, none is warm-up.

    It may be sent before the last answer came, so that the trial never waits for its parent.
    """

    slice_ms: float
    interval_ms: float | None = None
    """From the start of one run to the start of the next; None: as fast as possible."""
    anew: bool = False
    """The first after a pause, in which nothing came due and nothing was missed."""


class Places(msgspec.Struct, frozen=True, tag="places"):
    """Load a model with parts that fell back, and report the time of one run by provider or device."""

    load: Load


class TimeStages(msgspec.Struct, frozen=True, tag="time-stages"):
    """Time what a bundle does before its model, the model, and what it does after it, apart."""

    bundle_path: str
    seconds: float


class DeviceMemory(msgspec.Struct, frozen=True):
    """What the trial holds on accelerators at the end of each phase, as NVML counts it for its process."""

    import_bytes: int | None = None
    load_bytes: int | None = None
    first_run_bytes: int | None = None
    steady_bytes: int | None = None
    peak_bytes: int | None = None


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of the trial at the end of each phase; None where the system does not tell."""

    import_bytes: int | None = None
    """Python, edgeopt, the samples and the runtime, before any model."""
    load_bytes: int | None = None
    first_run_bytes: int | None = None
    peak_bytes: int | None = None
    """The highest so far, at any moment."""
    start_bytes: int | None = None
    """An empty process: before the runtime was imported, edgeopt's modules and the samples already there."""
    steady_bytes: int | None = None
    """After the latest slice."""
    import_peak_bytes: int | None = None
    """The highest by the end of this phase; likewise the next two."""
    load_peak_bytes: int | None = None
    first_run_peak_bytes: int | None = None
    device: DeviceMemory | None = None
    """None where no accelerator is used."""
    added_bytes: int | None = None
    """What runtime and model add at most: see `memory.added_bytes`."""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    load_ms: float
    first_run_ms: float
    memory: Memory
    placement: Placement | None = None
    """None where there is only one place to run, or the runtime does not tell."""
    import_ms: float | None = None
    """Importing the runtime, which `load_ms` excludes."""
    begin_s: float | None = None
    """When the request was taken up, on the machine's monotonic clock: the process had started by then."""
    warnings: tuple[str, ...] = ()
    """Sentences for the report: what is not measured here, or not only the contender's."""


class Described(msgspec.Struct, frozen=True, tag="described"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    latencies_ms: tuple[float, ...]
    memory: Memory
    begin_s: float = 0.0
    """When what is reported began, on the machine's monotonic clock, which all processes share."""
    seconds: float = 0.0
    """How long what is reported took: with the number of runs, the throughput."""
    starts_ms: tuple[float, ...] = ()
    """When each of the runs began, since `begin_s`."""
    counters: dict[str, int] = {}
    """Hardware events by name (`instructions`, `cache_misses`, ...), over what is reported."""
    first: int = 0
    """The place in the rotation of samples of the first run that is reported, where they differ in size."""


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    out_path: str


class UnseenRun(msgspec.Struct, frozen=True, tag="unseen-run"):
    """Times of the first and the second run of each input; empty where no new input can be made."""

    new_ms: tuple[float, ...]
    again_ms: tuple[float, ...]


class Watched(msgspec.Struct, frozen=True, tag="watched"):
    latencies_ms: bytes
    """Packed as 32-bit floats, little-endian: thousands of runs fit into a slice."""
    seconds: float
    """Since the slice before ended."""
    missed: int = 0
    """Runs that came due while another was still running."""


class Placed(msgspec.Struct, frozen=True, tag="placed"):
    time_ms: dict[str, float]
    """Empty where the runtime does not tell."""


class StageTimes(msgspec.Struct, frozen=True):
    """Medians over runs that did one after the other, in one process."""

    inference_ms: float
    runs: int
    pre_ms: float | None = None
    """None without processing, or without a sample for it."""
    post_ms: float | None = None


class Staged(msgspec.Struct, frozen=True, tag="staged"):
    times: StageTimes


Answer = Staged | Placed | Loaded | Described | Timed | Saved | UnseenRun | Watched | Failed

decode_answer = msgspec.json.Decoder(thread_safe(Answer)).decode
