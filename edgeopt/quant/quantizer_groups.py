"""Groups of the quantizers that NNCF adds to a model, which can be switched off without compiling again.

A group holds the quantizers of the activations and weights that one operation reads. Operations that only move
values belong to the operation that computes with them. Each reader is connected separately, so that a quantizer
with several readers stays if only one of them returns to float. In the gated model every quantizer is followed by
a `Select` between its output and its input, whose condition is an input of the model. The weights there are floats
behind quantizers, not stored in eight bits.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.openvino.model import compile_model, core, port_name
from edgeopt.errors import ModelError, error_text

if TYPE_CHECKING:
    from openvino import Model, Node

QUANTIZER = "FakeQuantize"
GATES = "edgeopt_gates"
_MOVERS = frozenset(
    (
        *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Slice", "StridedSlice", "Split", "Pad"),
        *("VariadicSplit", "Broadcast", "Tile", "MaxPool", "Interpolate", "DepthToSpace", "SpaceToDepth"),
        *("ShuffleChannels", "BatchToSpace", "SpaceToBatch", "ReverseSequence"),
    )
)
_CONVOLUTIONS = frozenset(("Convolution", "GroupConvolution"))
_DECONVOLUTIONS = frozenset(("ConvolutionBackpropData", "GroupConvolutionBackpropData"))
# The CPU plugin supports constant weights only for these, or runs them in a separate graph.
_RECURRENT = frozenset(
    (
        *("LSTMSequence", "GRUSequence", "RNNSequence", "LSTMCell", "GRUCell", "RNNCell"),
        *("TensorIterator", "Loop", "If"),
    )
)
_ELEMENT_WORK = 16.0
"""The cost of reading or writing a value, in multiplications."""
_CUT_WORK = 0.1
"""The cost of interrupting a chain of 8-bit operations, over all groups, as a share of the model's work."""


class _Edge(NamedTuple):
    """An input of an operation that reads a quantizer; operations by their position in `get_ordered_ops`."""

    quantizer: int
    reader: int
    port: int


class _Bias(NamedTuple):
    """A constant that NNCF corrected for the quantization of the layer before it, with the original value."""

    reader: int
    port: int
    original: Array


@dataclass(slots=True)
class QuantizerGroup:
    """Quantizers that are switched together."""

    names: tuple[str, ...] = ()
    """Names of the operations that compute, or of all if none does."""
    cost: float = 0.0
    """The cost of returning the group to float, as a share of the model's work."""
    edges: list[_Edge] = field(default_factory=list)
    biases: list[_Bias] = field(default_factory=list)


