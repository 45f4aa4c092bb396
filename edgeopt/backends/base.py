"""The interface of backends, which run models, and functions that they share; see
`tests/backends/test_contract.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

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
    """One input or output; a dimension is a size, a name, or None if it is unknown."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
    rank_known: bool = True
    """Whether the number of dimensions is known; if not, `shape` is empty."""


class Available(msgspec.Struct, frozen=True):
    version: str


class Coverage(msgspec.Struct, frozen=True):
    """The nodes of a model that a backend runs itself; the others fall back or fail."""

    supported: int
    total: int
    unsupported: tuple[str, ...] = ()
    """`<operator type>: <node name>` of each node that the backend does not run."""


class Placement(msgspec.Struct, frozen=True):
    """Placement of the nodes of a model on providers or devices, as reported by the runtime."""

    wanted: str
    """The requested provider or device."""
    nodes: dict[str, int] = {}
    """The number of nodes of each provider or device, after the runtime's rewriting if it reports only that."""
    fallen: tuple[str, ...] = ()
    """`<operator type>: <node name>` of each node that fell back."""
    boundaries: int = 0
    """The number of values that cross from one provider or device to another."""
    time_ms: dict[str, float] = {}
    """Time in one run by provider or device; empty if it was not measured."""


class Kernel(msgspec.Struct, frozen=True):
    """A part of a run that the runtime times separately; several nodes of the model if the runtime fused them."""

    name: str
    operator: str
    """Operator type in the runtime's terms."""
    time_ms: float
    """Time in one run, robust against a slow run, without separately timed kernels that this one called."""
    calls: float = 1.0
    """Calls in one run: more than one in the body of a loop, 0 if the kernel only passes tensors on."""
    place: str = ""
    """Provider or device that runs the kernel."""
    sources: tuple[str, ...] = ()
    """Origins that the runtime reports: names that begin with the name of a node, or names of tensors."""
    reads: tuple[str, ...] = ()
    """Names of the input tensors in the runtime's terms."""
    outputs: tuple[str, ...] = ()
    """Names of the output tensors; tensors of the model keep their names."""
    within: str = ""
    """Name of the kernel that called this one; empty if none did."""
    precision: str = ""
    """Precision of the computation, in the names of peaks: `fp32`, `bf16`, `int8`; empty if it is unknown."""
    range_ms: tuple[float, float] | None = None
    """The range of the middle half of the runs' times."""


class Kernels(msgspec.Struct, frozen=True):
    """Kernels of one run with their times, from the runtime's own profiler."""

    runs: int
    run_ms: float
    """Median time of whole runs with profiling."""
    plain_ms: float | None
    """Median time of runs without profiling, interleaved with the others; None if it was not measured."""
    kernels: tuple[Kernel, ...]
    """Kernels in the order of execution, if it is known."""
    reason: str = ""
    """Reason that there are no kernels; empty if there are some."""


