"""Completion of onnx's shape inference, node by node.

onnx's inference follows a few operators (Shape, Gather, Concat …) and stops at others (Slice, Expand, Range). Here
onnx's reference evaluator computes small values that are the same in every run, and each node that reads them is
inferred with their content. `If` takes its branch if the condition is such a value. Operators of ONNX Runtime, and
pools that round up, have rules of their own.
"""

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from edgeopt.graph.analysis.categories import MICROSOFT_DOMAINS
from edgeopt.graph.nodes import is_op, subgraphs
from edgeopt.graph.shapes.corrections import pool_shape, rounds_up, squeezes_by_no_axes

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

OWN_DOMAINS = ("", "ai.onnx")
# Position of the input with the type of the result, if it is not the first.
_TYPED_BY = {
    "EmbedLayerNormalization": 5, "MatMulIntegerToFloat": 2, "DequantizeLinear": 1, "QuantizeLinear": 2,
    "GatherBlockQuantized": 2,
}  # fmt: skip
_LIKE_THE_FIRST = (
    *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "GroupNorm"),
    *("SkipGroupNorm", "BiasGelu", "FastGelu", "QuickGelu", "Gelu", "BiasAdd", "BiasSoftmax", "RotaryEmbedding"),
    *("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QuantizeLinear", "DequantizeLinear"),
)
_PRODUCTS = (
    "FusedMatMul",
    "TransposeMatMul",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
    "FusedMatMulActivation",
)
STANDS_FOR = {"FusedConv": "Conv", "FusedGemm": "Gemm"}
"""Standard operators that shape inference may substitute for fused ones."""


def is_foreign(node: "ir.Node") -> bool:
    return node.domain in MICROSOFT_DOMAINS or (
        node.domain in OWN_DOMAINS and node.op_type == "SimplifiedLayerNormalization"
    )


def infer_foreign(node: "ir.Node") -> None:
    """Sets the types of results, and their shapes if these follow from the inputs."""
    import onnx_ir as ir

    place = _TYPED_BY.get(node.op_type, 0)
    source = node.inputs[place] if place < len(node.inputs) else None
    sizes = _sizes(node)
    # The fourth result of SkipLayerNormalization and its like is the sum that they normalize.
    for result in node.outputs[::3] if node.op_type.startswith("Skip") else node.outputs[:1]:
        if source is not None and result.type is None:
            result.type = source.type
            if source.type is None and source.const_value is not None:
                result.type = ir.TensorType(source.const_value.dtype)
        if result.shape is None and sizes is not None:
            result.shape = ir.Shape(sizes)


