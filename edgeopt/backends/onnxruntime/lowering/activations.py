"""GELUs and sigmoid gates in the forms that ONNX Runtime has kernels for, with the bias before them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, constant, is_op
from edgeopt.graph.passes.fusion.activations import find_gelu
from edgeopt.graph.passes.knowledge.matching import (
    Found,
    downstream,
    fuse,
    operands,
    polynomial,
    producer,
    upstream,
)

if TYPE_CHECKING:
    import onnx_ir as ir

DOMAIN = "com.microsoft"


def _gelu(node: "ir.Node") -> Found | None:
    found = find_gelu(node)
    if found is None:
        return None
    exact = found.attributes["approximate"] == "none"
    found = replace(found, attributes={}, domain=DOMAIN, opset=0, operator="Gelu" if exact else "FastGelu")
    x: ir.Value = found.inputs[0]
    add = producer(x, "Add")
    inside = {*found.nodes, *found.others}
    if add is None or x.is_graph_output() or any(use.node not in inside for use in x.uses()):
        return found
    for one, bias in operands(add):
        array = constant(bias)
        # The kernels add a bias to the last dimension, and to nothing else.
        if array is not None and array.ndim == 1 and array.shape[0] > 1:
            operator = "BiasGelu" if exact else "FastGelu"
            return replace(found, operator=operator, inputs=(one, bias), nodes=(*found.nodes, add))
    return found


def _gate(node: "ir.Node") -> Found | None:
    """The product of a Sigmoid and what goes into it."""
    if not is_op(node, "Sigmoid") or node.inputs[0] is None:
        return None
    gate = node.outputs[0]
    for x in upstream(node.inputs[0], 1):
        inner = polynomial(node.inputs[0], (x,))
        alpha = inner.terms.get((1,)) if inner is not None else None
        if inner is None or alpha is None or not inner.equals({(1,): alpha}, x):
            continue
        for root in downstream(gate, 1):
            whole = polynomial(root.outputs[0], (x, gate), 1)
            if whole is not None and whole.equals({(1, 1): 1.0}, x):
                nodes = (node, *whole.nodes, *inner.nodes)
                return Found(root, nodes, "QuickGelu", (x,), {"alpha": alpha}, domain=DOMAIN)
    return None


def apply_gelu(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every GELU, in subgraphs too."""
    return fuse(model, context, _gelu, "GELU")


def apply_gate(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every product with the sigmoid of a factor, in subgraphs too."""
    return fuse(model, context, _gate, "sigmoid gate")


GELU = Pass("ort-gelu", "GELUs become Gelu, BiasGelu or FastGelu", apply_gelu, 100.0)
QUICK_GELU = Pass("ort-quick-gelu", "x * sigmoid(alpha x) becomes QuickGelu", apply_gate, 100.0)
