"""The body of a function as a model of its own, with the shapes and attributes of one call."""

from typing import TYPE_CHECKING

from edgeopt.graph.analysis.propagate import propagate
from edgeopt.graph.shapes import infer_shapes

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

    from edgeopt.graph.analysis.tensors import Operands


def called(
    model: "ir.Model", node: "ir.Node", operands: "Operands"
) -> "tuple[ir.Model, dict[ir.Value, NDArray[np.generic]]]":
    """That model, and those of its values that are the same in every run."""
    import onnx_ir as ir

    function = model.functions[node.op_identifier()]
    body = function.clone().graph
    given = {**function.attributes, **node.attributes}
    for part in (body, *body.subgraphs()):
        for inner in part:
            for name, attribute in tuple(inner.attributes.items()):
                if attribute.is_ref():
                    _resolve(inner, name, given.get(attribute.ref_attr_name))
    for value, passed in zip(body.inputs, node.inputs, strict=False):
        if passed is None:
            continue
        shape = operands.of(passed).shape
        value.type = passed.type
        value.shape = None if shape is None else ir.Shape(shape)
        constant = None if passed.is_graph_input() else passed.const_value
        if constant is not None and constant.size <= 16:
            value.const_value = constant
    # Without outputs that need a type the body is a whole model for inference.
    body.outputs.clear()
    body.opset_imports.update(function.opset_imports)
    found = ir.Model(body, ir_version=model.ir_version, functions=tuple(model.functions.values()))
    infer_shapes(found)
    return found, propagate(found, {}, {})


def _resolve(node: "ir.Node", name: str, given: "ir.Attr | None") -> None:
    import onnx_ir as ir

    del node.attributes[name]
    if given is not None and not given.is_ref() and given.value is not None:
        node.attributes[name] = ir.Attr(name, given.type, given.value)
