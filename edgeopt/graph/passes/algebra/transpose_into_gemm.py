"""A Gemm can read a matrix transposed, so that the Transpose in front of it goes away.

Gemm(Transpose(a), b)  =  Gemm(a, b, transA = not transA)        the same for b
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_op, label
from edgeopt.graph.passes.knowledge.linear import integer

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before
        for gemm in [node for node in part if is_op(node, "Gemm")]:
            for place, name in ((0, "transA"), (1, "transB")):
                value = gemm.inputs[place]
                transpose = value.producer() if value is not None else None
                if transpose is None or value is None or not _swaps(transpose):
                    continue
                if transpose.graph is not gemm.graph:
                    notes.refuse("the Transpose is outside the subgraph that holds the Gemm", label(transpose))
                    continue
                gemm.attributes[name] = ir.AttrInt64(name, 1 - integer(gemm, name, 0))
                gemm.replace_input_with(place, transpose.inputs[0])
                notes.did("let a Gemm read a matrix transposed", label(transpose))
                if not value.uses() and not value.is_graph_output():
                    part.remove(transpose, safe=True)
    return notes.result(model)


def _swaps(node: "ir.Node") -> bool:
    """Whether a node turns a matrix; a Transpose may also leave it as it is."""
    if not is_op(node, "Transpose"):
        return False
    order = node.attributes.get("perm")
    return order is None or (not order.is_ref() and list(order.as_ints()) == [1, 0])


PASS = Pass("transpose-into-gemm", "transposes of matrices go into the Gemm after them", apply, tolerance_db=100.0)
