"""Cosines and sines of rotary positions: whether they are as wide, as many and as alike as rotations want them."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgeopt.graph.passes.base import constant, is_op, nodes_of
from edgeopt.graph.passes.knowledge.heads import asked_extent, dimension, extent, permutation, same_dimension
from edgeopt.graph.passes.knowledge.matching import integers, operands, producer, rank, scalar
from edgeopt.graph.shapes import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

STEPS = 16
UNNAMED = "unk__"
"""How onnx's inference names the dimensions that it knows nothing about."""
BY_ELEMENT = ("Cos", "Sin", "Cast", "Identity", "Neg", "Exp", "Sqrt")


def refusal(angles: "ir.Value", x: "ir.Value", width: int, twice: bool) -> str | None:
    """Why these cannot turn x (batch, heads, rows, 2 * width), each angle for a pair of columns and all heads."""
    dimensions = rank(angles)
    if dimensions not in {2, 3, 4}:
        return "the cosines and sines may not have two to four dimensions"
    if extent(angles, dimensions - 1) != (2 * width if twice else width):
        return "the number of columns of the cosines and sines is not known"
    if dimensions > 2 and extent(angles, dimensions - 3) != 1:
        return "the angles differ from head to head"
    if dimensions == 4 and extent(angles, 0) != 1 and not equal(angles, 0, x, 0):
        return "the cosines and sines may not be for one batch or for all"
    if not equal(angles, dimensions - 2, x, 2):
        return "the cosines and sines may not have a row for every rotated row"
    if twice and not repeats(angles, width):
        return "the cosines and sines of the halves may differ"
    return None


def equal(value: "ir.Value", axis: int, x: "ir.Value", at: int) -> bool:
    """Whether two dimensions are the same number or name, or one counts up to the other."""
    if same_dimension(value, axis, x, at):
        return True
    counted = _counted(value, axis)
    return counted is not None and same_dimension(*counted, x, at)


def name_counted_dimensions(model: "ir.Model") -> None:
    """Gives what a Range counts through the name of the dimension that it counts up to, and what is made of it.

    Inference does not see that; without it, all that positions were added to has dimensions of unknown length.
    """
    import onnx_ir as ir

    named = False
    for node in nodes_of(model):
        counted = _counted(node.outputs[0], 0) if is_op(node, "Range") else None
        name = dimension(*counted) if counted is not None else None
        if name is not None and not node.outputs[0].is_graph_output():
            node.outputs[0].shape, named = ir.Shape([name]), True
    if not named:
        return
    for node in nodes_of(model):
        for value in node.outputs:
            if value.shape is not None and not value.is_graph_output():
                value.shape = ir.Shape([None if _is_unnamed(one) else one for one in value.shape])
    infer_shapes(model)


def _is_unnamed(one: "int | ir.SymbolicDim") -> bool:
    return not isinstance(one, int) and (one.value or "").startswith(UNNAMED)


def _counted(value: "ir.Value | None", axis: int) -> "tuple[ir.Value, int] | None":
    """The dimension that a Range counts up to, where this one is the Range's; the axis may move on the way."""
    for _ in range(STEPS):
        node = value.producer() if value is not None else None
        if node is not None and is_op(node, "Range"):
            return asked_extent(_count(node))
        below = _below(node, axis, rank(value) or 0) if node is not None else None
        if below is None:
            return None
        value, axis = below
    return None


def _count(node: "ir.Node") -> "ir.Value | None":
    """How many numbers a Range gives: from 0, or from what was added to their count."""
    start, limit, step = node.inputs
    if scalar(step) != 1:
        return None
    if scalar(start) == 0:
        return limit
    total = producer(limit, "Add")
    return next((one for other, one in operands(total) if other is start), None) if total is not None else None


