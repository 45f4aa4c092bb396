"""Chooses which weights round up and which down, so that the errors of a product cancel on the data it sees.

Weights are rounded one input after the other, and what each does to the results is made up for by the inputs that
are still to come, as far as data say that they go together (the closed form of GPTQ: Frantar and others, 2022).
Nothing is trained: the second moments of a layer's inputs, streamed, say all there is to know.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.ledger import Change, Refusal
from edgeopt.graph.nodes import constant
from edgeopt.graph.passes.base import plural
from edgeopt.quant.forms import Form, FormContext, form_named
from edgeopt.quant.forms.block_writing import block_size
from edgeopt.quant.forms.blocks import as_matrix, in_blocks
from edgeopt.quant.forms.qdq import axis_of, largest, scales_of
from edgeopt.quant.forms.steps import along
from edgeopt.quant.layers import nodes_by_key
from edgeopt.quant.records import FLOAT, Layer
from edgeopt.quant.watched import watched

if TYPE_CHECKING:
    import onnx_ir as ir

PHASE = "rounding weights"
MOST_INPUTS = 2048
# A share of the mean second moment: data of few samples say more of themselves than of all others.
_DAMPING = 0.01
_STEP = 64
# More take longer and change hardly a weight.
_ENOUGH_ROWS = 2048
_MOST_BYTES = 256 << 20
_BITS = {"int8-groups": 8, "w8": 8, "w4": 4}
_CALIBRATED = ("int8", "a16w8", "int8-dynamic")


@dataclass(frozen=True, slots=True)
class Rounded:
    weights: dict[str, Array]
    """By name, for `FormContext.weights`: floats that the form holds without an error."""
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]


def rounding(
    model: "ir.Model",
    layers: Sequence[Layer],
    choices: Mapping[str, str],
    context: FormContext,
    samples: Samples,
    emit: Emit = ignore,
    limit_s: float | None = None,
) -> Rounded:
    """Weights for these choices in this context; layers that come after the time limit keep the nearest values."""
    begin = time.monotonic()
    chosen = [layer for layer in layers if choices.get(layer.name, FLOAT) != FLOAT]
    refused = [
        Refusal(reason, (layer.name,)) for layer in chosen if (reason := _reason(layer, choices[layer.name]))
    ]
    able = [layer for layer in chosen if not _reason(layer, choices[layer.name])]
    weights: dict[str, Array] = {}
    done: list[str] = []
    values = {value.name: value for value in model.graph.initializers.values()}
    nodes = nodes_by_key(model.graph)
    for number, layer, moments in _moments(model, able, samples):
        emit(Progress(PHASE, layer.name, number, len(able)))
        if limit_s is not None and time.monotonic() - begin > limit_s:
            refused.append(Refusal("the time was up", (layer.name,)))
            continue
        weight = context.weights.get(layer.weight)
        if weight is None:
            weight = constant(values.get(layer.weight, nodes[layer.nodes[0]].inputs[1]))
        found = _rounded(np.asarray(weight, np.float32), layer, form_named(choices[layer.name]), context, moments)
        if found is None:
            refused.append(Refusal("the nearest values are just as accurate", (layer.name,)))
        else:
            weights[layer.weight] = found
            done.append(layer.name)
    what = f"chose the rounding direction of the weights of {plural(len(done), 'product')}"
    return Rounded(weights, (Change(what, tuple(done)),) if done else (), tuple(refused))


def _reason(layer: Layer, form: str) -> str:
    """Why a layer's weights keep the nearest values, as the end of a sentence."""
    if not layer.weight or len(layer.weight_shape) != 2 or layer.operator not in ("MatMul", "Gemm"):
        return "it is not a product with a weight matrix"
    if layer.channel_axis is None or (form not in _BITS and form not in _CALIBRATED):
        return f"{form} has no steps to choose from"
    inputs = layer.weight_shape[1 - layer.channel_axis]
    return f"it has {inputs} inputs, more than {MOST_INPUTS}" if inputs > MOST_INPUTS else ""


def _moments(model: "ir.Model", layers: Sequence[Layer], samples: Samples) -> "Iterator[tuple[int, Layer, Array]]":
    """For each layer the second moments of its inputs, [inputs, inputs]; some layers at a time."""
    number = 0
    for part in _parts(layers):
        names = list(dict.fromkeys(name for layer in part for name in layer.inputs))
        sums: dict[str, Array] = {}
        given = [name for name in names if name in samples.arrays]
        with watched(model, [name for name in names if name not in given]) as run:
            for index in range(len(samples)):
                feeds = samples.feeds(index)
                results = {**(run(feeds) if run is not None else {}), **{name: feeds[name] for name in given}}
                for name in names:
                    rows = results.pop(name)
                    flat = _some(rows.reshape(-1, rows.shape[-1]), len(samples)).astype(np.float32)
                    sums[name] = sums[name] + flat.T @ flat if name in sums else flat.T @ flat
        for layer in part:
            yield number, layer, np.sum([sums[name] for name in layer.inputs], axis=0)
            number += 1


