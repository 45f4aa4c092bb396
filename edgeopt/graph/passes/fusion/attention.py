"""Fusion of scaled dot products into Attention.

    y = softmax(scale * q k^T + mask) v

The scale may be applied to the scores, to q or k, or its root to both; the mask is added, or replaces scores. If
q, k and v are split from packed heads and y is packed again, the operator uses the packed form, which removes the
transposes too. Keys and values whose heads are repeated for grouped queries are used without the repetition, if
that can be proved. Measured on CPUs: 0.99 to 1.08 times as fast in ONNX Runtime (1.31), as fast in OpenVINO.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op, nodes_of
from edgeopt.graph.passes.knowledge.heads import (
    SPLIT,
    SPLIT_TURNED,
    SWAP,
    Packed,
    keeps_rows,
    permutation,
    repeated_heads,
    split_heads,
    target_shape,
)
from edgeopt.graph.passes.knowledge.matching import (
    PatternMatch,
    fuse,
    operands,
    producer,
    rank,
    scalar,
    tensor_like,
)

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET = 23
LOWEST = -1e30
"""Threshold below which adding a number to a score gives the number itself, so that adding equals replacing."""

EMPTY = "its operands may be empty, which ONNX Runtime's Attention refuses"
GUARDED = "fully masked rows are set to zero, which Attention does not do"


@dataclass(frozen=True, slots=True)
class Scores:
    """Attention scores: scale * q k^T + mask, or the score where `seen` is true and `otherwise` elsewhere."""

    product: "ir.Node"
    nodes: "tuple[ir.Node, ...]"
    scale: float = 1.0
    mask: "ir.Value | None" = None
    bias: "ir.Value | None" = None
    """Second mask, such as a bias by the distance of tokens."""
    condition: "ir.Value | None" = None
    chosen_where_true: bool = True
    otherwise: float = 0.0


@dataclass(frozen=True, slots=True)
class Attention:
    """Operands of an attention with four dimensions, packed ones if they exist, and the superfluous nodes."""

    root: "ir.Node"
    query: "ir.Value"
    key: "ir.Value"
    key_order: tuple[int, ...]
    """Permutation that turns the key into (batch, heads, rows, width); empty if it has that order."""
    value: "ir.Value"
    scores: Scores
    nodes: "tuple[ir.Node, ...]"
    packed: tuple[Packed, Packed, Packed] | None = None
    packed_query: Packed | None = None
    packed_root: "ir.Node | None" = None
    """Last node that packs the result again; None if the result or the query is not packed."""
    packed_nodes: "tuple[ir.Node, ...]" = ()
    others: "tuple[ir.Node, ...]" = ()
    """Producers of the operands, which are removed if nothing else uses them."""
    reason: str | None = None
    """Reason, known during matching, why the nodes cannot become one operator."""


def find_attention(node: "ir.Node") -> Attention | None:
    """Matches the attention whose product with the values is this MatMul."""
    weights, guard = _weights(node) if is_op(node, "MatMul") else (None, ())
    value = node.inputs[1] if weights is not None else None
    if weights is None or value is None or not _last_axis(weights):
        return None
    scores = _scores(weights.inputs[0])
    if scores is None:
        return None
    if guard and (scores.mask is not None or scores.condition is not None):
        return Attention(node, value, value, (), value, scores, (node, weights), reason=GUARDED)
    scores = replace(scores, nodes=(*scores.nodes, *guard))
    query, at_query, query_nodes = _unscaled(scores.product.inputs[0])
    transposed, at_key, key_nodes = _unscaled(scores.product.inputs[1])
    turn = producer(transposed, "Transpose")
    if query is None or turn is None or turn.inputs[0] is None:
        return None
    if permutation(turn) == (0, 2, 1):
        reason = "query, key and value have three dimensions, which mix heads and batch"
        return Attention(node, query, turn.inputs[0], (), value, scores, (node, weights), reason=reason)
    if permutation(turn) not in {SWAP, SPLIT_TURNED}:
        return None
    order = () if permutation(turn) == SWAP else SPLIT
    key, inner_scale, inner_nodes = _unscaled(turn.inputs[0]) if not order else (turn.inputs[0], 1.0, ())
    if key is None or any(_rank(one) != 4 for one in (query, value)):
        return None
    scores = _unexpanded(replace(scores, scale=scores.scale * at_query * at_key * inner_scale))
    others = (*query_nodes, *key_nodes, *inner_nodes, turn)
    found = Attention(node, query, key, order, value, scores, (node, weights, *scores.nodes), others=others)
    return _packed(found, turn)


def _unexpanded(scores: Scores) -> Scores:
    """Returns the scores without an Expand of the condition to their shape, as Where broadcasts by itself."""
    expand = producer(scores.condition, "Expand")
    shape_node = producer(expand.inputs[1], "Shape") if expand is not None else None
    own = {value for node in scores.nodes for value in node.outputs}
    if expand is None or shape_node is None or shape_node.inputs[0] not in own:
        return scores
    reshape = producer(expand.inputs[0], "Reshape")
    if 4 not in {rank(expand.inputs[0]), len(target_shape(reshape)) if reshape is not None else 0}:
        return scores
    return replace(scores, condition=expand.inputs[0], nodes=(*scores.nodes, expand, shape_node))


def _weights(product: "ir.Node") -> "tuple[ir.Node | None, tuple[ir.Node, ...]]":
    """Returns the Softmax before a product, and the nodes between them that set rows of NaN to zero."""
    where = producer(product.inputs[0], "Where")
    if where is None:
        return producer(product.inputs[0], "Softmax"), ()
    weights, is_nan = producer(where.inputs[2], "Softmax"), producer(where.inputs[0], "IsNaN")
    if (
        weights is None
        or is_nan is None
        or is_nan.inputs[0] is not weights.outputs[0]
        or scalar(where.inputs[1]) != 0
    ):
        return None, ()
    return weights, (where, is_nan)


def _packed(found: Attention, turn: "ir.Node") -> Attention:
    """Adds the packed operands and result to an attention, if they exist."""
    query, value = split_heads(found.query), split_heads(found.value)
    key = split_heads(turn.outputs[0], SPLIT_TURNED) if found.key_order else split_heads(found.key)
    users = [use.node for use in found.root.outputs[0].uses() if permutation(use.node) == SPLIT]
    if query is None or len(users) != 1:
        return found
    merges = [use.node for use in users[0].outputs[0].uses() if is_op(use.node, "Reshape")]
    if len(merges) != 1:
        return found
    target = target_shape(merges[0])
    width = value.width if value is not None else query.width
    last = target[2] if len(target) == 3 else None
    if last not in {-1, query.heads * width} or not keeps_rows(target, query.value, users[0].outputs[0]):
        return found
    parts = (query, key, value) if key is not None and value is not None else None
    if parts is not None and len({part.heads for part in parts}) > 1:
        return found
    split = tuple(node for part in parts for node in part.nodes) if parts is not None else query.nodes
    return replace(
        found,
        packed=parts,
        packed_query=query,
        packed_root=merges[0],
        packed_nodes=(users[0], merges[0]),
        others=(*found.others, *split),
    )


def _last_axis(softmax: "ir.Node") -> bool:
    axis = softmax.attributes["axis"].as_int() if "axis" in softmax.attributes else -1
    return axis in {-1, 3}


def _rank(value: "ir.Value") -> int | None:
    return len(permutation(value.producer())) or rank(value)


def _scores(value: "ir.Value | None", depth: int = 4) -> Scores | None:
    """Matches attention scores: a product with its scale, masks and replacement."""
    node = value.producer() if value is not None else None
    if node is None or depth == 0:
        return None
    if is_op(node, "MatMul"):
        return Scores(node, (node,))
    if is_op(node, "Mul", "Div"):
        below, scale, nodes = _unscaled(value)
        inner = _scores(below, depth - 1) if nodes else None
        if inner is None or inner.mask is not None or inner.condition is not None:
            return None
        return replace(inner, scale=inner.scale * scale, nodes=(*nodes, *inner.nodes))
    if is_op(node, "Add"):
        for below, mask in operands(node):
            inner = _scores(below, depth - 1)
            if inner is None or inner.bias is not None or inner.condition is not None:
                continue
            return replace(inner, mask=mask, bias=inner.mask, nodes=(node, *inner.nodes))
    if is_op(node, "Where"):
        condition, yes, no = node.inputs
        for below, other, chosen in ((yes, no, True), (no, yes, False)):
            number, inner = scalar(other), _scores(below, depth - 1)
            if number is not None and inner is not None and inner.mask is None and inner.condition is None:
                return replace(
                    inner,
                    condition=condition,
                    chosen_where_true=chosen,
                    otherwise=number,
                    nodes=(node, *inner.nodes),
                )
    return None


def _unscaled(value: "ir.Value | None") -> "tuple[ir.Value | None, float, tuple[ir.Node, ...]]":
    """Splits a value into an unscaled value, a constant factor, and the nodes that multiply the two."""
    scale, nodes = 1.0, list["ir.Node"]()
    while (node := producer(value, "Mul", "Div")) is not None:
        for below, other in operands(node):
            number = scalar(other)
            if number and (is_op(node, "Mul") or below is node.inputs[0]) and (rank(other) or 0) <= 1:
                scale = scale * number if is_op(node, "Mul") else scale / number
                value = below
                nodes.append(node)
                break
        else:
            break
    return value, scale, tuple(nodes)


def mask_of(found: Attention, query: "ir.Value", rows_axis: int) -> "tuple[list[ir.Node], ir.Value | None]":
    """Returns the nodes that compute the mask to add to the scores, and the mask with a row for each query row."""
    import numpy as np
    import onnx_ir as ir

    scores, nodes = found.scores, list["ir.Node"]()
    mask = scores.mask
    if scores.condition is not None:
        zero, otherwise = (
            ir.node("Constant", [], {"value": tensor_like(found.query, np.array(number))})
            for number in (0.0, scores.otherwise)
        )
        pair = (zero, otherwise) if scores.chosen_where_true else (otherwise, zero)
        where = ir.node("Where", [scores.condition, pair[0].outputs[0], pair[1].outputs[0]])
        nodes, mask = [zero, otherwise, where], where.outputs[0]
    shaped = (scores.condition, scores.mask, scores.bias)
    if mask is not None and scores.bias is not None:
        total = ir.node("Add", [mask, scores.bias])
        nodes, mask = [total], total.outputs[0]
    if mask is None or any(one is not None and _has_rows(one) for one in shaped):
        return nodes, mask
    rows = ir.node("Shape", [query], {"start": rows_axis, "end": rows_axis + 1})
    # Uses four dimensions, because OpenVINO does not load an Attention whose mask is expanded to fewer.
    ones, one = (ir.node("Constant", [], {"value": ir.tensor(np.ones(count, np.int64))}) for count in (2, 1))
    target = ir.node("Concat", [ones.outputs[0], rows.outputs[0], one.outputs[0]], {"axis": 0})
    wide = ir.node("Expand", [mask, target.outputs[0]])
    return [*nodes, rows, ones, one, target, wide], wide.outputs[0]


def _has_rows(mask: "ir.Value") -> bool:
    """Whether a mask is known to have more than one row."""
    if mask.shape is None or len(mask.shape) < 2:
        return False
    rows = mask.shape[-2]
    return rows != 1 and (isinstance(rows, int) or rows.value is not None)


def refusal(found: Attention) -> str | None:
    """Returns why the nodes cannot be replaced by one attention operator, or None."""
    if found.reason is not None:
        return found.reason
    masks = [one for one in (found.scores.mask, found.scores.bias) if one is not None]
    if masks and all(one.shape is None or not one.shape or one.shape[-1] == 1 for one in masks):
        return "the mask may not have a column for every key"
    if found.scores.condition is not None and found.scores.otherwise > LOWEST:
        return (
            f"masked scores become {found.scores.otherwise:g}, which differs from adding it in fully masked rows"
        )
    return None


def _match_standard(node: "ir.Node") -> PatternMatch | None:
    found = find_attention(node)
    if found is None:
        return None
    found = _grouped(found)
    packed = found.packed
    attributes: dict[str, Any] = {"scale": found.scores.scale}
    root, nodes = found.root, found.nodes
    if packed is not None and found.packed_root is not None:
        attributes |= {"q_num_heads": packed[0].heads, "kv_num_heads": packed[1].heads}
        root, nodes = found.packed_root, (*nodes, *found.packed_nodes)
    masks = (found.scores.mask, found.scores.bias, found.scores.condition)
    needed = (found.query, found.key, found.value, *masks)
    if packed is not None:
        needed = (*masks, *(part.value for part in packed))
    return PatternMatch(
        root,
        nodes,
        "Attention",
        needed,
        attributes,
        opset=OPSET,
        reason=refusal(found),
        others=found.others,
        prepare=_inputs(found),
    )


def _grouped(found: Attention) -> Attention:
    """Replaces keys and values by those before their heads were repeated, if several queries share one."""
    key, value = repeated_heads(found.key), repeated_heads(found.value)
    if found.key_order or key is None or value is None or key.times != value.times:
        return found
    others = (*found.others, *key.nodes, *value.nodes)
    return replace(found, key=key.value, value=value.value, others=others)


def _inputs(found: Attention) -> "Callable[[], tuple[list[ir.Node], tuple[Any, ...]]]":
    def prepare() -> "tuple[list[ir.Node], tuple[Any, ...]]":
        import onnx_ir as ir

        if found.packed is not None:
            values: tuple[Any, ...] = tuple(part.value for part in found.packed)
            nodes, mask = mask_of(found, values[0], 1)
            return nodes, (*values, *((mask,) if mask is not None else ()))
        nodes, mask = mask_of(found, found.query, 2)
        key = found.key
        if found.key_order:
            turn = ir.node("Transpose", [key], {"perm": found.key_order})
            nodes, key = [*nodes, turn], turn.outputs[0]
        return nodes, (found.query, key, found.value, *((mask,) if mask is not None else ()))

    return prepare


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every attention, including those in subgraphs and functions."""

    def find(node: "ir.Node") -> PatternMatch | None:
        found = _match_standard(node)
        if found is None or found.reason or not context.empty_inputs or not _may_be_empty(found.inputs):
            return found
        return replace(found, reason=EMPTY)

    result = fuse(model, context, find, "attention")
    made = (node for node in nodes_of(result.model) if is_op(node, "Attention"))
    is_open = bool(result.applied) and any(_may_be_empty(node.inputs) for node in made)
    return replace(result, nonempty_only=is_open)


def _may_be_empty(values: "Iterable[ir.Value | None]") -> bool:
    """Whether any size of the values may be 0."""
    shapes = [value.shape for value in values if value is not None]
    return any(shape is None or not all(isinstance(dim, int) for dim in shape) for shape in shapes)


PASS = Pass(
    "attention", "scaled dot products become one operator", apply, 100.0, nonempty_only=True, lowest_opset=OPSET
)
