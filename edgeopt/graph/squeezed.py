"""A Squeeze whose list of axes is empty: runtimes drop every dimension of 1, onnx's own tools drop none."""

from typing import TYPE_CHECKING, Any

from edgeopt.graph.nodes import constant, is_op

if TYPE_CHECKING:
    import onnx_ir as ir

# protobuf classes carry no types; this is onnx's GraphProto.
Proto = Any


def squeezes_by_no_axes(node: "ir.Node") -> bool:
    """Whether a Squeeze names no axes, in a list that is there, or that is known only at run time."""
    if not is_op(node, "Squeeze"):
        return False
    if "axes" in node.attributes:
        return not node.attributes["axes"].as_ints()
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return False
    axes = constant(node.inputs[1])
    return axes is not None and not axes.size


def leave_out_empty_axes(graph: Proto) -> None:
    """Lets shape inference see such a Squeeze as runtimes compute it, in subgraphs too."""
    empty = {weight.name for weight in graph.initializer if 0 in weight.dims}
    for node in graph.node:
        if node.op_type == "Constant":
            values = [a for a in node.attribute if a.name == "value" and 0 in a.t.dims]
            lists = [a for a in node.attribute if a.name == "value_ints" and not a.ints]
            empty.update(node.output if values or lists else ())
        if node.op_type == "Squeeze" and not node.domain:
            if len(node.input) > 1 and node.input[1] in empty:
                del node.input[1:]
            for attribute in [a for a in node.attribute if a.name == "axes" and not a.ints]:
                node.attribute.remove(attribute)
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                leave_out_empty_axes(inner)
