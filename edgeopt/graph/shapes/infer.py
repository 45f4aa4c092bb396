"""Inference of shapes and types from declared ones and from the sizes that a user fixes.

Sizes that follow only from data (a `NonZero`, a `Reshape` to a computed shape, the length of a `Loop`) stay open.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgeopt.graph.files.stripped import inferable, skeleton
from edgeopt.graph.nodes import inner_graphs, is_op, parts, subgraphs
from edgeopt.graph.shapes.corrections import prepare
from edgeopt.graph.shapes.propagate import NO_SHAPES, merged, propagate

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto and FunctionProto.
Proto = Any
# onnx follows the contents of 1-D integer tensors at 140 bytes an element; shapes have a few dimensions.
FOLLOWED_ELEMENTS = 10_000
INTEGERS = {6, 7}


def infer_shapes(model: "ir.Model", shapes: Mapping[str, tuple[int, ...]] = NO_SHAPES) -> None:
    """Fills in unknown shapes and types, including subgraphs and functions; never fails.

    Known shapes stay, and so do inputs and outputs, except that `shapes` first fixes open dimensions of inputs and
    the dimensions of outputs that depend on them. A size that contradicts a declared one is ignored.
    """
    bind(model, shapes)
    if not _all_known(model, outputs=bool(shapes)):
        _complete(model, outputs=bool(shapes))
        _fill_functions(model)


def _complete(model: "ir.Model", outputs: bool) -> None:
    """Fills in unknown shapes and types except those inside functions; with `outputs`, of outputs too."""
    followed = _infer_whole(model, outputs, {})
    if not _all_known(model, outputs):
        declared_shapes = [] if outputs else [(value, value.shape) for value in model.graph.outputs]
        found = propagate(model, every_node=not followed)
        for value, shape in declared_shapes:
            value.shape = shape
        # Names of open dimensions follow from small values only in the inference of the whole model.
        if found.changed and not _all_known(model, outputs):
            _infer_whole(model, outputs, found.values)


def _infer_whole(model: "ir.Model", outputs: bool, values: "Mapping[ir.Value, NDArray[np.generic]]") -> bool:
    """Fills in what onnx infers of the whole model; returns False if its inference fails."""
    proto = inferable(skeleton(model)[0])
    _put_in(values, model.graph, proto.graph)
    inferred = _inferred(proto)
    if inferred is None:
        return False
    _fill(model.graph, inferred.graph, outputs=outputs)
    return True


def _put_in(values: "Mapping[ir.Value, NDArray[np.generic]]", graph: "ir.Graph", proto: Proto) -> None:
    """Replaces nodes whose results are known by constants; all nodes keep their positions."""
    import onnx.numpy_helper

    for node, twin in zip(graph, proto.node, strict=False):
        array = values.get(node.outputs[0]) if len(node.outputs) == 1 else None
        if array is not None and twin.op_type != "Constant":
            value = onnx.numpy_helper.from_array(array, "")
            twin.CopyFrom(onnx.helper.make_node("Constant", [], twin.output, name=twin.name, value=value))
        inner = {attribute.name: attribute.g for attribute in twin.attribute if attribute.HasField("g")}
        for name, held in subgraphs(node) if inner else ():
            if name in inner:
                _put_in(values, held, inner[name])


def _all_known(model: "ir.Model", outputs: bool) -> bool:
    """Whether all shapes are known, which is faster to check than to infer."""
    if model.functions:
        return False
    ignored = set() if outputs else set(model.graph.outputs)
    return all(
        value.dtype is not None and value.shape is not None and value.shape.is_static()
        for graph in model.graphs()
        for node in graph
        for value in node.outputs
        if value.name and value not in ignored
    )


def bind(model: "ir.Model", shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Fixes open dimensions of inputs; a named one is fixed wherever its name occurs."""
    import onnx_ir as ir

    sizes: dict[str, int] = {}
    for value in model.graph.inputs:
        shape = shapes.get(value.name or "")
        if shape is None:
            continue
        if value.shape is None:
            value.shape = ir.Shape(shape)
        elif len(value.shape) == len(shape):
            for dimension, size in zip(value.shape, shape, strict=True):
                if not isinstance(dimension, int) and dimension.value is not None:
                    sizes.setdefault(dimension.value, size)
            value.shape = merged(value.shape, ir.Shape(shape))
    if not sizes:
        return
    for value in _values(model):
        if value.shape is not None and not value.shape.is_static():
            value.shape = ir.Shape([d if isinstance(d, int) else sizes.get(d.value or "", d) for d in value.shape])


DECLARED = "edgeopt.declared"
"""Key in `meta` of a body's graph for the shapes that the file declares for its inputs and outputs."""


