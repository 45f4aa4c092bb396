"""The nodes of an onnx-ir graph as the calls that the rules of cost understand."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.cost import Attribute, Call, Operand
from edgeopt.graph.analysis.tensors import OWN_DOMAINS

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

# Constants up to this many elements are looked into: axes, counts, conditions.
_SMALL = 16
_LISTS = ("INTS", "FLOATS", "STRINGS")
_NUMBERS = ("INT", "FLOAT", "STRING")


class Operands:
    """Operands by value; `real` are shapes as a run had them, by name, `values` what is the same in every run."""

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
        return None  # a Constant of a form that nobody knows
    return found


def attributes_of(node: "ir.Node") -> dict[str, Attribute]:
    """Numbers, texts and lists of them."""
    found: dict[str, Attribute] = {}
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.value is None:
            continue
        if attribute.type.name in _NUMBERS:
            found[name] = attribute.value
        elif attribute.type.name in _LISTS:
            found[name] = tuple(attribute.value)
    return found
