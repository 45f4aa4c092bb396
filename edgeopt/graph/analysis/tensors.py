"""Values, weights and nodes of an onnx-ir graph as this package's records."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.cost import Attribute, Call, Operand
from edgeopt.graph.analysis.records import TensorFacts

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

OWN_DOMAINS = ("", "ai.onnx")


def tensor_row(value: "ir.Value | None") -> TensorFacts:
    """Returns a value as a record; an omitted input has no name."""
    if value is None:
        return TensorFacts("")
    shape = value.shape if value.shape is not None else getattr(value.const_value, "shape", None)
    if shape is None:
        return TensorFacts(value.name or "", dtype_of(value))
    return TensorFacts(
        value.name or "", dtype_of(value), tuple(d if isinstance(d, int) else d.value for d in shape)
    )


def dtype_of(value: "ir.Value") -> str | None:
    """Returns numpy's name of the type, or the kind of a value that is no tensor: `sequence`."""
    import onnx_ir as ir

    if isinstance(value.type, ir.TensorType):
        return None if value.type.dtype is ir.DataType.UNDEFINED else dtype_name(value.type.dtype)
    if value.type is not None:
        return type(value.type).__name__.removesuffix("Type").lower()
    return dtype_name(value.const_value.dtype) if value.const_value is not None else None


def dtype_name(dtype: "ir.DataType") -> str:
    """Returns numpy's name of a type if there is one: `float32` for ONNX's FLOAT."""
    import onnx_ir as ir

    if dtype is ir.DataType.STRING:
        return "str"
    try:
        return str(dtype.numpy().name)
    except TypeError:
        return str(dtype.name).lower()


def constant_tensor(node: "ir.Node") -> "ir.TensorProtocol | None":
    """Returns the tensor of a Constant node; None for other nodes and for scalar or text attributes."""
    if node.op_type != "Constant" or node.domain not in OWN_DOMAINS or "value" not in node.attributes:
        return None
    attribute = node.attributes["value"]
    return None if attribute.is_ref() else attribute.as_tensor()


def size_bytes(tensor: "ir.TensorProtocol") -> int:
    """Returns the size of a tensor; strings, which have no fixed size, are summed one by one."""
    import onnx_ir as ir

    if tensor.dtype is ir.DataType.STRING:
        return sum(len(text) for text in tensor.numpy().flat)
    return int(tensor.nbytes)


_LONGEST_TEXT = 200


def attribute_text(attribute: "ir.Attr") -> str:
    """Formats an attribute: a list by its items, a tensor by type and shape, a graph by its number of nodes."""
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


# Largest number of elements of constants that are read: axes, counts, conditions.
_SMALL = 16
_LISTS = ("INTS", "FLOATS", "STRINGS")
_NUMBERS = ("INT", "FLOAT", "STRING")


class Operands:
    """Operands by value, with observed shapes by name (`real`) and values that are the same in every run
    (`values`)."""

    def __init__(
        self, real: Mapping[str, tuple[int, ...]], values: "Mapping[ir.Value, NDArray[np.generic]]"
    ) -> None:
        self._real = real
        self._values = values
        self._known: dict[ir.Value, Operand] = {}

    def call(self, node: "ir.Node") -> Call:
        return Call(
            node.op_type,
            tuple(None if value is None else self.of(value) for value in node.inputs),
            tuple(self.of(value) if value.name else None for value in node.outputs),
            "" if node.domain in OWN_DOMAINS else node.domain,
            attributes_of(node),
        )

    def of(self, value: "ir.Value") -> Operand:
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._operand(value)
        return found

    def _operand(self, value: "ir.Value") -> Operand:
        import onnx_ir as ir

        name = str(value.name)
        if isinstance(value.type, ir.SequenceType | ir.OptionalType):
            return Operand(name, reason="{} is a sequence or optional, so its size depends on the data")
        tensor = _constant(value)
        dtype = value.dtype or (tensor.dtype if tensor is not None else None)
        shape = self._real.get(name) or _sizes(value.shape)
        if shape is None and tensor is not None:
            shape = _sizes(tensor.shape)
        if dtype is ir.DataType.STRING:
            return Operand(name, shape, None, reason="{} contains strings, which have no fixed size")
        if dtype is None or dtype is ir.DataType.UNDEFINED:
            return Operand(name, shape, None, reason="the type of {} is known only at run time")
        values = None
        computed = self._values.get(value)
        if computed is not None and computed.size <= _SMALL:
            values = tuple(computed.reshape(-1).tolist())
        elif tensor is not None and tensor.size <= _SMALL:
            values = tuple(each.item() for each in tensor.numpy().reshape(-1))
        return Operand(name, shape, int(dtype.bitwidth), values)


def _sizes(shape: "ir.Shape | None") -> tuple[int, ...] | None:
    if shape is None:
        return None
    sizes = tuple(d for d in shape if isinstance(d, int))
    return sizes if len(sizes) == len(shape) else None


def _constant(value: "ir.Value") -> "ir.TensorProtocol | None":
    import onnx_ir as ir

    if value.is_graph_input() and value.const_value is None:
        return None
    try:
        found: ir.TensorProtocol | None = ir.convenience.get_const_tensor(value)
    except ValueError:
        return None  # a Constant of an unknown form
    return found


def attributes_of(node: "ir.Node") -> dict[str, Attribute]:
    """Returns the attributes that are numbers, texts or lists of them."""
    found: dict[str, Attribute] = {}
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.value is None:
            continue
        if attribute.type.name in _NUMBERS:
            found[name] = attribute.value
        elif attribute.type.name in _LISTS:
            found[name] = tuple(attribute.value)
    return found
