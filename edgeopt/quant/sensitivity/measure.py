"""The error of each scheme of each layer: at the layer itself, and at the outputs of the model.

The noisiest scheme of each layer is run. The errors of other schemes are estimated from the share of local noise
that reaches the outputs, and measured if they matter. A few samples show which do; these are run on all samples,
while time remains.
"""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import EQUAL_DB, SILENT_POWER, compare_outputs
from edgeopt.quant.records import FLOAT, Sensitivity
from edgeopt.quant.sensitivity.switchboard import Fakes, GatedModel, session

if TYPE_CHECKING:
    import onnx_ir as ir


Pair = tuple[str, str]
Meter = tuple[str, str, str]
"""Names of layer, scheme and node."""


def local_noise(board: GatedModel, samples: Samples) -> dict[Pair, float]:
    """Returns the ratio of noise power to signal power at the layers' own outputs for each layer and scheme, with
    the float model's inputs and over all samples.

    All schemes are computed beside their layers in one run per sample, which returns only sums of squares. Only
    the factors are rounded: rounding the result as well would include errors that a Relu behind it cuts off.
    """
    if not board.pairs:
        return {}
    model, meters = _with_meters(board)
    running = session(model, 0)
    sums = dict.fromkeys(meters, 0.0)
    for place in range(len(samples)):
        for meter, value in zip(meters, running.run(None, samples.feeds(place)), strict=True):
            sums[meter] += float(value)
    totals: dict[Pair, float] = {}
    for (layer, scheme, _), value in sums.items():
        totals[layer, scheme] = totals.get((layer, scheme), 0.0) + value
    return {pair: _ratio(totals[pair], totals[pair[0], FLOAT]) for pair in board.pairs}


def _ratio(noise: float, signal: float) -> float:
    if not (math.isfinite(noise) and math.isfinite(signal)):
        return math.inf
    return noise / signal if signal else (math.inf if noise else 0.0)


def _with_meters(board: GatedModel) -> "tuple[ir.Model, list[Meter]]":
    """Returns a copy of the model that outputs sums of squares of each product and of its errors."""
    from onnx_ir.passes import common

    from edgeopt.graph.nodes import quiet
    from edgeopt.quant.layers import nodes_by_key

    copy = board.model.clone()
    nodes = nodes_by_key(copy.graph)
    fakes = Fakes(board.model, copy, board.context)
    sums: dict[Meter, ir.Value] = {}
    for layer in board.layers:
        for key in layer.nodes:
            node = nodes[key]
            exact = node.outputs[0]
            last, sums[layer.name, FLOAT, key] = _summed(copy.graph, node, exact, None)
            for scheme in board.schemes[layer.name]:
                made, (faked, *_) = fakes.nodes(key, layer, scheme, round_outputs=False)
                copy.graph.insert_after(last, made)
                last, sums[layer.name, scheme.name, key] = _summed(copy.graph, made[-1], faked, exact)
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(sums.values())
    with quiet():
        common.RemoveUnusedNodesPass()(copy)
    return copy, list(sums)


def _summed(
    graph: "ir.Graph", behind: "ir.Node", value: "ir.Value", exact: "ir.Value | None"
) -> "tuple[ir.Node, ir.Value]":
    """Adds the sum of squares of a value, or of its error; returns the last node and the sum."""
    import onnx_ir as ir

    nodes = [ir.node("Sub", [value, exact])] if exact is not None else []
    square = ir.node("ReduceSumSquare", [nodes[0].outputs[0] if nodes else value], {"keepdims": 0})
    for node in (*nodes, square):
        node.outputs[0].name = f"edgeopt/{node.op_type}/{value.name}"
    square.outputs[0].type, square.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([])
    graph.insert_after(behind, [*nodes, square])
    return square, square.outputs[0]


PHASE = "sensitivity"
LIMIT_S = 20.0
_FIRST_SAMPLES = 2
# Ratios to the floor's noise: a layer below the first costs almost nothing, and one above the second stays float.
_FAR_BELOW, _FAR_ABOVE = 1e-3, 30.0
_WORST = 10 ** (EQUAL_DB / 10)
"""A finite maximum, because JSON has no infinity."""


def sensitivities(
    board: GatedModel,
    samples: Samples,
    reference: Sequence[Mapping[str, Array]] | None = None,
    emit: Emit = ignore,
    *,
    floor_db: float | None = None,
    limit_s: float = LIMIT_S,
) -> tuple[Sensitivity, ...]:
    """Returns the error of each layer and scheme of the board, in its order.

    `reference` are the float model's outputs, by default the board's own with all switches off. `floor_db` is the
    floor of the plan: layers that are far from it get few samples.
    """
    until = time.monotonic() + limit_s
    local = local_noise(board, samples)
    leading = {layer.name: _noisiest(board, layer.name, local) for layer in board.layers}
    study = _Study(board, samples, until, emit, local)
    with ThreadPoolExecutor(board.workers) as pool:
        try:
            study.begin(pool, reference)
            first = range(min(_FIRST_SAMPLES, len(samples)))
            study.run(pool, [(pair, k) for k in first for pair in leading.items()], must=True)
            estimated = {pair: study.estimate(pair, leading) for pair in board.pairs}
            matter = [pair for pair in board.pairs if _matters(estimated[pair], floor_db)]
            rest = range(len(samples))
            study.run(pool, [(pair, k) for k in rest for pair in matter if k not in study.noise[pair]])
        finally:
            pool.shutdown(cancel_futures=True)
    return tuple(study.sensitivity(pair, leading) for pair in board.pairs)