def _some(rows: Array, samples: int) -> Array:
    """Rows evenly spread over those of one sample, so that all samples together give enough."""
    return rows[:: max(1, len(rows) * samples // _ENOUGH_ROWS)]


def _parts(layers: Sequence[Layer]) -> list[list[Layer]]:
    parts: list[list[Layer]] = []
    room = 0
    for layer in layers:
        size = 4 * layer.weight_shape[1 - (layer.channel_axis or 0)] ** 2
        if not parts or size > room:
            parts.append([])
            room = _MOST_BYTES
        parts[-1].append(layer)
        room -= size
    return parts


def _rounded(weight: Array, layer: Layer, form: Form, context: FormContext, moments: Array) -> Array | None:
    """None where the result is no better, or where the form would take other steps for it."""
    matrix = as_matrix(weight, layer)
    scales, low, high, pinned = _steps(weight, layer, form, context)
    rounded = round_by_moments(matrix, scales, low, high, pinned, moments)
    found = np.ascontiguousarray(rounded.T if layer.channel_axis == 0 else rounded)
    held, nearest = form.fake_weights(found, layer, context), form.fake_weights(weight, layer, context)
    if not np.allclose(held, found, rtol=1e-5, atol=1e-7 * float(np.abs(weight).max())):
        return None
    errors = [_error(as_matrix(each, layer) - matrix, moments) for each in (held, nearest)]
    return found if errors[0] < errors[1] else None


def _error(off: Array, moments: Array) -> float:
    return float(np.sum(off * (moments @ off)))


def _steps(weight: Array, layer: Layer, form: Form, context: FormContext) -> tuple[Array, int, int, Array]:
    """The size of a step for each weight [inputs, outputs], the lowest and highest integers, and the weights that
    the scales come from, which keep their values."""
    matrix = as_matrix(weight, layer)
    if form.name in _BITS:
        blocks = in_blocks(matrix, block_size(layer, context), _BITS[form.name])
        scales = np.repeat(blocks.scales, blocks.size, axis=0)[: len(matrix)]
        size, high = blocks.size, (1 << (blocks.bits - 1)) - 1
        low = -high if blocks.bits > 4 else -high - 1
    else:
        spread = along(scales_of(weight, layer, context), axis_of(layer, context), weight.ndim)
        scales = as_matrix(np.broadcast_to(spread, weight.shape), layer)
        size, high = len(matrix), largest(context)
        low = -high
    pinned = np.zeros(matrix.shape, bool)
    for begin in range(0, len(matrix), size):
        extreme = np.abs(matrix[begin : begin + size]).argmax(axis=0)
        pinned[begin + extreme, np.arange(matrix.shape[1])] = True
    return np.asarray(scales, np.float32), low, high, pinned


def _triangle(moments: Array) -> Array:
    """Row k says how the inputs after k make up for an error of input k; input 0 is rounded first."""
    size = max(float(np.trace(moments)) / len(moments), 1e-30)
    there = moments / np.float32(size)
    there[np.diag_indices(len(there))] += np.float32(_DAMPING)
    for kind in (np.float32, np.float64):
        try:
            upper = np.linalg.cholesky(np.linalg.inv(there.astype(kind))).T
        except np.linalg.LinAlgError:  # too close to singular for this type
            continue
        if np.isfinite(upper).all():
            return upper.astype(np.float32)
    return np.eye(len(there), dtype=np.float32)  # each weight for itself, which is the nearest value


def round_by_moments(matrix: Array, scales: Array, low: int, high: int, pinned: Array, moments: Array) -> Array:
    """The weights [inputs, outputs] rounded to their steps with the least error over inputs of these moments."""
    count = len(matrix)
    order = np.argsort(-np.diag(moments), kind="stable")
    upper = _triangle(moments[np.ix_(order, order)])
    left, steps, fixed = matrix[order].astype(np.float32), scales[order], pinned[order]
    nearest = np.clip(np.rint(left / steps), low, high)
    result = np.empty_like(left)
    for begin in range(0, count, _STEP):
        end = min(begin + _STEP, count)
        errors = np.empty((end - begin, matrix.shape[1]), np.float32)
        for row in range(begin, end):
            tried = np.clip(np.rint(left[row] / steps[row]), low, high)
            result[row] = np.where(fixed[row], nearest[row], tried) * steps[row]
            errors[row - begin] = (left[row] - result[row]) / upper[row, row]
            left[row + 1 : end] -= np.outer(upper[row, row + 1 : end], errors[row - begin])
        left[end:] -= upper[begin:end, end:].T @ errors
    back = np.empty_like(result)
    back[order] = result
    return back
