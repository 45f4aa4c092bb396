"""Evens out the channels of activations before eight bits, at the cost of the weights behind them (SmoothQuant).

In transformers a few channels are many times larger than the others; one scale for all leaves those others a few
steps. Divided by factors of their channels, all use the steps, and the weights, which have a scale for each
channel of the result, are multiplied by the same:

    x W  =  (x / f) (f W)

The factors lie between those that even out the activations and those that leave the weights as they are, where the
rounding of both together makes the least noise; where that gains little, there are none.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.nodes import constant
from edgeopt.quant.forms.base import Smoothing
from edgeopt.quant.layers import nodes_by_key
from edgeopt.quant.ranges import Seen
from edgeopt.quant.records import Layer, Range

if TYPE_CHECKING:
    import onnx_ir as ir

OPERATORS = ("MatMul", "Gemm")
_STRENGTHS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_LEAST_GAIN = 0.8
"""Of the noise, what may be left at most; a factor is a node more where a runtime does not fuse it."""
_LARGEST_FACTOR = (
    256.0  # channels that are smaller still hardly count, and weights must stay what half precision holds
)
_PEAK_OVER_DEVIATION = 4.0  # of normal numbers, as many as are looked at
_STEPS_OF_ACTIVATIONS, _STEPS_OF_WEIGHTS = 255.0, 127.0


def smoothing(
    model: "ir.Model", layers: Sequence[Layer], seen: Mapping[str, Seen]
) -> tuple[dict[str, Smoothing], dict[str, Range]]:
    """By layer, the factors of its activations; and the ranges of what these are divided into, by its name.

    Layers that read one tensor share their factors, so that it is divided once.
    """
    nodes = nodes_by_key(model.graph)
    found: dict[str, Smoothing] = {}
    ranges: dict[str, Range] = {}
    for tensor, some in _readers(layers).items():
        told = seen.get(tensor)
        if told is None or told.channel_axis != -1 or told.channel_lows is None or told.channel_highs is None:
            continue
        weights = [_by_input(constant(nodes[layer.nodes[0]].inputs[1]), layer) for layer in some]
        if any(weight is None or len(weight) != len(told.channel_lows) for weight in weights):
            continue
        joined = np.concatenate([weight for weight in weights if weight is not None], axis=1)
        factors = factors_for(told.channel_lows, told.channel_highs, joined)
        if factors is None:
            continue
        name = f"{tensor}/smoothed"
        lows, highs = told.channel_lows / factors, told.channel_highs / factors
        ranges[name] = Range(min(float(lows.min()), 0.0), max(float(highs.max()), 0.0))
        found |= {layer.name: Smoothing(name, factors) for layer in some}
    return found, ranges


def factors_for(lows: Array, highs: Array, weights: Array) -> Array | None:
    """With the least noise for weights in rows of input channels; None where evening out gains too little."""
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
    if noises[best] > _LEAST_GAIN * noises[0.0]:
        return None
    return tried[best].astype(np.float32)


def _factors(peaks: Array, rows: Array, used: Array, share: float) -> Array:
    factors = peaks**share / rows ** (1.0 - share)
    middle = np.exp(np.log(factors[used]).mean())
    return np.where(used, np.clip(factors / middle, 1.0 / _LARGEST_FACTOR, _LARGEST_FACTOR), 1.0)


def _noise(lows: Array, highs: Array, weights: Array) -> float:
    """Of the results, where activations have one scale, and weights one for each channel of the result."""
    step = (max(float(highs.max()), 0.0) - min(float(lows.min()), 0.0)) / _STEPS_OF_ACTIVATIONS
    steps = np.abs(weights).max(axis=0) / _STEPS_OF_WEIGHTS
    power = float(((np.maximum(np.abs(lows), np.abs(highs)) / _PEAK_OVER_DEVIATION) ** 2).sum())
    return float(step**2 * (weights.astype(np.float64) ** 2).sum() + power * (steps**2).sum())


def _readers(layers: Sequence[Layer]) -> dict[str, list[Layer]]:
    """By tensor, the layers that read it and can share factors."""
    found: dict[str, list[Layer]] = {}
    for layer in layers:
        if layer.operator in OPERATORS and layer.weight and not layer.reason and len(layer.inputs) == 1:
            found.setdefault(layer.inputs[0], []).append(layer)
    return found


def _by_input(weight: Array | None, layer: Layer) -> Array | None:
    """With the input's channels first."""
    if weight is None or weight.ndim != 2 or weight.dtype != np.float32 or layer.channel_axis is None:
        return None
    return weight if layer.channel_axis == 1 else weight.T
