"""The ranges of a model's activations, found on samples, and findings about the samples."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array, Options
from edgeopt.data.samples import Samples
from edgeopt.events import Emit, Progress, ignore
from edgeopt.platform.memory import resident_bytes
from edgeopt.quant.findings import findings_of
from edgeopt.quant.ranges import Histogram, Method, ObservedRange, count, empty, method_named, range_of
from edgeopt.quant.records import QuantFinding, QuantSettings, Range
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    import onnx_ir as ir


Run = Callable[[Mapping[str, Array]], dict[str, Array]]

# Bytes of one sample's activations held at a time; a model with more is run several times per sample.
CHUNK_BYTES = 128 << 20
# Basic optimization only, because fusions would remove inner tensors; and without an arena the memory of a run is
# freed with its last result.
_OPTIONS: Options = {"graph_level": "basic", "arena": False}


@contextmanager
def watched(model: "ir.Model", names: Sequence[str]) -> Iterator[Run | None]:
    """Yields a function that runs the model and returns these results of nodes; None if `names` is empty."""
    if not names:
        yield None
        return
    from edgeopt.backends import backend_named
    from edgeopt.graph.copies import with_outputs
    from edgeopt.graph.files.saving import save

    with temporary_folder("work") as folder:
        path = Path(folder) / "watched.onnx"
        save(with_outputs(model, names), path)
        session = backend_named("onnxruntime-cpu").load(path, _OPTIONS)
        try:
            yield session.run
        finally:
            session.close()


def chunks_of(shapes: Mapping[str, tuple[int, ...] | None]) -> list[list[str]]:
    """Groups tensors so that the values of a group fit into CHUNK_BYTES; an unknown shape takes an eighth."""
    chunks: list[list[str]] = []
    room = 0
    for name, shape in shapes.items():
        size = CHUNK_BYTES // 8 if shape is None else 4 * math.prod(shape)
        if not chunks or size > room:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(name)
        room -= size
    return chunks


PHASE = "calibrating"
# Smaller values make a useless histogram, and its scale would exceed float32.
_SMALLEST_REACH = 1e-30
_CHANNELS_FIRST = (
    *("Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN"),
    *("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "DepthToSpace", "SpaceToDepth"),
)


@dataclass(frozen=True, slots=True)
class Observed:
    seen: Mapping[str, ObservedRange]
    """The observed range of each tensor, in the order in which the model computes them."""
    extremes_s: float
    histograms_s: float
    peak_bytes: int | None
    """Peak resident memory above that before the runs, in bytes; None if the system does not report it."""


@dataclass(slots=True)
class _Gathered:
    """The statistics of one tensor, collected sample by sample."""

    axis: int | None
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    channel_lows: Array | None = None
    channel_highs: Array | None = None
    not_finite: list[int] = field(default_factory=list)
    elements: int = 0
    histogram: Histogram | None = None


def observe(
    model_path: Path, samples: Samples, tensors: Sequence[str], histograms: bool = False, emit: Emit = ignore
) -> Observed:
    """Returns the observed ranges of inputs or node results of the main graph.

    The model runs once for the extremes, and a second time for histograms, because their borders are then known
    and no bin has to be split or merged. Values are held for one sample and some of the tensors at a time.
    """
    from edgeopt.graph.model import load

    model = load(model_path).ir
    observed = _find_values(model, samples, tensors)
    tallies = {name: _Gathered(_channel_axis(value)) for name, value in observed.items()}
    inputs = [name for name in observed if name in samples.arrays]
    chunks = chunks_of({name: _sizes(value) for name, value in observed.items() if name not in inputs}) or [[]]
    looks = (_extremes, _counts)[: 2 if histograms else 1]
    clock = _Clock(
        emit, f"{len(observed)} tensors, {len(samples)} samples", len(samples) * len(looks) * len(chunks)
    )
    for number, chunk in enumerate(chunks):
        with watched(model, chunk) as run:
            for look in looks:
                for index in range(len(samples)):
                    feeds = samples.feeds(index)
                    for name, values in _values(run, feeds, chunk, inputs if number == 0 else (), clock):
                        look(tallies[name], index, values)
                    clock.tick(counting=look is _counts)
    seen = {name: _seen(name, tally) for name, tally in tallies.items()}
    return Observed(seen, clock.extremes_s, clock.histograms_s, clock.peak_bytes)


class _Clock:
    """The progress, the time and the peak memory of an observation."""

    def __init__(self, emit: Emit, what: str, total: int) -> None:
        self._emit, self._what, self._total, self._count = emit, what, total, 0
        self._begin = self._latest = time.perf_counter()
        self._before = resident_bytes(os.getpid())
        self.extremes_s = self.histograms_s = 0.0
        self.peak_bytes = None if self._before is None else 0

    def look(self) -> None:
        """Updates the peak memory; called when the results of a run are in memory."""
        resident = resident_bytes(os.getpid())
        if resident is not None and self._before is not None and self.peak_bytes is not None:
            self.peak_bytes = max(self.peak_bytes, resident - self._before)

    def tick(self, counting: bool) -> None:
        """Counts one finished sample and emits the progress."""
        now = time.perf_counter()
        if counting:
            self.histograms_s += now - self._latest
        else:
            self.extremes_s += now - self._latest
        self._latest = now
        self._count += 1
        left_s = (now - self._begin) / self._count * (self._total - self._count)
        self._emit(Progress(PHASE, self._what, self._count, self._total, time_left_s=left_s))


def _values(
    run: Run | None, feeds: Mapping[str, Array], chunk: Sequence[str], inputs: Sequence[str], clock: "_Clock"
) -> Iterator[tuple[str, Array]]:
    """Yields one tensor after the other, so that each is freed before the next."""
    for name in inputs:
        yield name, feeds[name]
    if run is None:
        return
    results = run(feeds)
    clock.look()
    for name in chunk:
        yield name, results.pop(name)


def _extremes(tally: _Gathered, index: int, values: Array) -> None:
    tally.elements = tally.elements or values.size
    if values.size == 0:
        tally.lows.append(0.0)
        tally.highs.append(0.0)
        return
    lows, highs = _by_channel(values, tally.axis)
    if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
        tally.not_finite.append(index)
        values = np.where(np.isfinite(values), values, 0)
        lows, highs = _by_channel(values, tally.axis)
    tally.lows.append(float(lows.min()))
    tally.highs.append(float(highs.max()))
    if tally.axis is None:
        return
    if tally.channel_lows is None or tally.channel_highs is None:
        tally.channel_lows, tally.channel_highs = lows, highs
    elif len(lows) == len(tally.channel_lows):
        np.minimum(tally.channel_lows, lows, out=tally.channel_lows)
        np.maximum(tally.channel_highs, highs, out=tally.channel_highs)
    else:  # an axis that was taken for that of the channels differs between samples
        tally.axis = tally.channel_lows = tally.channel_highs = None


def _by_channel(values: Array, axis: int | None) -> tuple[Array, Array]:
    """Returns the lowest and highest value of each channel, or of all values; NaN for a channel that holds one."""
    if axis is None or values.ndim <= max(axis, -axis - 1):
        return values.min(keepdims=True).reshape(1), values.max(keepdims=True).reshape(1)
    if axis == -1:
        rows = values.reshape(-1, values.shape[-1])
        return rows.min(axis=0), rows.max(axis=0)
    # Contiguous rows: several times faster than reducing two axes around the channels.
    first, channels = values.shape[0], values.shape[1]
    rows = values.reshape(first * channels, -1)
    return (
        rows.min(axis=1).reshape(first, channels).min(axis=0),
        rows.max(axis=1).reshape(first, channels).max(axis=0),
    )


def _counts(tally: _Gathered, index: int, values: Array) -> None:
    if tally.histogram is None:
        reach = max(max(-low, high) for low, high in zip(tally.lows, tally.highs, strict=True))
        if reach < _SMALLEST_REACH or not tally.elements:
            return
        tally.histogram = empty(reach)
    if index in tally.not_finite:
        values = values[np.isfinite(values)]
    count(tally.histogram, values)


def _seen(name: str, tally: _Gathered) -> ObservedRange:
    return ObservedRange(
        name,
        np.array(tally.lows),
        np.array(tally.highs),
        tally.histogram,
        tally.axis,
        tally.channel_lows,
        tally.channel_highs,
        tuple(tally.not_finite),
        tally.elements,
    )


def _find_values(model: "ir.Model", samples: Samples, tensors: Sequence[str]) -> "dict[str, ir.Value]":
    """Returns the tensors in the model's order, with their shapes for these samples."""
    from edgeopt.graph.copies import values_by_name
    from edgeopt.graph.shapes.infer import infer_shapes

    inferred = model.clone()
    infer_shapes(inferred, {name: tuple(shape) for name, shape in samples.shapes().items()})
    inputs = {str(value.name): value for value in inferred.graph.inputs if value.name in samples.arrays}
    values = inputs | values_by_name(inferred)
    unknown = [name for name in tensors if name not in values]
    if unknown:
        raise LookupError(f"the main graph has no input and no result named '{unknown[0]}'")
    requested = set(tensors)
    return {name: value for name, value in values.items() if name in requested}


