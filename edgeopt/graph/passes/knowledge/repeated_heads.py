"""Keys and values whose heads are repeated for grouped queries: Attention takes them as they are before."""

from typing import TYPE_CHECKING, NamedTuple

from edgeopt.graph.passes.base import is_op
from edgeopt.graph.passes.knowledge.heads import asked_extent, extent, same_dimension, target_shape
from edgeopt.graph.passes.knowledge.matching import integers, producer, rank

if TYPE_CHECKING:
    import onnx_ir as ir


class Repeated(NamedTuple):
    """Each head of `value` stands `times` times one after the other; the nodes do that."""

    value: "ir.Value"
    times: int
    nodes: "tuple[ir.Node, ...]"


def repeated_heads(value: "ir.Value | None") -> Repeated | None:
    """What (batch, heads, rows, width) was before each head was repeated; None where that cannot be proved."""
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
    """Whether the result of a Reshape or Expand has the dimensions of x at these places."""
    shape = node.outputs[0]
    target = target_shape(node)
    if rank(shape) != len(axes):
        return False
    for place, axis in enumerate(axes):
        if axis is None or same_dimension(shape, place, x, axis):
            continue
        if is_op(node, "Reshape") and len(target) == len(axes) and target[place] == -1:
            continue  # what is left when all others are right
        asked = asked_extent(target[place]) if len(target) == len(axes) else None
        if asked is None or not (asked == (x, axis) or same_dimension(*asked, x, axis)):
            return False
    return True
