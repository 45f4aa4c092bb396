"""What runs a model (a backend), and what all backends share; tested by `tests/backends/test_contract.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt.hw.device import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = Any


Feeds = Mapping[str, Array]
Options = Mapping[str, str | int | float | bool | dict[str, list[int]]]


class TensorInfo(msgspec.Struct, frozen=True):
    """One input or output; a dimension is a size, a name, or None where nothing is known."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
    rank_known: bool = True
    """False where not even the number of dimensions is known; `shape` is empty then."""


class Available(msgspec.Struct, frozen=True):
    version: str


class Coverage(msgspec.Struct, frozen=True):
    """Which nodes of a model a backend runs itself; the rest falls back or fails."""

    supported: int
    total: int
    unsupported: tuple[str, ...] = ()
    """`<operator type>: <node name>` for each node that it does not run."""


class Placement(msgspec.Struct, frozen=True):
    """Where the nodes of a model run, as its runtime says."""

    wanted: str
    """The provider or device that was asked for."""
    nodes: dict[str, int] = {}
    """The number of nodes of each provider or device, after the runtime's rewriting if it reports only that."""
    fallen: tuple[str, ...] = ()
    """`<operator type>: <node name>` for each node that fell back."""
    boundaries: int = 0
    """Places where data goes from one provider or device to another."""
    time_ms: dict[str, float] = {}
    """Time in one run by provider or device, where it was measured."""


class Kernel(msgspec.Struct, frozen=True):
    """A piece of a run that the runtime times by itself; several nodes of the model where it fused them."""

    name: str
    operator: str
    """As the runtime calls it."""
    time_ms: float
    """In one run, unmoved by a slow one; without what it called, where that is timed by itself."""
    calls: float = 1.0
    """How often it works in one run: in the body of a loop more than once; 0 where it only passes tensors on."""
    place: str = ""
    """The provider or device."""
    sources: tuple[str, ...] = ()
    """What the runtime says that it was made of: names that begin with that of a node, or names of tensors."""
    reads: tuple[str, ...] = ()
    """As the runtime calls the tensors."""
    outputs: tuple[str, ...] = ()
    """The same; those that were in the model have their names still."""
    within: str = ""
    """The kernel that called it, where one did."""
    precision: str = ""
    """What it computes in, as peaks are called: `fp32`, `bf16`, `int8`; empty where that is not told."""
    range_ms: tuple[float, float] | None = None
    """The times of the middle half of the runs."""


class Kernels(msgspec.Struct, frozen=True):
    """Where the time of one run goes, as the runtime's own profiler says."""

    runs: int
    run_ms: float
    """Median of whole runs while profiling."""
    plain_ms: float | None
    """The same without profiling, interleaved with these; None if it was not measured."""
    kernels: tuple[Kernel, ...]
    """In the order in which they work, where that is known."""
    reason: str = ""
    """Why there are none, where there are none."""


class Session(Protocol):
    """A model loaded by a backend. Results stay valid after the next `run`."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def placement(self) -> Placement | None:
        """None where there is only one place to run, or the runtime does not tell."""

    def run(self, feeds: Feeds) -> dict[str, Array]: ...
    def close(self) -> None: ...


class Loader(Protocol):
    def __call__(
        self, path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()
    ) -> Session:
        """Raises ModelError, UsageError (unknown option) or MissingExtraError, each with a sentence.

        Strict: a ModelError where a node would run elsewhere than on what the backend is named after.
        `custom_ops` are the paths of libraries with operators of the user's own.
        """


class Timer(Protocol):
    def __call__(
        self, path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()
    ) -> dict[str, float]:
        """Milliseconds of one run by provider or device, as in `Placement.time_ms`; loads the model again."""


class OpTimer(Protocol):
    def __call__(
        self,
        path: Path,
        options: Options,
        feeds: Feeds,
        runs: int = 20,
        custom_ops: tuple[str, ...] = (),
        limit_s: float = 5.0,
    ) -> Kernels:
        """The time of each kernel; loads the model again. Ends after `limit_s`, but not before two runs."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One runtime with one execution provider or device, as plain functions."""

    name: str
    title: str
    formats: tuple[str, ...]
    """File suffixes that it loads: `.onnx`, `.xml`."""
    available: Callable[[], Available | Unavailable]
    supports: Callable[[Path], Coverage]
    load: Loader
    options: type[msgspec.Struct]
    """What it takes as options; `edgeopt.backends.options.described` lists them."""
    times: Timer | None = None
    """None where the runtime does not tell."""
    op_times: OpTimer | None = None
    """None where the runtime does not tell."""
    package: str | None = None
    """The Python package behind it, so that a trial can time loading a model net of importing the runtime."""
    converts_within: bool = False
    """Whether between floats and eight bits it converts within the kernels beside, at next to no cost."""


