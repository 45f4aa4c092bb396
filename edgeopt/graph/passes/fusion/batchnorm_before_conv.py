"""A BatchNormalization goes into the weights of the Conv or Gemm that alone reads it.

    conv(f * x + s, W) + b  =  conv(x, W f) + (W s + b)

Only where the convolution does not pad, or the normalization does not shift: what pads is not normalized.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_op, label, plural
from edgeopt.graph.passes.knowledge.batchnorm import affine_of, why_not_affine
from edgeopt.graph.passes.knowledge.linear import channels_before, integer, pads, put_before, why_not_weights
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir

_LINEAR = ("Conv", "Gemm")


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    model, notes, done = context.copy(model), Notes(), []
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for node in list(part):
            linear = _reader(node) if is_op(node, "BatchNormalization") else None
            if linear is None:
                continue
            stem = node.name or node.outputs[0].name or "batchnorm"
            reason = _why_not(node, linear, context.folded_limit_bytes)
            if reason := reason or put_before(part, linear, affine_of(node), stem):
                notes.refuse(reason, label(node))
                continue
            linear.replace_input_with(0, node.inputs[0])
            part.remove(node, safe=True)
            done.append(label(node))
    if done:
        notes.did(f"folded {plural(len(done), 'batch normalization')} into the weights after", *done)
        separate_names(model)
    return notes.result(model)


def _reader(norm: "ir.Node") -> "ir.Node | None":
    """The Conv or Gemm behind; a normalization that follows one goes there (batchnorm-into-conv)."""
    uses = list(norm.outputs[0].uses())
    if not uses or not is_op(uses[0].node, *_LINEAR) or uses[0].idx != 0:
        return None
    return uses[0].node


def _why_not(norm: "ir.Node", linear: "ir.Node", limit_bytes: int) -> str | None:
    reason = why_not_affine(norm) or why_not_weights(linear, limit_bytes)
    if reason:
        return reason
    result = norm.outputs[0]
    if result.is_graph_output() or len(result.uses()) > 1:
        return "its output is used elsewhere too"
    if linear.graph is not norm.graph:
        return f"the {linear.op_type} after it is in another graph"
    if is_op(linear, "Gemm") and integer(linear, "transA", 0):
        return "the Gemm reads its input transposed"
    affine = affine_of(norm)
    if affine.factor.size != channels_before(linear):
        return f"the {linear.op_type} reads different channels than it writes"
    if affine.shifts and is_op(linear, "Conv") and pads(linear):
        return "the convolution pads with zeros, which are not normalized"
    return None


PASS = Pass(
    "batchnorm-before-conv", "batch normalizations go into the weights after them", apply, tolerance_db=100.0
)
