"""Splitting into heads: where (batch, rows, heads * width) becomes (batch, heads, rows, width), provably so."""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.matching import integers, producer, rank

if TYPE_CHECKING:
    import onnx_ir as ir

SPLIT, SPLIT_TURNED, SWAP = (0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2)
STEPS = 64
KEEPS_ROWS = (
    *("Identity", "Cast", "Dropout", "Relu", "Tanh", "Sigmoid", "Erf", "Gelu", "Neg", "Softmax"),
    *("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "Split"),
)


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed tensor with three dimensions; the last one contains all heads."""

    value: "ir.Value"
    heads: int
    width: int
    nodes: "tuple[ir.Node, ...]"


def permutation(node: "ir.Node | None") -> tuple[int, ...]:
    if node is None or not is_op(node, "Transpose") or "perm" not in node.attributes:
        return ()
    return tuple(node.attributes["perm"].as_ints())


def split_heads(value: "ir.Value | None", order: tuple[int, ...] = SPLIT) -> Packed | None:
    """Matches a split into heads by Reshape and Transpose; None if the rows may not stay rows."""
    turn = producer(value, "Transpose")
    split = producer(turn.inputs[0], "Reshape") if turn is not None and permutation(turn) == order else None
    if turn is None or split is None or split.inputs[0] is None or rank(split.inputs[0]) != 3:
        return None
    x, hidden = split.inputs[0], extent(split.inputs[0], 2)
    target = target_shape(split)
    if hidden is None or len(target) != 4 or not keeps_rows(target, x):
        return None
    heads, width = (part if isinstance(part, int) else None for part in target[2:])
    heads = hidden // width if heads == -1 and width else heads
    width = hidden // heads if width == -1 and heads else width
    if not heads or not width or heads * width != hidden:
        return None
    return Packed(x, heads, width, (turn, split))


def extent(value: "ir.Value", axis: int) -> int | None:
    """Returns a dimension if it is a known number, else None."""
    if value.shape is None or axis >= len(value.shape):
        return None
    dimension = value.shape[axis]
    return dimension if isinstance(dimension, int) else None


Part = Any
"""Part of a shape: a number, a value that contains a number, or None if unknown."""


def target_shape(reshape: "ir.Node") -> list[Part]:
    """Returns the parts of a Reshape's target shape."""
    if "allowzero" in reshape.attributes and reshape.attributes["allowzero"].as_int():
        return []
    known = integers(reshape.inputs[1])
    if known is not None:
        return list(known)
    joined = producer(reshape.inputs[1], "Concat")
    if joined is None:
        return []
    found: list[Part] = []
    for one in joined.inputs:
        numbers = integers(one)
        found.extend(numbers if numbers is not None else [one])
    return found


def keeps_rows(target: list[Part], x: "ir.Value", of: "ir.Value | None" = None) -> bool:
    """Whether the first two sizes of a shape are those of x; `of` is the reshaped value, if it is not x."""
    if sum(part == -1 for part in target if isinstance(part, int)) > 1:
        return False
    return all(_same(part, axis, x, of if of is not None else x) for axis, part in enumerate(target[:2]))


def _same(part: Part, axis: int, x: "ir.Value", of: "ir.Value") -> bool:
    if isinstance(part, int):
        # 0 copies the size, and -1 is correct if all others are.
        return part in {0, -1} or part == extent(x, axis)
    extent_source = asked_extent(part)
    if extent_source is None:
        return False
    z, at = extent_source
    if at == axis and z is of:
        return True
    return same_extent(z, at, x, axis)


def asked_extent(value: Part) -> "tuple[ir.Value, int] | None":
    """Returns the value and the dimension whose size a part reads at run time, or None."""
    node = value.producer() if value is not None and not isinstance(value, int) else None
    while node is not None and is_op(node, "Unsqueeze", "Squeeze", "Reshape", "Cast", "Identity"):
        below = node.inputs[0]
        node = below.producer() if below is not None else None
    if node is None:
        return None
    axis: int | None = None
    if is_op(node, "Gather"):
        index, node = integers(node.inputs[1], 1), producer(node.inputs[0], "Shape")
        axis = index[0] if index else None
        if node is not None and {"start", "end"} & node.attributes.keys():
            return None
    elif is_op(node, "Slice"):
        start, end = integers(node.inputs[1], 1), integers(node.inputs[2], 1)
        node = producer(node.inputs[0], "Shape")
        axis = start[0] if start and end and end[0] == start[0] + 1 else None
    elif is_op(node, "Shape"):
        start_at = node.attributes["start"].as_int() if "start" in node.attributes else 0
        end_at = node.attributes["end"].as_int() if "end" in node.attributes else None
        axis = start_at if end_at == start_at + 1 else None
    if node is None or not is_op(node, "Shape") or axis is None or node.inputs[0] is None:
        return None
    dimensions = rank(node.inputs[0])
    if axis < 0:
        axis = axis + dimensions if dimensions is not None else None
    return (node.inputs[0], axis) if axis is not None else None


def dimension(value: "ir.Value", axis: int) -> int | str | None:
    """Returns a dimension as a number or a name; None if it has neither."""
    if value.shape is None or axis >= len(value.shape):
        return None
    known = value.shape[axis]
    return known if isinstance(known, int) else known.value


def same_dimension(z: "ir.Value", at: int, x: "ir.Value", axis: int) -> bool:
    """Whether two dimensions are the same known number or have the same name."""
    return dimension(z, at) is not None and dimension(z, at) == dimension(x, axis)


def same_extent(z: "ir.Value", at: int, x: "ir.Value", axis: int) -> bool:
    """Whether two dimensions are equal: as numbers, by name, or through one row-wise computation."""
    one, other = dimension(z, at), dimension(x, axis)
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    if one is not None and one == other:
        return True
    return at == axis < 2 and bool(_rows_of(z) & _rows_of(x))


def _rows_of(value: "ir.Value") -> "set[ir.Value]":
    """Returns all values with the same first two sizes from which a value is computed."""
    seen: set[Any] = set()
    queue = deque([value])
    while queue and len(seen) < STEPS:
        one = queue.popleft()
        if one in seen:
            continue
        seen.add(one)
        node = one.producer()
        if node is None or not node.inputs or node.inputs[0] is None:
            continue
        keeps = is_op(node, *KEEPS_ROWS) and not (is_op(node, "Split") and _axis(node) in {0, 1})
        if keeps or (is_op(node, "MatMul") and rank(node.inputs[1]) == 2):
            queue.append(node.inputs[0])
        elif is_op(node, "Add", "Sub", "Mul", "Div") and node.inputs[1] is not None:
            for inner, other in (node.inputs[:2], node.inputs[1::-1]):
                array = constant(other) if inner is not None and (rank(other) or 0) <= 1 else None
                if inner is not None and array is not None and array.ndim <= 1:
                    queue.append(inner)
    return seen


def _axis(node: "ir.Node") -> int:
    return int(node.attributes["axis"].as_int()) if "axis" in node.attributes else 0


class Repeated(NamedTuple):
    """Heads of `value` that are each repeated `times` times in a row, and the nodes that repeat them."""

    value: "ir.Value"
    times: int
    nodes: "tuple[ir.Node, ...]"


def repeated_heads(value: "ir.Value | None") -> Repeated | None:
    """Matches heads that are repeated by Unsqueeze, Expand and Reshape; None if that cannot be proved."""
    merge = producer(value, "Reshape")
    expand = producer(merge.inputs[0], "Expand") if merge is not None else None
    apart = producer(expand.inputs[0], "Unsqueeze") if expand is not None else None
    x = apart.inputs[0] if apart is not None else None
    if merge is None or expand is None or apart is None or x is None or rank(x) != 4:
        return None
    if integers(apart.inputs[1]) not in {(2,), (-3,)}:
        return None
    heads, times = extent(x, 1), extent(expand.outputs[0], 2)
    if heads is None or times is None or extent(merge.outputs[0], 1) != heads * times:
        return None
    if not _keeps(expand, x, (0, 1, None, 2, 3)) or not _keeps(merge, x, (0, None, 2, 3)):
        return None
    return Repeated(x, times, (merge, expand, apart))


def _keeps(node: "ir.Node", x: "ir.Value", axes: tuple[int | None, ...]) -> bool:
    """Whether the result of a Reshape or Expand keeps the dimensions of x at these positions."""
    shape = node.outputs[0]
    target = target_shape(node)
    if rank(shape) != len(axes):
        return False
    for place, axis in enumerate(axes):
        if axis is None or same_dimension(shape, place, x, axis):
            continue
        if is_op(node, "Reshape") and len(target) == len(axes) and target[place] == -1:
            continue  # correct if all others are
        extent_source = asked_extent(target[place]) if len(target) == len(axes) else None
        if extent_source is None or not (extent_source == (x, axis) or same_dimension(*extent_source, x, axis)):
            return False
    return True