def find_groups(quantized: "Model", base: "Model", shapes: Mapping[str, Sequence[int]]) -> list[QuantizerGroup]:
    """Returns all groups in the order of the graph; raises a ModelError if none can be switched.

    `base` is the model before NNCF, `shapes` are those of one sample: work depends on them.
    """
    _unburden_shapes(quantized)
    ops = quantized.get_ordered_ops()
    places = {_key(op): place for place, op in enumerate(ops)}
    root = list(range(len(ops)))

    def top(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    edges = []
    for place, op in enumerate(ops):
        if op.get_type_name() != QUANTIZER:
            continue
        for target in op.output(0).get_target_inputs():
            reader = places[_key(target.get_node())]
            edges.append(_Edge(place, reader, target.get_index()))
            for other in _computing(ops[reader]):
                root[top(places[_key(other)])] = top(reader)
    members: dict[int, list[int]] = {}
    for place in range(len(ops)):
        members.setdefault(top(place), []).append(place)
    groups: dict[int, QuantizerGroup] = {}
    for edge in sorted(edges, key=lambda each: each.reader):
        groups.setdefault(top(edge.reader), QuantizerGroup()).edges.append(edge)
    if not groups:
        raise ModelError("NNCF put no quantizers into the main graph of this model.")
    works = _works(quantized, shapes)
    total = sum(works) or 1.0
    known = _known_biases(base)
    for key, group in groups.items():
        computing = [k for k in members[key] if ops[k].get_type_name() not in _MOVERS] or members[key]
        group.names = tuple(dict.fromkeys(_name(ops[k]) for k in computing))
        group.cost = sum(works[k] for k in members[key]) / total + _CUT_WORK / len(groups)
        group.biases = [bias for k in computing for bias in _corrected(ops[k], places, known)]
    return list(groups.values())


def _unburden_shapes(model: "Model") -> None:
    """Disconnects quantizers from operations that only read a shape, which would keep them in the model."""
    for op in model.get_ordered_ops():
        if op.get_type_name() == QUANTIZER:
            for target in op.output(0).get_target_inputs():
                if target.get_node().get_type_name() == "ShapeOf":
                    target.replace_source_output(op.input_value(0))


def without(quantized: "Model", groups: Sequence[QuantizerGroup]) -> "Model":
    """Returns a copy without the quantizers of these groups; the other weights are stored in eight bits."""
    from openvino import opset13
    from openvino._offline_transformations import compress_quantize_weights_transformation

    model, ops = _copy(quantized)
    for group in groups:
        for edge in group.edges:
            ops[edge.reader].input(edge.port).replace_source_output(ops[edge.quantizer].input_value(0))
        for bias in group.biases:
            constant = opset13.constant(bias.original)
            constant.set_friendly_name(ops[bias.reader].input_value(bias.port).get_node().get_friendly_name())
            ops[bias.reader].input(bias.port).replace_source_output(constant.output(0))
    model.validate_nodes_and_infer_types()
    compress_quantize_weights_transformation(model)
    return model


class GatedQuantizers:
    """The quantized model, compiled once, with a switch for each group."""

    def __init__(self, quantized: "Model", groups: Sequence[QuantizerGroup]) -> None:
        from openvino import Type, opset13

        self.groups = groups
        model, ops = _copy(quantized)
        try:
            gates = opset13.parameter([len(groups)], Type.boolean, name=GATES)
            gates.output(0).get_tensor().set_names({GATES})
            zero = opset13.constant(np.int32(0))
            for place, group in enumerate(groups):
                gate = opset13.gather(gates, opset13.constant(np.int32(place)), zero).output(0)
                selects: dict[int, Node] = {}
                for edge in group.edges:
                    reader, quantizer = ops[edge.reader], ops[edge.quantizer]
                    if reader.get_type_name() in _RECURRENT and _is_constant(quantizer.input_value(0).get_node()):
                        reader.input(edge.port).replace_source_output(quantizer.input_value(0))
                        continue
                    if edge.quantizer not in selects:
                        selects[edge.quantizer] = opset13.select(
                            gate, quantizer.output(0), quantizer.input_value(0)
                        )
                    reader.input(edge.port).replace_source_output(selects[edge.quantizer].output(0))
                for bias in group.biases:
                    source = ops[bias.reader].input_value(bias.port)
                    select = opset13.select(gate, source, opset13.constant(bias.original))
                    ops[bias.reader].input(bias.port).replace_source_output(select.output(0))
            model.add_parameters([gates])
            model.validate_nodes_and_infer_types()
        except RuntimeError as error:
            raise ModelError(f"The quantizers of this model cannot be switched: {error_text(error)}") from error
        self._names = [port_name(port) for port in quantized.outputs]
        self._inputs = [port_name(port) for port in quantized.inputs]
        # With the backend's default precision, the floats could add noise of their own.
        config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        self._request = compile_model(core(), model, "CPU", config).create_infer_request()

    def run(self, feeds: Feeds, returned: "frozenset[int]") -> dict[str, Array]:
        """Returns the outputs with all groups in eight bits except those in `returned`."""
        on = np.array([place not in returned for place in range(len(self.groups))])
        try:
            found = self._request.infer([*(feeds[name] for name in self._inputs), on])
        except RuntimeError as error:
            raise ModelError(f"The model with switches does not run: {error_text(error)}") from error
        return {name: np.array(found[place]) for place, name in enumerate(self._names)}


def _copy(quantized: "Model") -> "tuple[Model, list[Node]]":
    model = quantized.clone()
    ops = model.get_ordered_ops()
    names = [op.get_friendly_name() for op in quantized.get_ordered_ops()]
    if [op.get_friendly_name() for op in ops] != names:
        raise ModelError("OpenVINO orders the operations of a copy of this model differently.")
    return model, ops


def _key(op: "Node") -> str:
    return str(op.get_name())  # unique in the process, unlike friendly names


def _name(op: "Node") -> str:
    return str(op.get_friendly_name()).removesuffix("/WithoutBiases")


def _computing(op: "Node") -> "Iterator[Node]":
    """Yields the operations behind an operation that only moves values, to whose group it belongs."""
    if op.get_type_name() not in _MOVERS:
        return
    for output in op.outputs():
        for target in output.get_target_inputs():
            reader = target.get_node()
            if reader.get_type_name() not in (QUANTIZER, "Result", "ShapeOf"):
                yield reader
                yield from _computing(reader)


def _is_constant(op: "Node", depth: int = 8) -> bool:
    """Whether an operation is computed from constants alone in a few steps, as weights are."""
    if op.get_type_name() == "Constant" or depth == 0:
        return depth > 0
    return op.get_input_size() > 0 and all(
        _is_constant(value.get_node(), depth - 1) for value in op.input_values()
    )


def _works(quantized: "Model", shapes: Mapping[str, Sequence[int]]) -> list[float]:
    """Returns the work of each operation: multiplications plus the cost of reading and writing its values."""
    model, ops = _copy(quantized)
    try:
        model.reshape({port: list(shapes[port_name(port)]) for port in model.inputs})
    except RuntimeError:
        ops = quantized.get_ordered_ops()  # with its dimensions open, which count as 1
    return [_work(op) for op in ops]


def _work(op: "Node") -> float:
    if op.get_type_name() in (QUANTIZER, "Constant", "Parameter", "Result", "ShapeOf"):
        return 0.0
    written = sum(math.prod(_sizes(value.get_partial_shape())) for value in op.outputs())
    read = sum(
        math.prod(_sizes(value.get_partial_shape()))
        for value in op.input_values()
        if value.get_node().get_type_name() != "Constant"
    )
    work = _ELEMENT_WORK * (written + read)
    kind = op.get_type_name()
    if kind == "MatMul":
        data = _sizes(op.input_value(0).get_partial_shape())
        transposed = bool(op.get_attributes().get("transpose_a")) and len(data) > 1
        return work + written * data[-2 if transposed else -1]
    if kind in _CONVOLUTIONS or kind in _DECONVOLUTIONS:
        weights = math.prod(_sizes(op.input_value(1).get_partial_shape()))
        # The side on which every value is multiplied with all weights of its channel.
        side = op.output(0) if kind in _CONVOLUTIONS else op.input_value(0)
        sizes = _sizes(side.get_partial_shape())
        work += math.prod(sizes) * weights / max(1, sizes[1])
    return work


def _sizes(shape: "object") -> list[int]:
    if shape.rank.is_dynamic:  # type: ignore[attr-defined]
        return [1, 1]
    return [size.get_length() if size.is_static else 1 for size in shape]  # type: ignore[attr-defined]


def _known_biases(base: "Model") -> dict[str, list[Array | None]]:
    """Returns the constants that additions of the model read, by the addition's name."""
    found: dict[str, list[Array | None]] = {}
    for op in base.get_ordered_ops():
        if op.get_type_name() == "Add":
            ends = [_constant_end(op, port) for port in range(2)]
            found[op.get_friendly_name()] = [_value(*end) if end else None for end in ends]
    return found


def _constant_end(op: "Node", port: int) -> "tuple[Node, int] | None":
    """Returns the operation and input that read the constant behind an input, through changes of shape."""
    source = op.input_value(port).get_node()
    while source.get_type_name() in ("Reshape", "Unsqueeze", "Convert"):
        op, port = source, 0
        source = op.input_value(port).get_node()
    return (op, port) if source.get_type_name() == "Constant" else None


def _value(op: "Node", port: int) -> Array:
    return np.array(op.input_value(port).get_node().data)


def _corrected(op: "Node", places: Mapping[str, int], known: Mapping[str, list[Array | None]]) -> Iterator[_Bias]:
    """Yields the additions behind an operation whose constant NNCF changed."""
    for output in op.outputs():
        for target in output.get_target_inputs():
            addition, port = target.get_node(), 1 - target.get_index()
            if addition.get_type_name() != "Add" or addition.get_friendly_name() not in known:
                continue
            end, before = _constant_end(addition, port), known[addition.get_friendly_name()][port]
            if end is None or before is None:
                continue
            now = _value(*end)
            if now.size == before.size and not np.array_equal(now.ravel(), before.ravel()):
                yield _Bias(places[_key(end[0])], end[1], before.astype(now.dtype).reshape(now.shape))
