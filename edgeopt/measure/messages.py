"""The requests and answers of a trial."""

import msgspec

from edgeopt.backends.base import Placement, TensorInfo
from edgeopt.bundle.deployment import Cache
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
    """Longest time for a program to report that it is ready; less than the time limit for the answer."""
    batch: int = 1
    """Samples in each run."""


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    """Load a model or bundle to say what its inputs and outputs are; nothing is run."""

    backend: str
    model_path: str
    custom_ops: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool | dict[str, list[int]]] = {}
    """The options that change the inputs or outputs."""


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
    """Time from the start of one run to the start of the next; None: as fast as possible."""
    anew: bool = False
    """Whether this is the first slice after a pause, during which no run was due or missed."""


class GivenInputs(msgspec.Struct, frozen=True):
    """Inputs of a decoder that its encoder computed, and how the tokens of its texts are chosen."""

    path: str
    """Folder of samples: the inputs that are the same at every step."""
    places: tuple[int, ...]
    """Sample of each text."""
    stop: tuple[int, ...] = ()
    """Tokens that end a text."""
    excluded: tuple[int, ...] = ()
    """Tokens that are never chosen."""
    excluded_first: tuple[int, ...] = ()
    """Other tokens that are not chosen first."""


class Decode(msgspec.Struct, frozen=True, tag="decode"):
    """Run texts through a decoder in several ways, save the logits of each, and generate from their beginnings."""

    cache: Cache
    texts: tuple[tuple[int, ...], ...]
    """Token ids of texts; of equal length if there is no encoder."""
    prompt_tokens: int
    """Tokens of each text that are its prompt; logits are saved for the others."""
    greedy_tokens: int
    """Tokens to generate after each prompt, all prompts in one batch where the model takes one."""
    out_path: str
    given: GivenInputs | None = None
    limit_s: float | None = None
    """Seconds after which generation ends with fewer tokens, but no fewer than 32; not for texts of an encoder."""


class Generate(msgspec.Struct, frozen=True, tag="generate"):
    """Generate after prompts, one at a time, until the slice is over; at least once."""

    cache: Cache
    prompts: tuple[tuple[int, ...], ...]
    first: int
    """Place in `prompts` of the first prompt; the others follow in turn."""
    new_tokens: int
    slice_ms: float


class Places(msgspec.Struct, frozen=True, tag="places"):
    """Load a model with parts that fell back, and report the time of one run by provider or device."""

    load: Load


class TimeStages(msgspec.Struct, frozen=True, tag="time-stages"):
    """Time what a bundle does before its model, the model, and what it does after it, apart."""

    bundle_path: str
    seconds: float


class DeviceMemory(msgspec.Struct, frozen=True):
    """Accelerator memory of the trial at the end of each phase, as NVML reports it for the process."""

    import_bytes: int | None = None
    load_bytes: int | None = None
    first_run_bytes: int | None = None
    steady_bytes: int | None = None
    peak_bytes: int | None = None


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of the trial at the end of each phase; None if the system does not report it."""

    import_bytes: int | None = None
    """Memory of Python, edgeopt, the samples and the runtime, before any model."""
    load_bytes: int | None = None
    first_run_bytes: int | None = None
    peak_bytes: int | None = None
    """The highest value so far, at any moment."""
    start_bytes: int | None = None
    """Memory of an empty process: edgeopt's modules and the samples, before the runtime is imported."""
    steady_bytes: int | None = None
    """Memory after the latest slice."""
    import_peak_bytes: int | None = None
    """The highest value by the end of this phase."""
    load_peak_bytes: int | None = None
    first_run_peak_bytes: int | None = None
    device: DeviceMemory | None = None
    """Accelerator memory; None if no accelerator is used."""
    added_bytes: int | None = None
    """The most that runtime and model add, see `memory.added_bytes`."""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    load_ms: float
    first_run_ms: float
    memory: Memory
    placement: Placement | None = None
    """Provider or device of each part; None if there is only one, or if the runtime does not report it."""
    import_ms: float | None = None
    """Time to import the runtime, which `load_ms` excludes."""
    begin_s: float | None = None
    """Moment when the trial took the request, after its process had started; the machine's monotonic clock."""
    warnings: tuple[str, ...] = ()
    """Sentences for the report, about values that are missing or include more than the contender."""


class Described(msgspec.Struct, frozen=True, tag="described"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    latencies_ms: tuple[float, ...]
    memory: Memory
    begin_s: float = 0.0
    """Start of the reported runs on the monotonic clock, which all processes of the machine share."""
    seconds: float = 0.0
    """Duration of the reported runs; their number divided by it is the throughput."""
    starts_ms: tuple[float, ...] = ()
    """Start of each run, since `begin_s`."""
    counters: dict[str, int] = {}
    """Hardware events by name (`instructions`, `cache_misses`, ...) during the reported runs."""
    first: int = 0
    """Place in the rotation of samples of the first reported run, if samples differ in size."""


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    out_path: str


class UnseenRun(msgspec.Struct, frozen=True, tag="unseen-run"):
    """Times of the first and the second run of each input; empty where no new input can be made."""

    new_ms: tuple[float, ...]
    again_ms: tuple[float, ...]


class Decoded(msgspec.Struct, frozen=True, tag="decoded"):
    generated: tuple[tuple[int, ...], ...]
    """The most likely tokens after each prompt."""
    first_token_ms: float
    """Median time of a prompt and its first token, one prompt at a time."""
    token_ms: float
    """Median time of each further token."""


class Generated(msgspec.Struct, frozen=True, tag="generated"):
    first_tokens_ms: tuple[float, ...]
    """Time of each prompt and its first token."""
    tokens_ms: tuple[float, ...]
    """Mean time of a further token of each answer."""
    memory: Memory


class Watched(msgspec.Struct, frozen=True, tag="watched"):
    latencies_ms: bytes
    """Packed as 32-bit floats, little-endian: thousands of runs fit into a slice."""
    seconds: float
    """Seconds since the previous slice ended."""
    missed: int = 0
    """Number of runs that were due while another still ran."""


class Placed(msgspec.Struct, frozen=True, tag="placed"):
    time_ms: dict[str, float]
    """Milliseconds by provider or device; empty if the runtime does not report them."""


class StageTimes(msgspec.Struct, frozen=True):
    """Median times of the stages, which ran one after the other in one process."""

    inference_ms: float
    runs: int
    pre_ms: float | None = None
    """Preprocessing time; None without preprocessing, or without a sample for it."""
    post_ms: float | None = None


class Staged(msgspec.Struct, frozen=True, tag="staged"):
    times: StageTimes


Answer = Staged | Placed | Loaded | Described | Timed | Saved | UnseenRun | Decoded | Generated | Watched | Failed

decode_answer = msgspec.json.Decoder(thread_safe(Answer)).decode