def check_feeds(inputs: tuple[TensorInfo, ...], feeds: Feeds) -> str | None:
    """Why these feeds cannot be run, as a sentence, or None; for when a run has failed, it costs time."""
    names = [i.name for i in inputs]
    missing = [n for n in names if n not in feeds]
    if missing:
        return f"The input '{missing[0]}' is missing; the model takes: {', '.join(names)}."
    unknown = [n for n in feeds if n not in names]
    if unknown:
        return f"The model has no input '{unknown[0]}'; it takes: {', '.join(names)}."
    import numpy as np

    for info in inputs:
        array = np.asarray(feeds[info.name])
        if array.dtype.name != info.dtype and not (info.dtype == "str" and array.dtype.kind in "OU"):
            wrong = f"must be of type {info.dtype}, not {array.dtype.name}"
            return f"The input '{info.name}' {wrong}: a session converts nothing."
        if not info.rank_known:
            continue
        if array.ndim != len(info.shape):
            return (
                f"The input '{info.name}' must have {len(info.shape)} dimensions {list(info.shape)}, "
                f"not {array.ndim} {list(array.shape)}."
            )
        for want, got in zip(info.shape, array.shape, strict=True):
            if isinstance(want, int) and want != got:
                wanted = f"the shape {list(info.shape)}, not {list(array.shape)}"
                return f"The input '{info.name}' must have {wanted}."
    return None


def installed(module: str, distributions: tuple[str, ...], extra: str) -> Available | Unavailable:
    """Several distributions may bring the same module (onnxruntime, onnxruntime-gpu, ...)."""
    found = find_spec(module)
    # Without an origin it is just a folder of that name, in the working directory perhaps.
    if found is None or found.origin is None:
        return Unavailable(f"the Python package '{distributions[0]}' is not installed", extra)
    from importlib.metadata import PackageNotFoundError, version  # 30 ms, which not every trial needs

    for distribution in distributions:
        try:
            return Available(version(distribution))
        except PackageNotFoundError:
            continue
    return Available("unknown")


def prepare(inputs: tuple[TensorInfo, ...], feeds: Feeds) -> dict[str, Array]:
    """The feeds as arrays in this machine's byte order, or a DataError that says what is wrong with them."""
    import numpy as np

    sentence = check_feeds(inputs, feeds)
    if sentence is not None:
        raise DataError(sentence, "`edgeopt analyze MODEL` lists the inputs.")
    arrays: dict[str, Array] = {}
    for info in inputs:
        array = np.asarray(feeds[info.name])
        if info.dtype == "str" and not all(isinstance(text, str) for text in array.flat):
            raise DataError(
                f"The input '{info.name}' must hold only strings.", "Convert the values with str() first."
            )
        arrays[info.name] = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return arrays


def closed() -> UsageError:
    return UsageError("This session is closed.", "Load the model again to run it.")


_NAMED = 3


def fallback(placement: Placement | None) -> str | None:
    """What fell back, as a sentence; None where nothing did."""
    if placement is None or not placement.fallen:
        return None
    fallen, count = placement.fallen, len(placement.fallen)
    total = max(sum(placement.nodes.values()), count)
    others = ", ".join(name for name, nodes in placement.nodes.items() if nodes and name != placement.wanted)
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    where = f" but on {others}" if others else ""
    return f"{count} of {total} nodes do not run on {placement.wanted}{where}: {', '.join(fallen[:_NAMED])}{more}"


def refuse_fallback(placement: Placement | None, path: Path) -> None:
    """Raises a ModelError where nodes fell back; None and a full placement are fine."""
    said = fallback(placement)
    if said is not None:
        raise ModelError(
            f"'{path.name}': {said}.",
            "Load it without 'strict' to let them run there, or choose a backend that runs all of it.",
        )


def run_all(
    path: Path, feeds: Sequence[Mapping[str, Array]], backend: Backend, options: Options | None = None
) -> list[dict[str, Array]]:
    """A model's outputs on every sample."""
    session = backend.load(path, options or {})
    try:
        return [session.run(sample) for sample in feeds]
    finally:
        session.close()


# OpenVINO computes floats in bf16 by itself where the processor has it.
_TOLD: Mapping[str, Mapping[str, str]] = MappingProxyType({"openvino-cpu": {"precision": "f32"}})


def full_precision(backend: str) -> dict[str, str]:
    """Options that make a runtime compute floats in the model's own precision, if its default is another.

    A reference must be computed like this: one in fewer bits would pass candidates in fewer bits, and fail better
    ones.

    The options that it takes; empty for a runtime that does so by itself.
    """
    return dict(_TOLD.get(backend, {}))


def in_full_precision(backend: Backend) -> Backend:
    """The same backend, whose sessions compute so unless their options say otherwise."""
    told = full_precision(backend.name)
    if not told:
        return backend

    def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
        return backend.load(path, {**told, **options}, strict=strict, custom_ops=custom_ops)

    return replace(backend, load=load)
