"""Number of layers of each kind in a model, which identifies its family."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.categories import OperatorType, operator_type
from edgeopt.graph.nodes import is_op, nodes_of

if TYPE_CHECKING:
    import onnx_ir as ir

ATTENTION, CONVOLUTION, RECURRENT = LAYERS = ("attention layer", "convolution", "recurrent layer")
_KINDS = {
    OperatorType.ATTENTION: ATTENTION,
    OperatorType.CONVOLUTION: CONVOLUTION,
    OperatorType.RECURRENT: RECURRENT,
}
_BETWEEN = ("Cast", "Dropout", "Identity", "Reshape", "Where")
"""Operators that exporters insert between the softmax of an attention and its product with the values."""
_MAX_BETWEEN = 4


def layer_counts(model: "ir.Model") -> dict[str, int]:
    """Counts the layers of each kind, and the nodes of each operator."""
    found: Counter[str] = Counter()
    for node in nodes_of(model):
        found.update((node.op_type, *_layers(node)))
    return dict(found)


def _layers(node: "ir.Node") -> Iterator[str]:
    kind = _KINDS.get(operator_type(node.op_type, node.domain))
    if kind is not None and "RotaryEmbedding" not in node.op_type:
        yield kind
    if is_op(node, "MatMul") and any(_is_softmax(value) for value in node.inputs):
        yield ATTENTION


def _is_softmax(value: "ir.Value | None", steps: int = _MAX_BETWEEN) -> bool:
    node = None if value is None else value.producer()
    if node is None or is_op(node, "Softmax"):
        return node is not None
    return steps > 0 and is_op(node, *_BETWEEN) and any(_is_softmax(each, steps - 1) for each in node.inputs)
