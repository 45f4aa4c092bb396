"""Preparation of a float model for eight bits: SmoothQuant, and equalization of channels between layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.errors import UsageError
from edgeopt.graph.ledger import Change, Refusal
from edgeopt.graph.nodes import constant, is_op
from edgeopt.graph.passes.base import plural
from edgeopt.quant.layers import nodes_by_key
from edgeopt.quant.ranges import ObservedRange
from edgeopt.quant.records import Layer, Range
from edgeopt.quant.schemes.base import Smoothing

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class PreparedModel:
    model: "ir.Model"
    """A copy of the model; the given model is unchanged."""
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]
    numbers: Mapping[str, Array] = field(default_factory=dict)
    """The factors that the model was changed with, by node; enough to repeat the change without data."""


OPERATORS = ("MatMul", "Gemm")
_STRENGTHS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_MIN_GAIN = 0.8
"""The largest share of the noise that may remain; a factor costs a node if a runtime does not fuse it."""
_LARGEST_FACTOR = (
    256.0  # channels that are smaller still hardly count, and weights must stay what half precision holds
)
_PEAK_OVER_DEVIATION = 4.0  # of normal numbers, as many as are looked at
_STEPS_OF_ACTIVATIONS, _STEPS_OF_WEIGHTS = 255.0, 127.0


def smoothing(
    model: "ir.Model", layers: Sequence[Layer], seen: Mapping[str, ObservedRange]
) -> tuple[dict[str, Smoothing], dict[str, Range]]:
    """Returns the factors for each layer's activations and the ranges of the divided activations by their names
    (SmoothQuant).

    In transformers a few channels are many times larger than the others, to which one scale for all channels gives
    only a few steps. So activations are divided by a factor for each channel, and the weights, which have a scale
    for each output channel, are multiplied by it: x W = (x / f) (f W). The factors balance the rounding of
    activations and weights so that the noise is least; if that gains little, there are none. Layers that read one
    tensor share their factors, so that it is divided once.
    """
    nodes = nodes_by_key(model.graph)
    found: dict[str, Smoothing] = {}
    ranges: dict[str, Range] = {}
    for tensor, some in _readers(layers).items():
        observed = seen.get(tensor)
        if (
            observed is None
            or observed.channel_axis != -1
            or observed.channel_lows is None
            or observed.channel_highs is None
        ):
            continue
        weights = [_by_input(constant(nodes[layer.nodes[0]].inputs[1]), layer) for layer in some]
        if any(weight is None or len(weight) != len(observed.channel_lows) for weight in weights):
            continue
        joined = np.concatenate([weight for weight in weights if weight is not None], axis=1)
        factors = factors_for(observed.channel_lows, observed.channel_highs, joined)
        if factors is None:
            continue
        name = f"{tensor}/smoothed"
        lows, highs = observed.channel_lows / factors, observed.channel_highs / factors
        ranges[name] = Range(min(float(lows.min()), 0.0), max(float(highs.max()), 0.0))
        found |= {layer.name: Smoothing(name, factors) for layer in some}
    return found, ranges


def factors_for(lows: Array, highs: Array, weights: Array) -> Array | None:
    """Returns the factors with the least noise for weights in rows of input channels; None for a small gain."""
    peaks = np.maximum(np.abs(lows), np.abs(highs)).astype(np.float64)
    rows = np.abs(weights).max(axis=1).astype(np.float64)
    used = (peaks > 0) & (rows > 0)
    if not used.any():
        return None
    peaks, rows = np.where(used, peaks, 1.0), np.where(used, rows, 1.0)
    plain = np.ones_like(peaks)
    tried = {0.0: plain, **{share: _factors(peaks, rows, used, share) for share in _STRENGTHS}}
    noises = {share: _noise(lows / each, highs / each, weights * each[:, None]) for share, each in tried.items()}
    best = min(noises, key=lambda share: noises[share])
    if noises[best] > _MIN_GAIN * noises[0.0]:
        return None
    return tried[best].astype(np.float32)


def _factors(peaks: Array, rows: Array, used: Array, share: float) -> Array:
    factors = peaks**share / rows ** (1.0 - share)
    middle = np.exp(np.log(factors[used]).mean())
    return np.where(used, np.clip(factors / middle, 1.0 / _LARGEST_FACTOR, _LARGEST_FACTOR), 1.0)


def _noise(lows: Array, highs: Array, weights: Array) -> float:
    """Returns the noise of the outputs, with one scale for activations and one per output channel of weights."""
    step = (max(float(highs.max()), 0.0) - min(float(lows.min()), 0.0)) / _STEPS_OF_ACTIVATIONS
    steps = np.abs(weights).max(axis=0) / _STEPS_OF_WEIGHTS
    power = float(((np.maximum(np.abs(lows), np.abs(highs)) / _PEAK_OVER_DEVIATION) ** 2).sum())
    return float(step**2 * (weights.astype(np.float64) ** 2).sum() + power * (steps**2).sum())


def _readers(layers: Sequence[Layer]) -> dict[str, list[Layer]]:
    """Returns the layers that read each tensor and can share factors, by tensor."""
    found: dict[str, list[Layer]] = {}
    for layer in layers:
        if layer.operator in OPERATORS and layer.weight and not layer.reason and len(layer.inputs) == 1:
            found.setdefault(layer.inputs[0], []).append(layer)
    return found


def _by_input(weight: Array | None, layer: Layer) -> Array | None:
    """Returns the weights with the input channels first; None without a float32 matrix and a channel axis."""
    if weight is None or weight.ndim != 2 or weight.dtype != np.float32 or layer.channel_axis is None:
        return None
    return weight if layer.channel_axis == 1 else weight.T


_PASSED_ON = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool")
_PRODUCTS = ("Conv", "Gemm", "MatMul")


def equalized(model: "ir.Model", layers: Sequence[Layer], seen: Mapping[str, ObservedRange]) -> PreparedModel:
    """Returns a copy of the model with evened out channels between layers where that reduces the noise
    (cross-layer equalization).

    Operations between the layers (a Relu, a pool) pass factors of channels on, so the weights before are divided
    by factors and the weights behind are multiplied by them, at no cost when the model runs; the float outputs
    stay the same. The factors are chosen as in `smoothing`. The ranges of the tensors that were observed before do
    not apply to the returned model.
    """
    copy = model.clone()
    nodes = nodes_by_key(copy.graph)
    own = {
        nodes[layer.nodes[0]] for layer in layers if layer.weight and not layer.reason and len(layer.nodes) == 1
    }
    changed: dict[str, Array] = {}
    for key, node in nodes.items():
        if node not in own or not is_op(node, *_PRODUCTS):
            continue
        end = _end_of(node)
        behind = _behind(node, end, own)
        observed = seen.get(str(end.name))
        if not behind or observed is None or observed.channel_lows is None or observed.channel_highs is None:
            continue
        weights = np.concatenate([_sizes_by_input(each) for each in behind], axis=1)
        axis = 1 if is_op(node, "Conv") else -1
        if observed.channel_axis != axis or len(observed.channel_lows) != len(weights):
            continue
        factors = factors_for(observed.channel_lows, observed.channel_highs, weights)
        if factors is None:
            continue
        _divide(node, factors)
        for each in behind:
            _multiply(each, factors)
        changed[key] = factors
    what = f"equalized the channels of {plural(len(changed), 'product')}"
    return PreparedModel(copy, (Change(what, tuple(changed)),) if changed else (), (), changed)


def evened_out(model: "ir.Model", layers: Sequence[Layer], factors: Mapping[str, Array]) -> "ir.Model":
    """Returns a copy of the model with the recorded factors, by node; raises a UsageError if they do not fit."""
    copy = model.clone()
    nodes = nodes_by_key(copy.graph)
    own = {nodes[layer.nodes[0]] for layer in layers if layer.weight and len(layer.nodes) == 1}
    for key, found in factors.items():
        node = nodes.get(key)
        behind = _behind(node, _end_of(node), own) if node in own and is_op(node, *_PRODUCTS) else ()
        if node is None or not behind or any(len(_sizes_by_input(each)) != len(found) for each in behind):
            raise UsageError(
                f"The channels of '{key}' cannot be equalized as recorded.",
                "The model or the edgeopt version differs; `edgeopt optimize` makes a new bundle.",
            )
        _divide(node, found)
        for each in behind:
            _multiply(each, found)
    return copy


def _end_of(node: "ir.Node") -> "ir.Value":
    """Returns the output of the last operation behind a node that passes channel factors to a single reader."""
    value = node.outputs[0]
    while True:
        readers = list(value.uses())
        if len(readers) != 1 or value.is_graph_output() or not is_op(readers[0].node, *_PASSED_ON):
            return value
        if is_op(node, "Gemm", "MatMul") and not is_op(readers[0].node, "Relu", "LeakyRelu"):
            return value
        value = readers[0].node.outputs[0]


def _behind(node: "ir.Node", end: "ir.Value", own: "set[ir.Node]") -> "tuple[ir.Node, ...]":
    """Returns the products that read the end; none if other nodes read it too, or weights are shared."""
    readers = list(end.uses())
    if end.is_graph_output() or any(use.idx != 0 or use.node not in own for use in readers):
        return ()
    behind = tuple(use.node for use in readers)
    if any(not is_op(each, *_PRODUCTS) or is_op(each, "Conv") != is_op(node, "Conv") for each in behind):
        return ()
    parts = [*node.inputs[1:], *(each.inputs[1] for each in behind)]
    alone = all(_is_own(value) for value in parts if value is not None)
    return behind if alone and all(_is_plain(each) for each in (node, *behind)) else ()


def _is_plain(node: "ir.Node") -> bool:
    """Whether a product has a matrix of weights, a bias that is the same in all rows, and input channels last."""
    weight = constant(node.inputs[1])
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    matrix = is_op(node, "Conv") or (weight is not None and weight.ndim == 2)
    return (
        matrix
        and not node.attributes.get_int("transA", 0)
        and (bias is None or bias.ndim < 2 or bias.shape[0] == 1)
    )


def _is_own(value: "ir.Value") -> bool:
    """Whether a value is a float32 weight in the graph that only one node reads."""
    array = constant(value)
    alone = value.is_initializer() and len(value.uses()) == 1 and not value.is_graph_output()
    return alone and array is not None and array.dtype == np.float32


def _sizes_by_input(node: "ir.Node") -> Array:
    """Returns the magnitudes of the weights, as a matrix from input channels to outputs."""
    weight = constant(node.inputs[1])
    assert weight is not None  # noqa: S101 - tells mypy; `_is_own` has seen it
    if not is_op(node, "Conv"):
        return weight.T if node.attributes.get_int("transB", 0) else weight
    groups = node.attributes.get_int("group", 1)
    sizes = np.sqrt((weight.reshape(*weight.shape[:2], -1).astype(np.float64) ** 2).sum(axis=2))
    results, inputs = sizes.shape
    matrix = np.zeros((inputs * groups, results))
    for group in range(groups):
        rows = slice(group * results // groups, (group + 1) * results // groups)
        matrix[group * inputs : (group + 1) * inputs, rows] = sizes[rows].T
    return matrix


def _divide(node: "ir.Node", factors: Array) -> None:
    """Divides the output of a product by factors, through its weights and its bias."""
    value, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    array = constant(value)
    assert value is not None and array is not None  # noqa: S101, PT018 - tells mypy; `_is_own` has seen it
    results_first = is_op(node, "Conv") or bool(node.attributes.get_int("transB", 0))
    _set(value, array / (factors.reshape(-1, *[1] * (array.ndim - 1)) if results_first else factors))
    if bias is not None and (added := constant(bias)) is not None:
        _set(bias, added / factors)


def _multiply(node: "ir.Node", factors: Array) -> None:
    """Multiplies the weights of a product by the factors of its input channels."""
    value = node.inputs[1]
    array = constant(value)
    assert value is not None and array is not None  # noqa: S101, PT018 - tells mypy; `_is_own` has seen it
    if is_op(node, "Conv"):
        groups = node.attributes.get_int("group", 1)
        each = np.repeat(factors.reshape(groups, -1), array.shape[0] // groups, axis=0)
        _set(value, array * each.reshape(*array.shape[:2], *[1] * (array.ndim - 2)))
    elif node.attributes.get_int("transB", 0):
        _set(value, array * factors)
    else:
        _set(value, array * factors[:, None])


def _set(value: "ir.Value", array: Array) -> None:
    import onnx_ir as ir

    value.const_value = ir.tensor(np.ascontiguousarray(array, np.float32), name=value.name)