def _sizes(node: "ir.Node") -> "tuple[int | ir.SymbolicDim, ...] | None":
    shapes = [None if value is None else _shape(value) for value in node.inputs]
    first = shapes[0] if shapes else None
    if first is None:
        return None
    if node.op_type in _LIKE_THE_FIRST:
        return first
    if node.op_type == "MatMulNBits" and "N" in node.attributes:
        return *first[:-1], node.attributes["N"].as_int()
    second = shapes[1] if len(shapes) > 1 else None
    if node.op_type == "Attention" and second is not None and "qkv_hidden_sizes" not in node.attributes:
        return (*first[:2], second[-1] // 3) if isinstance(second[-1], int) else None
    if node.op_type == "MultiHeadAttention" and len(first) == 3 and len(shapes) > 2 and shapes[2] is not None:
        return (*first[:2], shapes[2][-1]) if len(shapes[2]) == 3 else None
    if node.op_type == "GroupQueryAttention" and second is not None:
        return first
    if node.op_type == "EmbedLayerNormalization" and len(shapes) > 2 and shapes[2] is not None:
        return *first, shapes[2][-1]
    if node.op_type in _PRODUCTS and second is not None and len(first) > 1 and len(second) == 2:
        return _product(node, first, second)
    return None


def _product(
    node: "ir.Node", first: "tuple[int | ir.SymbolicDim, ...]", second: "tuple[int | ir.SymbolicDim, ...]"
) -> "tuple[int | ir.SymbolicDim, ...]":
    def is_transposed(name: str) -> bool:
        return name in node.attributes and bool(node.attributes[name].as_int())

    rows = (*first[:-2], first[-1]) if is_transposed("transA") else first[:-1]
    return *rows, second[0] if is_transposed("transB") else second[1]


def _shape(value: "ir.Value") -> "tuple[int | ir.SymbolicDim, ...] | None":
    shape = value.shape if value.shape is not None else getattr(value.const_value, "shape", None)
    return None if shape is None else tuple(shape)


# Shapes, axes, counts and the tables that small models compute from them.
SMALL = 1024
_RENAMING = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
NO_SHAPES: Mapping[str, tuple[int, ...]] = {}
_DRAWS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
# protobuf classes carry no types; this is onnx's TypeProto.
TypeProto = Any


def propagate(
    model: "ir.Model",
    real: Mapping[str, tuple[int, ...]] = NO_SHAPES,
    claims: Mapping[str, tuple[int, ...]] = NO_SHAPES,
    *,
    every_node: bool = False,
) -> "Propagation":
    """Infers shapes that onnx's inference of the whole model left open, and computes small values.

    `real` shapes, by name, override inference; `claims` apply only if nothing else determines a shape. A node is
    inferred again if something new is known of its inputs, or in any case with `every_node`.
    """
    found = Propagation(model, real, claims, every_node)
    found.graph(model.graph)
    return found


class Propagation:
    def __init__(
        self,
        model: "ir.Model",
        real: Mapping[str, tuple[int, ...]],
        claims: Mapping[str, tuple[int, ...]],
        every_node: bool,
    ) -> None:
        self.model = model
        self.real = real
        self.claims = claims
        self.every_node = every_node
        self.values: dict[ir.Value, NDArray[np.generic]] = {}
        """Values that are the same in every run."""
        self.changed: set[ir.Value | None] = set()
        """Values with a new shape or new elements."""

    def graph(self, graph: "ir.Graph") -> None:
        for node in graph:
            held = subgraphs(node)
            for _, inner in held:
                if node.op_type == "Scan":
                    enter_scan(node, inner)
                self.graph(inner)
            for value in node.outputs:
                self._set_shape(value, self.real.get(value.name or ""), wins=True)
            if held:
                self._branch(node, dict(held))
            elif is_foreign(node):
                before = [(value.type, value.shape) for value in node.outputs]
                infer_foreign(node)
                self.changed.update(
                    value
                    for value, old in zip(node.outputs, before, strict=True)
                    if old != (value.type, value.shape)
                )
                if node.op_type in STANDS_FOR:
                    self._infer(node)
            elif node.domain in OWN_DOMAINS and node.op_type != "Constant":
                self._node(node)
            for value in node.outputs:
                self._set_shape(value, self.claims.get(value.name or ""))

    def _node(self, node: "ir.Node") -> None:
        if is_op(node, "Shape", "Size") and node.inputs[0] is not None:
            self._shape_of(node)
            return
        if any(value.type is None or not is_static(value) for value in node.outputs):
            if rounds_up(node):
                self._pool(node)
            elif self.every_node or not self.changed.isdisjoint(node.inputs):
                self._infer(node)
        small = all(
            value.shape is not None and value.shape.is_static() and prod(value.shape) <= SMALL
            for value in node.outputs
        )
        if not small or node.op_type in _DRAWS:
            return
        if node.op_type in _RENAMING and node.inputs:
            self._rename(node)
            return
        arrays = [None if value is None else self.value(value) for value in node.inputs]
        if all((array is None) == (value is None) for array, value in zip(arrays, node.inputs, strict=True)):
            self._compute(node, arrays)

    def value(self, value: "ir.Value") -> "NDArray[np.generic] | None":
        """Returns a value that is small and the same in every run, else None."""
        if value in self.values:
            return self.values[value]
        import onnx_ir as ir

        if value.is_graph_input() and value.const_value is None:
            return None
        try:
            tensor = ir.convenience.get_const_tensor(value)
        except ValueError:
            return None
        if tensor is None or tensor.size > SMALL or tensor.dtype is ir.DataType.STRING:
            return None
        self.values[value] = tensor.numpy()
        return self.values[value]

    def _shape_of(self, node: "ir.Node") -> None:
        import numpy as np

        source = node.inputs[0]
        shape = source.shape if source.shape is not None else getattr(source.const_value, "shape", None)
        if shape is None or not all(isinstance(d, int) for d in shape):
            return
        if node.op_type == "Size":
            self._know(node.outputs[0], np.array(prod(shape), np.int64))
            return
        start, end = (
            node.attributes[name].as_int() if name in node.attributes else None for name in ("start", "end")
        )
        self._know(node.outputs[0], np.array(list(shape)[start:end], np.int64))

    def _branch(self, node: "ir.Node", held: "Mapping[str, ir.Graph]") -> None:
        """Gives the results of an If the shapes of its known branch, or the dimensions that both branches
        share."""
        if node.op_type != "If" or node.inputs[0] is None:
            return
        condition = self.value(node.inputs[0])
        branches = [held[name] for name in ("then_branch", "else_branch") if name in held]
        if condition is not None and len(branches) == 2:
            branches = [branches[0 if condition.item() else 1]]
        for place, value in enumerate(node.outputs):
            results = [branch.outputs[place] for branch in branches if place < len(branch.outputs)]
            shapes = {tuple(each.shape) if is_static(each) else None for each in results}
            if len(shapes) == 1 and None not in shapes and results:
                self._set_shape(value, tuple(int(d) for d in shapes.pop() or ()), wins=len(branches) == 1)
            if value.type is None and results:
                value.type = results[0].type
                self.changed.add(value)
            if len(branches) == 1 and results and (known := self.value(results[0])) is not None:
                self._know(value, known)

    def _infer(self, node: "ir.Node") -> None:
        import onnx
        import onnx_ir as ir

        version = self.model.opset_imports.get("", 1)
        types: dict[str, TypeProto] = {}
        data: dict[str, Any] = {}
        for value in node.inputs:
            if value is None:
                continue
            described = _described(value)
            if described is None:
                return
            types[str(value.name)] = described
            known = self.value(value)
            if known is not None:
                data[str(value.name)] = onnx.numpy_helper.from_array(known, str(value.name))
        try:
            proto = ir.serde.serialize_node(node)
            if squeezes_by_no_axes(node):
                del proto.input[1:], proto.attribute[:]
            proto.op_type, proto.domain = STANDS_FOR.get(node.op_type, node.op_type), ""
            inferred = onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(proto.op_type, version, ""),
                proto,
                types,
                data,
                opset_imports=[onnx.helper.make_opsetid("", version)],
            )
        except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, ValueError, RuntimeError, TypeError):
            return  # the shape stays open
        for value in node.outputs:
            found = inferred.get(str(value.name))
            if found is not None:
                if value.type is None:
                    value.type = ir.serde.deserialize_type_proto_for_type(found)
                    self.changed.add(value)
                self._merge(value, ir.serde.deserialize_type_proto_for_shape(found))

    def _pool(self, node: "ir.Node") -> None:
        source, result = node.inputs[0], node.outputs[0]
        if source is not None and source.shape is not None:
            result.type = result.type or source.type
            self._merge(result, pool_shape(node, source.shape))

    def _merge(self, value: "ir.Value", found: "ir.Shape | None") -> None:
        both = merged(value.shape, found)
        if both != value.shape:
            value.shape = both
            self.changed.add(value)

    def _rename(self, node: "ir.Node") -> None:
        source = None if node.inputs[0] is None else self.value(node.inputs[0])
        shape = node.outputs[0].shape
        if source is not None and shape is not None and prod(shape) == source.size:
            self._know(node.outputs[0], source.reshape([int(d) for d in shape]))

    def _compute(self, node: "ir.Node", arrays: "list[NDArray[np.generic] | None]") -> None:
        import warnings

        import numpy as np
        import onnx_ir as ir
        from onnx.reference import ReferenceEvaluator

        proto = ir.serde.serialize_node(node)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = ReferenceEvaluator(proto, opsets=dict(self.model.opset_imports)).run(
                    None, {name: array for name, array in zip(proto.input, arrays, strict=True) if name}
                )
        except Exception:  # noqa: BLE001 - whatever an operator's reference raises, the value stays unknown
            return
        for value, result in zip([value for value in node.outputs if value.name], results, strict=False):
            if isinstance(result, np.ndarray | np.generic):
                self._know(value, np.asarray(result))

    def _know(self, value: "ir.Value", array: "NDArray[np.generic]") -> None:
        import onnx_ir as ir

        self.values[value] = array
        self.changed.add(value)
        if value.type is None:
            value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        self._set_shape(value, array.shape)

    def _set_shape(self, value: "ir.Value", shape: tuple[int, ...] | None, wins: bool = False) -> None:
        import onnx_ir as ir

        if shape is not None and (wins or not is_static(value)) and value.shape != shape:
            value.shape = ir.Shape(shape)
            self.changed.add(value)