def _noisiest(board: GatedModel, layer: str, local: Mapping[Pair, float]) -> str:
    return max((scheme.name for scheme in board.schemes[layer]), key=lambda scheme: local[layer, scheme])


def _matters(noise: Sequence[float], floor_db: float | None) -> bool:
    if floor_db is None:
        return True
    allowed = 10 ** (-floor_db / 10)
    return allowed * _FAR_BELOW <= max(noise, default=0.0) <= allowed * _FAR_ABOVE


@dataclass(slots=True)
class _Study:
    """Runs of layers in single schemes, with their results."""

    board: GatedModel
    samples: Samples
    until: float
    emit: Emit
    local: Mapping[Pair, float]
    exact: list[dict[str, Array]] = field(default_factory=list)
    signal: list[list[float]] = field(default_factory=list)
    """The signal power of each output, by sample."""
    noise: dict[Pair, dict[int, list[float]]] = field(default_factory=dict)
    """The noise power of each output, by pair and sample."""

    def begin(self, pool: ThreadPoolExecutor, reference: Sequence[Mapping[str, Array]] | None) -> None:
        self.noise = {pair: {} for pair in self.board.pairs}
        if reference is None:
            places = range(len(self.samples))
            self.exact = list(pool.map(lambda k: self.board.run({}, self.samples.feeds(k)), places))
        else:
            self.exact = [dict(one) for one in reference]
        self.signal = [_powers(one, one)[1] for one in self.exact]

    def run(self, pool: ThreadPoolExecutor, jobs: Sequence[tuple[Pair, int]], *, must: bool = False) -> None:
        """Runs these jobs; without `must`, only until the time limit."""
        begin = time.monotonic()

        def one(job: tuple[Pair, int]) -> tuple[tuple[Pair, int], list[float] | None]:
            if not must and time.monotonic() > self.until:
                return job, None
            (layer, scheme), place = job
            got = self.board.run({layer: scheme}, self.samples.feeds(place))
            return job, _powers(self.exact[place], got)[0]

        for done, ((pair, place), noise) in enumerate(pool.map(one, jobs), 1):
            if noise is None:
                return
            self.noise[pair][place] = noise
            if done % 16 == 0 or done == len(jobs):
                self._tell(done, len(jobs), begin, must=must)

    def _tell(self, done: int, total: int, begin: float, *, must: bool) -> None:
        spent = time.monotonic() - begin
        left = spent / done * (total - done)
        left = left if must else min(left, max(self.until - time.monotonic(), 0.0))
        what = "each layer alone" if must else "the layers that matter, on more samples"
        self.emit(Progress(PHASE, what, done, total, time_left_s=left))

    def measured(self, pair: Pair) -> list[float] | None:
        """The noise of a pair at each output relative to the signal there, over the samples that it was run on."""
        found = self.noise[pair]
        if not found:
            return None
        noise = [math.fsum(column) for column in zip(*found.values(), strict=True)]
        signal = [math.fsum(column) for column in zip(*(self.signal[k] for k in found), strict=True)]
        return [min(n / max(s, SILENT_POWER), _WORST) for n, s in zip(noise, signal, strict=True)]

    def estimate(self, pair: Pair, leading: Mapping[str, str]) -> list[float]:
        """Measured, or from the layer's leading scheme: noise arrives in proportion to what there is of it."""
        known = self.measured(pair)
        if known is not None:
            return known
        whole = pair[0], leading[pair[0]]
        reached = self.measured(whole)
        assert reached is not None  # noqa: S101 - the leading schemes are run first
        share = self.local[pair] / self.local[whole] if self.local[whole] else 0.0
        return [min(noise * share, _WORST) for noise in reached]

    def sensitivity(self, pair: Pair, leading: Mapping[str, str]) -> Sensitivity:
        noise = self.estimate(pair, leading)
        return Sensitivity(
            *pair,
            tuple(noise),
            decibels_of(max(noise, default=0.0)),
            decibels_of(self.local[pair]),
            measured=bool(self.noise[pair]),
        )


def decibels_of(noise: float) -> float:
    """Returns a ratio of noise to signal as decibels, limited to ±EQUAL_DB."""
    if noise <= 0:
        return EQUAL_DB
    if not math.isfinite(noise):
        return -EQUAL_DB
    return max(-EQUAL_DB, min(EQUAL_DB, -10 * math.log10(noise)))


def _powers(exact: Mapping[str, Array], got: Mapping[str, Array]) -> tuple[list[float], list[float]]:
    """Returns the noise power and the signal power of each output in one sample."""
    noise, signal = [], []
    for name, expected in exact.items():
        if (
            isinstance(expected, np.ndarray)
            and expected.dtype.kind == "f"
            and np.shape(got[name]) == expected.shape
        ):
            flat = expected.astype(np.float64).ravel()
            apart = got[name].astype(np.float64).ravel() - flat
            n, s = float(np.dot(apart, apart)), float(np.dot(flat, flat))
            if math.isfinite(n) and math.isfinite(s):
                noise.append(n)
                signal.append(s)
                continue
        each = compare_outputs([{name: expected}], [{name: got[name]}])
        noise.append(math.inf if each.problem else sum(sum(o.noise_power) for o in each.outputs))
        signal.append(sum(sum(o.signal_power) for o in each.outputs))
    return noise, signal
