"""Scales the weights of a Conv, ConvTranspose or Gemm so that the BatchNormalization behind it goes away.

y = scale * (conv(x, W) + b - mean) / sqrt(variance + epsilon) + shift
  = conv(x, W * f) + (b - mean) * f + shift          with f = scale / sqrt(variance + epsilon)
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    is_op,
    label,
    parts,
    plural,
    replace_value,
)
from edgeopt.graph.passes.knowledge.batchnorm import affine_of, why_not_affine
from edgeopt.graph.passes.knowledge.linear import put_behind, why_not_behind
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir

LINEAR = ("Conv", "ConvTranspose", "Gemm")


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Folds every batch normalization that it can, in subgraphs too."""
    model, notes, done = context.copy(model), Notes(), []
    graphs = set(model.graphs())
    for part in parts(model):
        for node in list(part):
            if not is_op(node, "BatchNormalization"):
                continue
            if part not in graphs:
                notes.refuse("it is inside a function, which cannot contain weights", label(node))
            elif reason := _refusal(node, context.folded_limit_bytes) or _put(part, node):
                notes.refuse(reason, label(node))
            else:
                done.append(label(node))
                linear = node.inputs[0].producer()
                # Cannot be refused: the linear node lies in the same graph and its output goes nowhere else.
                replace_value(node.outputs[0], linear.outputs[0])
                part.remove(node, safe=True)
    if done:
        notes.did(f"folded {plural(len(done), 'batch normalization')} into the weights before", *done)
        separate_names(model)
    return notes.result(model)


def _put(part: "ir.Graph", norm: "ir.Node") -> str | None:
    linear = norm.inputs[0].producer()
    return put_behind(part, linear, affine_of(norm), norm.name or norm.outputs[0].name)


def _refusal(norm: "ir.Node", limit_bytes: int) -> str | None:
    if reason := why_not_affine(norm):
        return reason
    linear = norm.inputs[0].producer() if norm.inputs[0] is not None else None
    if linear is None or not is_op(linear, *LINEAR):
        before = f"a {linear.op_type}" if linear is not None else "an input of the graph"
        return f"it follows {before}, not a Conv, ConvTranspose or Gemm"
    return why_not_behind(linear, norm, limit_bytes)


PASS = Pass(
    "batchnorm-into-conv", "batch normalizations go into the weights before them", apply, tolerance_db=100.0
)