def merged(known: "ir.Shape | None", found: "ir.Shape | None") -> "ir.Shape | None":
    """Returns a known shape with what inference adds to it: sizes, and names of unnamed dimensions."""
    import onnx_ir as ir

    if known is None or found is None or len(known) != len(found):
        return known if known is not None else found
    return ir.Shape(
        [
            new if not isinstance(old, int) and (isinstance(new, int) or old.value is None) else old
            for old, new in zip(known, found, strict=True)
        ]
    )


def enter_scan(node: "ir.Node", body: "ir.Graph") -> None:
    """Fills in the types and shapes of a Scan's body inputs, which exporters omit; a sequence loses its scan
    axis."""
    import onnx_ir as ir

    states = len(node.inputs) - (
        node.attributes["num_scan_inputs"].as_int() if "num_scan_inputs" in node.attributes else 1
    )
    axes = tuple(node.attributes["scan_input_axes"].as_ints()) if "scan_input_axes" in node.attributes else ()
    if len(body.inputs) != len(node.inputs):
        return  # the older form, with lengths in front
    for place, (outer, inner) in enumerate(zip(node.inputs, body.inputs, strict=True)):
        if outer is None:
            continue
        inner.type = inner.type or outer.type
        if outer.shape is None or is_static(inner):
            continue
        sizes = list(outer.shape)
        if place >= states:
            axis = axes[place - states] if place - states < len(axes) else 0
            if not -len(sizes) <= axis < len(sizes):
                continue
            del sizes[axis]
        inner.shape = ir.Shape(sizes)


def is_static(value: "ir.Value") -> bool:
    return value.shape is not None and value.shape.is_static()


def _described(value: "ir.Value") -> TypeProto | None:
    """Returns a value's type and shape as protobuf for inference; None if even the type is unknown."""
    import onnx
    import onnx_ir as ir

    if value.type is not None:
        proto = onnx.TypeProto()
        ir.serde.serialize_type_into(proto, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(proto, value.shape)
        return proto
    if value.const_value is not None:
        return onnx.helper.make_tensor_type_proto(int(value.const_value.dtype), list(value.const_value.shape))
    return None
