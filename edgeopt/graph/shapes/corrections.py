"""Operators whose sizes onnx's own shape inference gets wrong: pools that round up, and Squeezes by no axes.

- No window of a pool that rounds up may begin behind the input. onnx counts such a window. See docs/upstream.md.
- A Squeeze whose list of axes is empty drops every dimension of 1 in runtimes, and none in onnx's own tools.
"""

from typing import TYPE_CHECKING, Any

from edgeopt.graph.nodes import constant, is_op

if TYPE_CHECKING:
    import onnx_ir as ir

# protobuf classes carry no types; these are onnx's ModelProto and GraphProto.
Proto = Any
POOLS = ("MaxPool", "AveragePool", "LpPool")
HIDDEN = "edgeopt.hidden"
"""Domain that hides a node from onnx's inference."""


def rounds_up(node: "ir.Node") -> bool:
    return is_op(node, *POOLS) and "ceil_mode" in node.attributes and bool(node.attributes["ceil_mode"].as_int())


def pool_shape(node: "ir.Node", source: "ir.Shape") -> "ir.Shape":
    """Returns the shape of the result of a pool that rounds up."""
    import onnx_ir as ir

    def integers(name: str, default: list[int]) -> list[int]:
        return list(node.attributes[name].as_ints()) if name in node.attributes else default

    kernel = integers("kernel_shape", [])
    axes = len(kernel)
    pads, strides = integers("pads", [0] * (2 * axes)), integers("strides", [1] * axes)
    dilations = integers("dilations", [1] * axes)
    same = "auto_pad" in node.attributes and node.attributes["auto_pad"].as_string().startswith("SAME")
    sizes: list[int | ir.SymbolicDim | None] = list(source)[:2]
    for k, size in enumerate(list(source)[2:]):
        if not isinstance(size, int) or axes != len(source) - 2:
            sizes.append(None)
        elif same:
            sizes.append(-(-size // strides[k]))
        else:
            sizes.append(size_of(size, (pads[k], pads[axes + k]), kernel[k], strides[k], dilations[k]))
    return ir.Shape(sizes)


def size_of(size: int, pads: tuple[int, int], kernel: int, stride: int, dilation: int) -> int:
    """Returns the output size of a pool with ceil_mode; each window starts in the input or the padding before
    it."""
    reach = dilation * (kernel - 1) + 1
    windows = -(-(size + sum(pads) - reach) // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + pads[0] else windows


def squeezes_by_no_axes(node: "ir.Node") -> bool:
    """Whether a Squeeze has an explicit list of axes that is empty or known only at run time."""
    if not is_op(node, "Squeeze"):
        return False
    if "axes" in node.attributes:
        return not node.attributes["axes"].as_ints()
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return False
    axes = constant(node.inputs[1])
    return axes is not None and not axes.size


def prepare(model: Proto) -> None:
    """Changes a model for inference, in place: hides pools that round up and leaves out empty axes."""
    if _prepare(model.graph):
        model.opset_import.add(domain=HIDDEN, version=1)


def _prepare(graph: Proto) -> bool:
    """Prepares a graph and those in it; returns whether a pool was hidden."""
    hidden = False
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
        if (
            node.op_type in POOLS
            and not node.domain
            and any(a.name == "ceil_mode" and a.i for a in node.attribute)
        ):
            node.domain, hidden = HIDDEN, True
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                hidden |= _prepare(inner)
    return hidden