def forget_claims(model: "ir.Model") -> None:
    """Drops the shapes that a file states for inner values; types stay, and `declared` restores those of bodies.

    Exporters freeze sizes there that are open, so a pass that used them would be wrong for other sizes.
    """
    claims = any(v.shape is not None for part in parts(model) for node in part for v in node.outputs)
    open_outputs = any(_is_open(value.shape) for inner in _bodies(model) for value in inner.outputs)
    followed = _outputs_by_claims(model) if claims and open_outputs else {}
    for place, inner in enumerate(_bodies(model)):
        outputs = [
            followed.get((place, k), value.shape) if _is_open(value.shape) else value.shape
            for k, value in enumerate(inner.outputs)
        ]
        inner.meta.setdefault(DECLARED, ([value.shape for value in inner.inputs], outputs))
    _drop_shapes(model)


def _is_open(shape: "ir.Shape | None") -> bool:
    return shape is None or not shape.is_static()


def _drop_shapes(model: "ir.Model") -> None:
    for part in parts(model):
        for node in part:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.shape = None
            # The state of a loop may grow; the iteration number and the condition stay scalars.
            for inner in inner_graphs(node):
                for value in (*list(inner.inputs)[2 if is_op(node, "Loop") else 0 :], *inner.outputs):
                    value.shape = None


def _bodies(model: "ir.Model") -> "list[ir.Graph]":
    return [inner for part in parts(model) for node in part for inner in inner_graphs(node)]


def _outputs_by_claims(model: "ir.Model") -> "dict[tuple[int, int], ir.Shape]":
    """Returns the shapes of body outputs that follow only from the file's shapes of inner values."""
    believed, bare = model.clone(), model.clone()
    _drop_shapes(bare)
    for each in (believed, bare):
        infer_shapes(each)
    pairs = zip(_bodies(believed), _bodies(bare), strict=True)
    return {
        (place, k): claimed.shape
        for place, (one, other) in enumerate(pairs)
        for k, (claimed, known) in enumerate(zip(one.outputs, other.outputs, strict=True))
        if claimed.shape is not None and claimed.shape != known.shape
    }


@contextmanager
def declared(model: "ir.Model") -> "Iterator[None]":
    """Gives inputs and outputs of bodies exactly the shapes that the file declares, for writing the model.

    For outputs that a Loop without iterations collects, ONNX Runtime uses the shape that the body declares or
    implies.
    """
    before: list[tuple[ir.Value, ir.Shape | None]] = []
    for part in parts(model):
        for node in part:
            for inner in inner_graphs(node):
                for values, shapes in zip(
                    (inner.inputs, inner.outputs), inner.meta.get(DECLARED, ()), strict=False
                ):
                    for value, shape in zip(values, shapes, strict=True) if len(values) == len(shapes) else ():
                        before.append((value, value.shape))
                        value.shape = shape
    try:
        yield
    finally:
        for value, shape in reversed(before):
            value.shape = shape


def fill_outputs(model: "ir.Model") -> None:
    """Gives outputs without a declared type or shape the inferred one."""
    if all(value.shape is not None or not _is_tensor(value) for value in model.graph.outputs):
        return
    inferred = model.clone()
    _complete(inferred, outputs=True)
    for value, found in zip(model.graph.outputs, inferred.graph.outputs, strict=True):
        value.type, value.shape = value.type or found.type, merged(value.shape, found.shape)


def _is_tensor(value: "ir.Value") -> bool:
    import onnx_ir as ir

    return value.type is None or isinstance(value.type, ir.TensorType)


def _values(model: "ir.Model") -> "Iterator[ir.Value]":
    for graph in model.graphs():
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _inferred(proto: Proto) -> Proto | None:
    """Returns the model with all shapes that onnx infers; None if its inference fails."""
    import onnx

    prepare(proto)
    infer = onnx.shape_inference.infer_shapes
    found = None
    try:
        found = infer(proto)
        if _largest_followed(found.graph) <= FOLLOWED_ELEMENTS:
            # Infers again, because generated names of the first inference would hide sizes that follow from data.
            found = infer(proto, data_prop=True)
    except Exception:  # noqa: BLE001 - what a library raises about odd graphs; what was found until then still holds
        return found
    return found


def _largest_followed(graph: Proto) -> int:
    """Returns the number of elements of the longest 1-D integer tensor of known length."""
    longest = max(
        (w.dims[0] for w in graph.initializer if len(w.dims) == 1 and w.data_type in INTEGERS), default=0
    )
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.elem_type in INTEGERS and len(kind.shape.dim) == 1:
            longest = max(longest, kind.shape.dim[0].dim_value)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                longest = max(longest, _largest_followed(inner))
    return longest


