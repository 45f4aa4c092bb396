"""What a trial is asked and what it answers: one JSON line each."""

import msgspec

from edgeopt.backends.base import TensorInfo


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Load a model with a backend, or (backend "bundle") a whole bundle, and run it once."""

    backend: str
    model_path: str
    options: dict[str, str | int | float | bool | dict[str, list[int]]]
    samples_path: str
    """A folder of samples (see `edgeopt.data`)."""


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    """Load a model or bundle to say what its inputs and outputs are; nothing is run."""

    backend: str
    model_path: str


class Time(msgspec.Struct, frozen=True, tag="time"):
    """Run for a time slice; its first fifth warms up and is not reported."""

    slice_ms: float


class Outputs(msgspec.Struct, frozen=True, tag="outputs"):
    """Run some samples and save their outputs."""

    first: int
    count: int
    out_path: str


class Watch(msgspec.Struct, frozen=True, tag="watch"):
    """Run for a time slice that follows the one before without a gap; every run is reported, none is warm-up.

    It may be sent before the last answer came, so that the trial never waits for its parent.
    """

    slice_ms: float
    interval_ms: float | None = None
    """From the begin of one run to that of the next; None: as fast as it goes."""


Request = Load | Describe | Time | Outputs | Watch


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of the trial by phase; None where the system does not tell."""

    import_bytes: int | None = None
    load_bytes: int | None = None
    first_run_bytes: int | None = None
    peak_bytes: int | None = None


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    load_ms: float
    first_run_ms: float
    memory: Memory


class Described(msgspec.Struct, frozen=True, tag="described"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    latencies_ms: tuple[float, ...]
    memory: Memory


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    out_path: str


class Watched(msgspec.Struct, frozen=True, tag="watched"):
    latencies_ms: bytes
    """Packed as 32-bit floats, little-endian: thousands of runs fit into a slice."""
    seconds: float
    """Since the slice before ended."""
    missed: int = 0
    """Runs that came due while another was still running."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    code: str
    message: str
    hint: str = ""


Answer = Loaded | Described | Timed | Saved | Watched | Failed

decode_request = msgspec.json.Decoder(Request).decode
decode_answer = msgspec.json.Decoder(Answer).decode
