"""Values and weights of an onnx-ir graph as this package's records."""

from typing import TYPE_CHECKING

from edgeopt.graph.analysis.records import Tensor

if TYPE_CHECKING:
    import onnx_ir as ir

OWN_DOMAINS = ("", "ai.onnx")


def tensor_row(value: "ir.Value | None") -> Tensor:
    """A value as a record; an input that a node leaves out has no name."""
    if value is None:
        return Tensor("")
    shape = value.shape if value.shape is not None else getattr(value.const_value, "shape", None)
    if shape is None:
        return Tensor(value.name or "", dtype_of(value))
    return Tensor(value.name or "", dtype_of(value), tuple(d if isinstance(d, int) else d.value for d in shape))


def dtype_of(value: "ir.Value") -> str | None:
    """numpy's name, or the kind of what is no tensor: `sequence`."""
    import onnx_ir as ir

    if isinstance(value.type, ir.TensorType):
        return None if value.type.dtype is ir.DataType.UNDEFINED else dtype_name(value.type.dtype)
    if value.type is not None:
        return type(value.type).__name__.removesuffix("Type").lower()
    return dtype_name(value.const_value.dtype) if value.const_value is not None else None


def dtype_name(dtype: "ir.DataType") -> str:
    """numpy's name where it has one: `float32`, where ONNX says FLOAT."""
    import onnx_ir as ir

    if dtype is ir.DataType.STRING:
        return "str"
    try:
        return str(dtype.numpy().name)
    except TypeError:
        return str(dtype.name).lower()


def constant_tensor(node: "ir.Node") -> "ir.TensorProtocol | None":
    """What a Constant node holds; None for other nodes, and for the short forms of a single number or text."""
    if node.op_type != "Constant" or node.domain not in OWN_DOMAINS or "value" not in node.attributes:
        return None
    attribute = node.attributes["value"]
    return None if attribute.is_ref() else attribute.as_tensor()


def size_bytes(tensor: "ir.TensorProtocol") -> int:
    """Texts have no fixed size, so theirs are counted one by one."""
    import onnx_ir as ir

    if tensor.dtype is ir.DataType.STRING:
        return sum(len(text) for text in tensor.numpy().flat)
    return int(tensor.nbytes)


_LONGEST_TEXT = 200


def attribute_text(attribute: "ir.Attr") -> str:
    """A list as people write it, a tensor by its type and shape, a graph by its number of nodes."""
    import onnx_ir as ir

    if attribute.is_ref():
        return f"the function's '{attribute.ref_attr_name}'"
    if attribute.type is ir.AttributeType.GRAPH:
        return f"graph of {len(attribute.as_graph())} nodes"
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        if tensor.size == 1 and tensor.nbytes <= 8:
            return f"{tensor.numpy().reshape(-1)[0]} ({dtype_name(tensor.dtype)})"
        return f"{dtype_name(tensor.dtype)}[{', '.join(str(d) for d in tensor.shape)}]"
    value = attribute.value
    text = ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else _plain(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return f"{value:.7g}" if isinstance(value, float) else str(value)