def _fill(part: "ir.Graph | ir.Function", found: Proto, outputs: bool) -> None:
    """Copies inferred shapes and types into a graph and its subgraphs."""
    infos = {info.name: info for info in (*found.value_info, *found.output)}
    for node, proto in zip(part, found.node, strict=False):
        for value in node.outputs:
            info = infos.get(value.name or "")
            if info is not None and (outputs or not value.is_graph_output()):
                _take(value, info)
        for attribute in proto.attribute:
            if attribute.HasField("g") and attribute.name in node.attributes:
                _fill(node.attributes[attribute.name].as_graph(), attribute.g, outputs=True)


def _take(value: "ir.Value", info: Proto) -> None:
    import onnx_ir as ir

    type_ = info.type
    if type_.WhichOneof("value") not in {"tensor_type", "sparse_tensor_type"} and "map_type" in str(type_):
        return  # onnx-ir has no maps; see files/stripped.py
    value.type = value.type or ir.serde.deserialize_type_proto_for_type(type_)
    value.shape = merged(value.shape, ir.serde.deserialize_type_proto_for_shape(type_))


def _fill_functions(model: "ir.Model") -> None:
    """Fills in shapes inside functions on which all calls agree, callers before the functions that they call."""
    waiting = dict(model.functions)
    calls: dict[ir.OperatorIdentifier, list[ir.Node]] = {}
    for graph in model.graphs():
        _note_calls(graph, model, calls)
    while waiting:
        called_by_waiting = {
            node.op_identifier() for function in waiting.values() for node in function.all_nodes()
        }
        ready = [identifier for identifier in waiting if identifier not in called_by_waiting]
        if not ready:
            return  # recursive functions, which loading refuses
        for identifier in ready:
            function = waiting.pop(identifier)
            if identifier in calls:
                _fill_function(function, calls[identifier], model)
            _note_calls(function, model, calls)
            for inner in function.subgraphs():
                _note_calls(inner, model, calls)


def _note_calls(
    part: "ir.Graph | ir.Function", model: "ir.Model", calls: "dict[ir.OperatorIdentifier, list[ir.Node]]"
) -> None:
    for node in part:
        if node.op_identifier() in model.functions:
            calls.setdefault(node.op_identifier(), []).append(node)


def _fill_function(function: "ir.Function", calls: "list[ir.Node]", model: "ir.Model") -> None:
    import onnx
    import onnx_ir as ir

    body = ir.to_proto(function)
    graph = onnx.GraphProto(name="body", node=body.node)
    for place, name in enumerate(body.input):
        arguments = [call.inputs[place] if place < len(call.inputs) else None for call in calls]
        value = _common(arguments)
        if value is not None:
            value.name = name
            graph.input.append(ir.to_proto(value))
    _resolve_references(graph, function, calls)
    functions = [ir.to_proto(each) for each in model.functions.values()]
    proto = onnx.ModelProto(
        graph=graph, ir_version=model.ir_version, opset_import=body.opset_import, functions=functions
    )
    inferred = ir.from_proto(proto)
    _complete(inferred, outputs=True)
    _copy_shapes(inferred.graph, function)


def _copy_shapes(source: "ir.Graph", target: "ir.Graph | ir.Function") -> None:
    for node, twin in zip(source, target, strict=True):
        for found, value in zip(node.outputs, twin.outputs, strict=True):
            value.type, value.shape = value.type or found.type, merged(value.shape, found.shape)
        for (_, inner), (_, other) in zip(subgraphs(node), subgraphs(twin), strict=True):
            _copy_shapes(inner, other)


def _common(values: "list[ir.Value | None]") -> "ir.Value | None":
    """Returns a value with the type and the dimensions that all values share; None without a common type."""
    import onnx_ir as ir

    known = [value for value in values if value is not None and value.type is not None]
    if len(known) < len(values) or len({str(value.type) for value in known}) != 1:
        return None
    shapes = [value.shape for value in known]
    common = None
    if all(shape is not None for shape in shapes) and len({len(shape or ()) for shape in shapes}) == 1:
        columns = zip(*(tuple(shape or ()) for shape in shapes), strict=True)
        common = ir.Shape([column[0] if len(set(column)) == 1 else None for column in columns])
    return ir.Value(name="", type=known[0].type, shape=common)


def _resolve_references(graph: Proto, function: "ir.Function", calls: "list[ir.Node]") -> None:
    """Resolves references to attributes in a function body by the calls, or by the function's defaults."""
    import onnx_ir as ir

    for node in graph.node:
        for attribute in list(node.attribute):
            if not attribute.ref_attr_name:
                continue
            default = function.attributes.get(attribute.ref_attr_name)
            attributes = [call.attributes.get(attribute.ref_attr_name, default) for call in calls]
            protos = [ir.to_proto(each) for each in attributes if each is not None and each.value is not None]
            name = attribute.name
            node.attribute.remove(attribute)
            if protos and len(protos) == len(attributes) and all(each == protos[0] for each in protos):
                node.attribute.add().CopyFrom(protos[0])
                node.attribute[-1].name = name