def _below(node: "ir.Node", axis: int, dimensions: int) -> "tuple[ir.Value, int] | None":
    """The operand and its dimension that this dimension of the result is, whatever the numbers are."""
    x = node.inputs[0] if node.inputs else None
    if x is None or rank(x) is None or not dimensions:
        return None
    if is_op(node, *BY_ELEMENT):
        return x, axis
    if is_op(node, "Unsqueeze"):
        axes = {one % dimensions for one in integers(node.inputs[1]) or ()}
        return (x, axis - sum(one < axis for one in axes)) if axes and axis not in axes else None
    if is_op(node, "Transpose") and permutation(node):
        return x, permutation(node)[axis]
    if is_op(node, "Concat"):
        return (x, axis) if node.attributes["axis"].as_int() % dimensions != axis else None
    if is_op(node, "MatMul"):
        # Rows come from the left operand, columns from the right one.
        other = node.inputs[axis - dimensions + 2] if axis >= dimensions - 2 else None
        return (other, axis) if rank(other) == dimensions and other is not None else None
    if is_op(node, "Mul", "Div", "Add", "Sub"):
        for one, other in operands(node):
            missing = dimensions - (rank(other) or 0)
            known = rank(one) == dimensions and rank(other) is not None
            if known and (axis < missing or extent(other, axis - missing) == 1):
                return one, axis
    return None


def repeats(value: "ir.Value | None", width: int) -> bool:
    """Whether the last `width` columns are provably those before."""
    for _ in range(STEPS):
        if value is None:
            return False
        array, node, dimensions = constant(value), value.producer(), rank(value)
        if array is not None:
            return array.shape[-1:] == (2 * width,) and bool((array[..., :width] == array[..., width:]).all())
        if node is None or not dimensions:
            return False
        last = dimensions - 1
        if is_op(node, "Concat") and node.attributes["axis"].as_int() % dimensions == last:
            return len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
        if not _same_columns(node, last):
            return False
        value = next((one for one in node.inputs if scalar(one) is None), None)
    return False


def _same_columns(node: "ir.Node", last: int) -> bool:
    """Whether equal columns of what goes in come out as equal columns; `last` is the dimension of columns."""
    if is_op(node, *BY_ELEMENT):
        return True
    if is_op(node, "Mul", "Div"):
        return any(scalar(one) is not None for one in node.inputs)
    if is_op(node, "Unsqueeze", "Squeeze"):
        axes = integers(node.inputs[1]) if len(node.inputs) > 1 else None
        whole = last + 1 if is_op(node, "Unsqueeze") else rank(node.inputs[0])
        return bool(axes and whole) and all(axis % whole != whole - 1 for axis in axes or () if whole)
    if is_op(node, "Gather"):
        # Rows of a table are taken whole.
        at_rows = "axis" not in node.attributes or node.attributes["axis"].as_int() == 0
        return at_rows and (rank(node.inputs[0]) or 0) > 1
    return is_op(node, "Transpose") and permutation(node)[-1:] == (last,)


@dataclass(slots=True)
class Caches:
    """What was made of cosines and sines already, so that all layers share it."""

    made: "dict[tuple[Any, Any], list[tuple[ir.Value, ir.Value]]]" = field(default_factory=dict)

    def of(
        self, angles: "ir.Value", x: "ir.Value", width: int, root: "ir.Node"
    ) -> "tuple[list[ir.Node], ir.Value]":
        """The angles as (batch, rows, width), and the nodes that make them so; batch is that of x."""
        for other, cache in self.made.setdefault((root.graph, angles), []):
            if other is x or equal(other, 0, x, 0):
                return [], cache
        nodes, cache = _cache(angles, x, width)
        self.made[root.graph, angles].append((x, cache))
        return nodes, cache


def _cache(angles: "ir.Value", x: "ir.Value", width: int) -> "tuple[list[ir.Node], ir.Value]":
    import onnx_ir as ir

    nodes: list[ir.Node] = []

    def then(kind: str, *inputs: "ir.Value | list[int]", **attributes: int) -> "ir.Value":
        values = [one if isinstance(one, ir.Value) else constants(one) for one in inputs]
        nodes.append(ir.node(kind, values, attributes))
        return nodes[-1].outputs[0]

    def constants(numbers: list[int]) -> "ir.Value":
        nodes.append(ir.node("Constant", [], {"value_ints": numbers}))
        return nodes[-1].outputs[0]

    dimensions = rank(angles) or 0
    value, alone = angles, dimensions < 4 or extent(angles, 0) == 1
    if extent(angles, dimensions - 1) != width:
        value = then("Slice", value, [0], [width], [-1])
    if dimensions == 4:
        value = then("Squeeze", value, [1])
    elif dimensions == 2:
        value = then("Unsqueeze", value, [0])
    if alone and extent(x, 0) != 1:
        batch = then("Shape", x, start=0, end=1)
        value = then("Expand", value, then("Concat", batch, [1, 1], axis=0))
    return nodes, value