class Session(Protocol):
    """A model loaded by a backend; the results of a run stay valid after the next run."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def placement(self) -> Placement | None:
        """Placement of the nodes; None if there is only one device, or the runtime does not report it."""

    def run(self, feeds: Feeds) -> dict[str, Array]: ...
    def close(self) -> None: ...


class Loader(Protocol):
    def __call__(
        self, path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()
    ) -> Session:
        """Loads a model; raises a ModelError, a UsageError (unknown option) or a MissingExtraError.

        Strict: a ModelError where a node would run elsewhere than on what the backend is named after.
        `custom_ops` are the paths of libraries with operators of the user's own.
        """


class Timer(Protocol):
    def __call__(
        self, path: Path, options: Options, feeds: Feeds, custom_ops: tuple[str, ...] = ()
    ) -> dict[str, float]:
        """Returns the milliseconds of one run by provider or device; loads the model again."""


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
        """Returns the time of each kernel; loads the model again, and stops after `limit_s` and a few runs."""


@dataclass(frozen=True, slots=True)
class EightBits:
    """Rules of how a backend runs quantized models and how they must be written for it."""

    style: Literal["through", "inputs", "none"] = "inputs"
    """The extent of eight bits: `through` quantizes inputs and results of products and the operations between
    them, `inputs` only the inputs of products; `none` means that the backend has no 8-bit product."""
    symmetric: bool = False
    """Whether the zero point of an activation must be the middle of its type."""
    signed: bool = False
    """Whether activations are int8 whatever the settings say."""
    everywhere: bool = False
    """Whether floats are slow or not supported, so that all operations, inputs and outputs are quantized."""
    transposed: bool = True
    """Whether transposed convolutions are computed in eight bits."""
    sixteen: bool = True
    """Whether activations are rounded to sixteen bits, even if the product computes in float."""


ON_INPUTS = EightBits()


@dataclass(frozen=True, slots=True)
class Backend:
    """One runtime with one execution provider or device, as plain functions."""

    name: str
    title: str
    formats: tuple[str, ...]
    """Suffixes of the files that it loads: `.onnx`, `.xml`."""
    available: Callable[[], Available | Unavailable]
    supports: Callable[[Path], Coverage]
    load: Loader
    options: type[msgspec.Struct]
    """Options of the backend; `edgeopt.backends.options.described` lists them."""
    times: Timer | None = None
    """Time by provider or device; None if the runtime does not report it."""
    op_times: OpTimer | None = None
    """Time of each kernel; None if the runtime does not report it."""
    package: str | None = None
    """The Python package of the runtime, so that a trial can time loading a model without the import; None for a
    backend that computes nothing, which lists and searches leave out."""
    converts_within: bool = False
    """Whether kernels convert between float and eight bits within themselves, at next to no cost."""
    device: str = ""
    """Name of the execution provider or of OpenVINO's device, in the runtime's terms."""
    on_processor: bool = False
    """Whether models run on the processor, which the measured peaks of a device describe."""
    chooses_device: bool = False
    """Whether the runtime chooses one of several devices by itself."""
    channels_last: bool = False
    """Whether convolutions take channels last, so that the runtime transposes around each group of nodes."""
    eight_bits: EightBits = ON_INPUTS


def check_feeds(inputs: tuple[TensorInfo, ...], feeds: Feeds) -> str | None:
    """Returns the problem of feeds as a sentence, or None; slow, so only called after a failed run."""
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
                difference = f"the shape {list(info.shape)}, not {list(array.shape)}"
                return f"The input '{info.name}' must have {difference}."
    return None


def installed(module: str, distributions: tuple[str, ...], extra: str) -> Available | Unavailable:
    """Returns the version of a module that several distributions may contain (onnxruntime, onnxruntime-gpu,
    ...)."""
    found = find_spec(module)
    # A module without an origin is only a folder of that name, perhaps in the working directory.
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
    """Returns the feeds as arrays in this machine's byte order; raises a DataError for unsuitable feeds."""
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
    """Returns a sentence about the nodes that fell back, or None if none did."""
    if placement is None or not placement.fallen:
        return None
    fallen, count = placement.fallen, len(placement.fallen)
    total = max(sum(placement.nodes.values()), count)
    others = ", ".join(name for name, nodes in placement.nodes.items() if nodes and name != placement.wanted)
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    where = f" but on {others}" if others else ""
    return f"{count} of {total} nodes do not run on {placement.wanted}{where}: {', '.join(fallen[:_NAMED])}{more}"


def refuse_fallback(placement: Placement | None, path: Path) -> None:
    """Raises a ModelError if nodes fell back; an unknown placement passes."""
    reason = fallback(placement)
    if reason is not None:
        raise ModelError(
            f"'{path.name}': {reason}.",
            "Load it without 'strict' to let them run there, or choose a backend that runs all of it.",
        )


def run_all(
    path: Path, feeds: Sequence[Mapping[str, Array]], backend: Backend, options: Options | None = None
) -> list[dict[str, Array]]:
    """Returns a model's outputs on every sample."""
    session = backend.load(path, options or {})
    try:
        return [session.run(sample) for sample in feeds]
    finally:
        session.close()


# OpenVINO computes floats in bf16 by default if the processor supports it.
_FULL_PRECISION: Mapping[str, Mapping[str, str]] = MappingProxyType({"openvino-cpu": {"precision": "f32"}})


def full_precision(backend: str) -> dict[str, str]:
    """Returns the options with which a runtime computes floats in the model's own precision; empty if that is its
    default.

    References must be computed with these options: a reference in fewer bits would pass candidates in fewer bits
    and fail more exact ones.
    """
    return dict(_FULL_PRECISION.get(backend, {}))


def in_full_precision(backend: Backend) -> Backend:
    """Returns the backend with sessions in full precision, unless their options say otherwise."""
    defaults = full_precision(backend.name)
    if not defaults:
        return backend

    def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
        return backend.load(path, {**defaults, **options}, strict=strict, custom_ops=custom_ops)

    return replace(backend, load=load)