def _sizes(value: "ir.Value") -> tuple[int, ...] | None:
    known = value.shape is not None and value.shape.is_static()
    return value.shape.numpy() if known and value.shape is not None else None


def _channel_axis(value: "ir.Value") -> int | None:
    """Returns the axis of the channels; None if it is unknown, or for a computed factor of a MatMul."""
    maker = value.producer()
    around = [use.node for use in value.uses()] + ([maker] if maker is not None else [])
    rank = len(value.shape) if value.shape is not None else None
    if rank is not None and rank < 2:
        return None
    if any(node.op_type in _CHANNELS_FIRST for node in around):
        return 1
    if any(_has_features_last(node) for node in around):
        return -1
    if rank is None or any(node.op_type == "MatMul" for node in around):
        return None
    return 1 if rank >= 4 else -1


def _has_features_last(node: "ir.Node") -> bool:
    if node.op_type == "MatMul":
        return any(factor is not None and factor.is_initializer() for factor in node.inputs)
    return node.op_type in {"Gemm", "LayerNormalization"}


@dataclass(frozen=True, slots=True)
class Calibrated:
    ranges: dict[str, Range]
    """The range of each tensor; tensors that held NaN or infinity have none. Each range contains 0."""
    findings: tuple[QuantFinding, ...]
    seconds: float
    seen: Mapping[str, ObservedRange]
    """The observations from which the ranges were derived, with the extremes of each channel."""


def calibrate(
    model_path: Path,
    samples: Samples,
    tensors: Sequence[str],
    settings: QuantSettings,
    emit: Emit = ignore,
) -> Calibrated:
    """Runs the model on all samples and returns the ranges of these tensors, holding the values of one sample and
    some of the tensors at a time.

    The tensors are inputs or results of nodes of the main graph.
    """
    begin = time.perf_counter()
    method = method_named(settings.calibration)
    observed = observe(model_path, samples, tensors, histograms=method.needs_histogram, emit=emit)
    ranges = ranges_of(observed, method, settings)
    found = findings_of(observed.seen, ranges)
    return Calibrated(ranges, found, time.perf_counter() - begin, observed.seen)


def ranges_of(observed: Observed, method: Method, settings: QuantSettings) -> dict[str, Range]:
    return {name: range_of(method, seen, settings) for name, seen in observed.seen.items() if not seen.not_finite}
