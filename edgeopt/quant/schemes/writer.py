"""A writer of quantized tensors into a graph, with clear and unique names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.records import Range

if TYPE_CHECKING:
    import onnx_ir as ir


_TYPES: dict[str, type[np.uint8 | np.int8 | np.uint16 | np.int16]] = {
    "uint8": np.uint8,
    "int8": np.int8,
    "uint16": np.uint16,
    "int16": np.int16,
}
# The smallest scale; some models have numbers this small, and its reciprocal is still a float32 number.
_SMALLEST = 1e-36


@dataclass(frozen=True, slots=True)
class Steps:
    """Quantization of a tensor with one scale: value = (integer - zero) * scale."""

    scale: np.float32
    zero: int
    kind: str

    @property
    def type(self) -> type[np.uint8 | np.int8 | np.uint16 | np.int16]:
        return _TYPES[self.kind]

    def zero_point(self) -> Array:
        return np.asarray(self.zero, self.type)

    def rounded(self, array: Array) -> Array:
        """Returns the integers for these floats."""
        limits = np.iinfo(self.type)
        integers: Array = np.rint(array / self.scale) + self.zero
        return np.clip(integers, limits.min, limits.max).astype(self.type)

    def fake(self, array: Array) -> Array:
        """Returns these floats rounded to the values that integers represent."""
        return ((self.rounded(array).astype(np.int32) - self.zero) * self.scale).astype(np.float32)


def activation_steps(kept: Range, kind: str, symmetric: bool) -> Steps:
    """Returns steps that cover a range and represent zero exactly."""
    limits = np.iinfo(_TYPES[kind])
    low, high = min(kept.low, 0.0), max(kept.high, 0.0)
    if symmetric:
        middle = 0 if limits.min < 0 else (limits.max + 1) // 2
        scale = max(-low, high) / (limits.max - middle)
        return Steps(np.float32(max(scale, _SMALLEST)), middle, kind)
    scale = max((high - low) / (int(limits.max) - int(limits.min)), _SMALLEST)
    return Steps(np.float32(scale), int(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max)), kind)


def weight_scales(weight: Array, axis: int | None, largest: int) -> Array:
    """Returns symmetric scales: one, or one for each channel."""
    peaks = np.abs(weight)
    rest = tuple(k for k in range(weight.ndim) if k != axis) if axis is not None else None
    scales = np.asarray(peaks.max(axis=rest) if weight.size else np.zeros(()), np.float32) / np.float32(largest)
    return np.where(scales < _SMALLEST, np.float32(1), scales).astype(np.float32)


def along(scales: Array, axis: int | None, rank: int) -> Array:
    """Returns the scales in a shape that broadcasts to the weights."""
    if axis is None or scales.ndim == 0:
        return scales
    shape = [1] * rank
    shape[axis] = -1
    return scales.reshape(shape)


def rounded_weight(weight: Array, scales: Array, axis: int | None, largest: int) -> Array:
    integers: Array = np.rint(weight / along(scales, axis, weight.ndim))
    return np.clip(integers, -largest, largest).astype(np.int8)


_NUMBERS = count(1)
Use = tuple["ir.Node", int]


@dataclass(slots=True)
class Writer:
    """Writer of new nodes and constants into a graph."""

    graph: "ir.Graph"
    counted: bool = False
    """Whether names end in a unique number, without a check of other names: for graphs that nobody reads."""
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.counted:
            self._look_around()

    def _look_around(self) -> None:
        from edgeopt.graph.nodes import inner_graphs

        waiting = [self.graph]
        while waiting:
            part = waiting.pop()
            self._taken |= {str(value.name) for value in (*part.inputs, *part.initializers.values())}
            for node in part:
                self._taken |= {str(value.name) for value in node.outputs} | {str(node.name)}
                waiting.extend(inner_graphs(node))

    def name(self, base: str) -> str:
        """Returns this name, or a similar one if it is taken."""
        if self.counted:
            return f"{base}__{next(_NUMBERS)}"
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def constant(self, base: str, array: Array) -> "ir.Value":
        import onnx_ir as ir

        name = self.name(base)
        tensor = ir.tensor(np.ascontiguousarray(array) if array.ndim else array, name=name)
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape), const_value=tensor
        )
        self.graph.register_initializer(value)
        return value

    def typed(self, base: str, array: Array, kind: "ir.DataType") -> "ir.Value":
        """Adds a constant of a type that numpy does not have."""
        import onnx_ir as ir

        name = self.name(base)
        tensor = ir.Tensor(array.astype(kind.numpy()), dtype=kind, name=name)
        value = ir.Value(name=name, type=ir.TensorType(kind), shape=ir.Shape(array.shape), const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def take_over(self, old: "ir.Value", new: "ir.Value") -> None:
        """Gives `new` the name, the readers and the output position of `old`; removes an unused old node."""
        name, old.name = str(old.name), self.name(f"{old.name}_replaced")
        new.name, new.type, new.shape = name, old.type, old.shape
        for place, output in enumerate(self.graph.outputs):
            if output is old:
                self.graph.outputs[place] = new
        old.replace_all_uses_with(new)
        producer = old.producer()
        if producer is not None and not old.uses():
            self.graph.remove(producer, safe=True)

    def node(
        self,
        operator: str,
        inputs: "Iterable[ir.Value | None]",
        base: str,
        *,
        like: "ir.Value | None" = None,
        kind: "ir.DataType | None" = None,
        domain: str = "",
        attributes: Mapping[str, int | float | str] | None = None,
    ) -> "ir.Node":
        """Returns a new node, not inserted yet, whose output has the name `wanted` and the shape of `like`."""
        import onnx_ir as ir

        result = ir.Value(name=self.name(base))
        if like is not None:
            result.shape = like.shape
        if kind is not None:
            result.type = ir.TensorType(kind)
        return ir.node(
            operator,
            list(inputs),
            attributes,
            domain=domain,
            outputs=[result],
            name=self.name(f"{base}_{operator}"),
        )

    def behind(self, value: "ir.Value", nodes: "list[ir.Node]") -> None:
        """Inserts nodes behind the node that computes a value, or at the beginning of the graph."""
        producer = value.producer()
        if producer is not None:
            self.graph.insert_after(producer, nodes)
        else:
            self.graph.insert_before(self.graph[0], nodes)

    def pair(self, value: "ir.Value", steps: Steps) -> "tuple[ir.Node, ir.Node]":
        """Inserts QuantizeLinear and DequantizeLinear behind a value, without readers yet."""
        import onnx_ir as ir

        name = str(value.name)
        scale = self.constant(f"{name}_scale", np.asarray(steps.scale))
        zero = self.constant(f"{name}_zero_point", steps.zero_point())
        down = self.node("QuantizeLinear", (value, scale, zero), f"{name}_quantized", like=value, kind=zero.dtype)
        up = self.node(
            "DequantizeLinear",
            (down.outputs[0], scale, zero),
            f"{name}_dequantized",
            like=value,
            kind=ir.DataType.FLOAT,
        )
        self.behind(value, [down, up])
        return down, up


def uses(value: "ir.Value") -> "list[Use]":
    return [(use.node, use.idx) for use in value.uses()]


def read_by(old: "ir.Value", new: "ir.Value", readers: "Iterable[Use]") -> None:
    """Makes these readers read another value."""
    for node, place in readers:
        if node.inputs[place] is old:
            node.replace_input_with(place, new)


def give_as_output(writer: Writer, old: "ir.Value", new: "ir.Value") -> None:
    """Makes `new` an output of the graph instead of `old`, with the name, type and shape of `old`."""
    graph = writer.graph
    places = [k for k, output in enumerate(graph.outputs) if output is old]
    if not places:
        return
    name = str(old.name)
    new.shape, new.type = old.shape, old.type
    old.name = writer.name(f"{name}_float")
    new.name = name
    for place in places:
        graph.outputs[place] = new
