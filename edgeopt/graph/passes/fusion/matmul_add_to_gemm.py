"""Fusion of a matrix product and the addition after it into one Gemm.

    Add(MatMul(a, b), c)  =  Gemm(a, b, c)      a and b are matrices, c has one number a column, or one for all

Matrix products of more dimensions stay, because Gemm takes two only. In float both forms are as fast; in int8 ONNX
Runtime adds the bias inside the product.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_op, label, replace_value

if TYPE_CHECKING:
    import onnx_ir as ir

_FLOATS = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16")


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before
        for add in list(part):
            found = _product_and_bias(add)
            if found is None:
                continue
            product, bias = found
            if reason := _why_not(product, bias, add):
                notes.refuse(reason, label(add))
                continue
            gemm = ir.node("Gemm", [*product.inputs, bias], name=product.name or add.name)
            result = gemm.outputs[0]
            result.name = f"{product.outputs[0].name}_gemm"  # temporary: it takes over the name of the sum
            result.shape, result.type = add.outputs[0].shape, add.outputs[0].type
            part.insert_before(add, gemm)
            # Always succeeds: the new node is in the same graph and is no output yet.
            replace_value(add.outputs[0], result)
            part.remove([add, product], safe=True)
            notes.did("merged a matrix product and the addition after it into a Gemm", label(product), label(add))
    return notes.result(model)


def _product_and_bias(add: "ir.Node") -> "tuple[ir.Node, ir.Value] | None":
    """Returns the product of two matrices that an addition reads, and the added value."""
    if not is_op(add, "Add"):
        return None
    for place in (0, 1):
        value, other = add.inputs[place], add.inputs[1 - place]
        product = value.producer() if value is not None else None
        if product is None or other is None or not is_op(product, "MatMul"):
            continue
        if all(each is not None and each.shape is not None and len(each.shape) == 2 for each in product.inputs):
            return product, other
    return None


def _why_not(product: "ir.Node", bias: "ir.Value", add: "ir.Node") -> str | None:
    result = product.outputs[0]
    if result.is_graph_output() or len(result.uses()) > 1:
        return "the output of the MatMul is used elsewhere too"
    if product.graph is not add.graph:
        return "the MatMul is outside the subgraph that holds it"
    if result.dtype is None or result.dtype.name not in _FLOATS:
        return "not every runtime supports Gemm for other types than floats"
    left, right = product.inputs
    assert left is not None and right is not None and right.shape is not None  # noqa: S101, PT018 - seen before
    shape, columns = bias.shape, right.shape[1]
    if shape is None or len(shape) > 2 or (len(shape) == 2 and shape[0] != 1):
        return "the added tensor does not have one value for each column"
    wide = shape[-1] if len(shape) else 1
    if wide != 1 and (wide != columns or (not isinstance(wide, int) and wide.value is None)):
        return "the added tensor may broadcast the result to a larger shape"
    return None


PASS = Pass("matmul-add-to-gemm", "matrix products followed by a bias become one Gemm", apply, tolerance_db=100.0)
