"""Fixes for 8-bit patterns that OpenVINO's CPU plugin computes wrong, by equivalent computations.

Seen in OpenVINO 2026.4; each has a test. A model that NNCF quantized is changed before it is written, so that its
file gives the results that the quantizers define in any program.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.ledger import Change

if TYPE_CHECKING:
    from openvino import Model, Node

_QUANTIZER = "FakeQuantize"
_CONVOLUTIONS = frozenset(("Convolution", "GroupConvolution"))
_FUSED = frozenset(("Multiply", "Add", "Subtract", "Divide", "Reshape", "Squeeze", "Unsqueeze"))
_OFF_GRID = 1e-3
"""The largest distance of a zero point from an integer, in steps; ranges in 32 bits are rounded."""
# Not zero, because OpenVINO removes that; small enough to change no sum.
NO_BIAS = np.float32(1e-30)
LOWEST = np.float32(-3e38)
"""The maximum of this and any value is that value, and OpenVINO does not remove the operation."""


def avoid_defects(model: "Model") -> tuple[Change, ...]:
    """Changes a model with quantizers over activations and weights, and returns the changes."""
    done = ((what, change(model)) for what, change in _CHANGES)
    changes = tuple(Change(what, tuple(names)) for what, names in done if names)
    if changes:
        model.validate_nodes_and_infer_types()
    return changes


def _align_zero_points(model: "Model") -> list[str]:
    """Moves ranges so that zero falls on an integer, because a fractional zero point shifts all values.

    NNCF leaves a range off the grid if it begins less than a step below zero, as behind a SiLU.
    """
    from openvino import opset13

    found = []
    for op in model.get_ordered_ops():
        if op.get_type_name() != _QUANTIZER or _is_constant(op.input_value(0).get_node()):
            continue
        ends = [op.input_value(port).get_node() for port in range(1, 5)]
        if any(end.get_type_name() != "Constant" for end in ends):
            continue
        low, high, out_low, out_high = (np.array(end.data, dtype=np.float64) for end in ends)
        if not (np.array_equal(low, out_low) and np.array_equal(high, out_high)):
            continue
        if np.any(low > 0) or np.any(high < 0) or np.any(high <= low):
            continue
        steps = op.get_attributes()["levels"] - 1
        step = (high - low) / steps
        place = -low / step
        if np.max(np.abs(place - np.round(place))) <= _OFF_GRID:
            continue
        low = -np.round(place) * step
        high = low + steps * step
        for port, value in zip(range(1, 5), (low, high) * 2, strict=True):
            op.input(port).replace_source_output(opset13.constant(value.astype(np.float32)).output(0))
        found.append(str(op.get_friendly_name()))
    return found


def _give_bias(model: "Model") -> list[str]:
    """Adds a bias to convolutions with open sizes, whose readers otherwise get different values."""
    from openvino import opset13

    found = []
    for op in model.get_ordered_ops():
        if op.get_type_name() not in _CONVOLUTIONS or not op.output(0).get_partial_shape().is_dynamic:
            continue
        if _QUANTIZER not in {op.input_value(port).get_node().get_type_name() for port in range(2)}:
            continue
        readers = [
            each for each in op.output(0).get_target_inputs() if each.get_node().get_type_name() != "ShapeOf"
        ]
        if len(readers) < 2:
            continue
        shape = [1] * op.output(0).get_partial_shape().rank.get_length()
        biased = opset13.add(op.output(0), opset13.constant(np.full(shape, NO_BIAS)))
        for reader in readers:
            reader.replace_source_output(biased.output(0))
        found.append(str(op.get_friendly_name()))
    return found


def _set_extremes_apart(model: "Model") -> list[str]:
    """Separates quantizers from a maximum or minimum before them, because OpenVINO fuses the two wrongly."""
    from openvino import opset13

    found = []
    for op in model.get_ordered_ops():
        if op.get_type_name() == _QUANTIZER and _comes_of_extreme(op):
            apart = opset13.maximum(op.input_value(0), opset13.constant(LOWEST))
            op.input(0).replace_source_output(apart.output(0))
            found.append(str(op.get_friendly_name()))
    return found


def _comes_of_extreme(op: "Node") -> bool:
    """Whether a quantizer follows a reduction to a maximum or minimum, perhaps through fused operations."""
    source = op.input_value(0).get_node()
    while source.get_type_name() in _FUSED:
        values = [value.get_node() for value in source.input_values()]
        computed = [value for value in values if not _is_constant(value)]
        if len(computed) != 1:
            return False
        source = computed[0]
    return source.get_type_name() in {"ReduceMax", "ReduceMin"}


def _is_constant(op: "Node") -> bool:
    if op.get_type_name() in {"Convert", "Reshape", "Multiply", "Transpose", "Unsqueeze"}:  # as weights are kept
        return all(_is_constant(value.get_node()) for value in op.input_values())
    return str(op.get_type_name()) == "Constant"


_CHANGES: tuple[tuple[str, Callable[["Model"], list[str]]], ...] = (
    ("moved zero to a step of its range", _align_zero_points),
    ("given a bias of almost nothing, without which OpenVINO computes it wrong", _give_bias),
    ("set apart from the maximum or minimum before it, which OpenVINO would round wrong", _set_extremes_apart),
)
