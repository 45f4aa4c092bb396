"""Models as protobuf without their big weights, for onnx's checker, shape inference, and writing.

Weights are most of a model's bytes, and neither the checker nor shape inference reads the big ones; a copy of a
model of gigabytes takes kilobytes without them.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from edgeopt.graph.files.tensors import EXTERNAL, subgraphs, tensors

if TYPE_CHECKING:
    import onnx_ir as ir

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto, NodeProto and TensorProto.
Proto = Any
KEPT_BYTES = 1024  # shapes, axes, scales, which checks and inference may read
STAND_IN = "edgeopt-stand-in"
_EXCUSED = "edgeopt.excused"
_RUNTIME_OWN = {("", "SimplifiedLayerNormalization"), ("ai.onnx", "SimplifiedLayerNormalization")}


def skeleton(model: "ir.Model", everything: bool = True) -> "tuple[Proto, list[ir.TensorProtocol]]":
    """Returns the model as protobuf with placeholders for big weights; an `offset` is the index in the list.

    With `everything`, big tensors in subgraphs and attributes are replaced too, else the main graph's weights
    only.
    """
    import onnx_ir as ir

    with _replaced(model, everything) as big:
        proto = ir.to_proto(model)
    restore_maps(proto)
    return proto, big


def without_big_tensors(proto: Proto) -> Proto:
    """Copies a model with placeholders for its big tensors, whose data is never copied."""
    copy = type(proto)()
    _copy(proto, copy)
    return copy


def _copy(source: Proto, target: Proto) -> None:
    """Copies fields that may contain a tensor one by one, and other fields whole."""
    for field, value in source.ListFields():
        kind = field.message_type.name if field.message_type else ""
        if kind == "TensorProto":
            for tensor in _each(field, value):
                _copy_tensor(tensor, _new(field, target))
        elif kind in _HOLDERS:
            for message in _each(field, value):
                if kind == "NodeProto" and _is_plain(message):
                    _new(field, target).CopyFrom(message)
                else:
                    _copy(message, _new(field, target))
        elif field.is_repeated:
            getattr(target, field.name).MergeFrom(value)
        elif kind:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


_HOLDERS = {"GraphProto", "NodeProto", "AttributeProto", "TrainingInfoProto", "FunctionProto"}
_HEAD = ("name", "data_type", "doc_string")


def _each(field: Proto, value: Proto) -> Proto:
    return value if field.is_repeated else (value,)


def _new(field: Proto, target: Proto) -> Proto:
    made = getattr(target, field.name)
    if field.is_repeated:
        return made.add()
    made.SetInParent()
    return made


def _is_plain(node: Proto) -> bool:
    """Whether a node contains neither a tensor nor a graph."""
    return not any(a.HasField("t") or a.HasField("g") or a.tensors or a.graphs for a in node.attribute)


def _copy_tensor(source: Proto, target: Proto) -> None:
    if source.data_location != EXTERNAL and math.prod(source.dims) * 4 <= KEPT_BYTES:
        target.CopyFrom(source)
        return
    for name in _HEAD:
        setattr(target, name, getattr(source, name))
    target.dims.extend(source.dims)
    target.data_location = EXTERNAL
    target.external_data.add(key="location", value=STAND_IN)


@contextmanager
def _replaced(model: "ir.Model", everything: bool) -> "Iterator[list[ir.TensorProtocol]]":
    """Replaces big weights by placeholders and restores them on exit, without changing the graph itself."""
    import onnx_ir as ir

    big: list[ir.TensorProtocol] = []
    values: list[tuple[ir.Value, ir.TensorProtocol]] = []
    attributes: list[tuple[ir.Node, ir.Attr]] = []

    def stand_in(tensor: "ir.TensorProtocol") -> "ir.ExternalTensor":
        big.append(tensor)
        return ir.ExternalTensor(
            STAND_IN, len(big) - 1, None, tensor.dtype, shape=ir.Shape(tensor.shape), name=tensor.name or ""
        )

    try:
        for part in model.graphs() if everything else (model.graph,):
            for value in part.initializers.values():
                tensor = value.const_value
                if tensor is not None and is_big(tensor):
                    values.append((value, tensor))
                    value.const_value = stand_in(tensor)
        for node, attribute in tensor_attributes(model) if everything else ():
            tensor = attribute.as_tensor()
            if is_big(tensor):
                attributes.append((node, attribute))
                node.attributes[attribute.name] = ir.AttrTensor(attribute.name, stand_in(tensor))
        yield big
    finally:
        for value, tensor in values:
            value.const_value = tensor
        for node, attribute in attributes:
            node.attributes[attribute.name] = attribute


def tensor_attributes(model: "ir.Model") -> "Iterator[tuple[ir.Node, ir.Attr]]":
    import onnx_ir as ir

    functions = (part for f in model.functions.values() for part in (f, *f.subgraphs()))
    for part in (*model.graphs(), *functions):
        for node in part:
            for attribute in tuple(node.attributes.values()):
                if not attribute.is_ref() and attribute.type is ir.AttributeType.TENSOR:
                    yield node, attribute


def is_big(tensor: "ir.TensorProtocol") -> bool:
    """Whether a tensor is replaced by a placeholder; external data always is."""
    import onnx_ir as ir

    if tensor.dtype is ir.DataType.STRING:
        return False
    return isinstance(tensor, ir.ExternalTensor) or tensor.nbytes > KEPT_BYTES


def checkable(proto: Proto) -> Proto:
    """Adapts a skeleton to onnx's checker, which requires data, but none for an empty tensor.

    The checker also requires a type and a shape for every input and output, which real models omit and no runtime
    requires.
    """
    for tensor in tensors(proto):
        if _is_stand_in(tensor):
            _forget_place(tensor)
            tensor.dims[:] = [0]
    for graph in graphs_of(proto.graph):
        for value in graph.output:
            if value.type.WhichOneof("value") is None:
                value.type.tensor_type.elem_type = 1
        for value in (*graph.input, *graph.output):
            kind = value.type.WhichOneof("value")
            if kind in {"tensor_type", "sparse_tensor_type"}:
                getattr(value.type, kind).shape.SetInParent()
    _excuse_operators(proto)
    return proto


def _excuse_operators(proto: Proto) -> None:
    """Hides operators from the checker that exporters and runtimes use: deprecated ones, such as
    GroupNormalization-18, and those that ONNX Runtime adds to the standard domain."""
    newest = {entry.domain: entry.version for entry in proto.opset_import}
    old = {(domain, name) for domain, name, since in _deprecated() if since <= newest.get(domain, 0)}
    old |= _RUNTIME_OWN
    found = [node for graph in graphs_of(proto.graph) for node in graph.node if (node.domain, node.op_type) in old]
    for node in found:
        node.domain = _EXCUSED
    if found:
        proto.opset_import.add(domain=_EXCUSED, version=1)


@cache
def _deprecated() -> tuple[tuple[str, str, int], ...]:
    import onnx

    schemas = onnx.defs.get_all_schemas_with_history()
    return tuple((schema.domain, schema.name, schema.since_version) for schema in schemas if schema.deprecated)


def inferable(proto: Proto) -> Proto:
    """Adapts a skeleton to shape inference: weights have a type and shape but no data."""
    for tensor in tensors(proto):
        if _is_stand_in(tensor):
            _forget_place(tensor)
    return proto


def _is_stand_in(tensor: Proto) -> bool:
    return bool(tensor.data_location == EXTERNAL and tensor.external_data[0].value == STAND_IN)


def _forget_place(tensor: Proto) -> None:
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")


def graphs_of(graph: Proto) -> Iterator[Proto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                yield from graphs_of(inner)


MARK = "edgeopt.map."  # the type of the keys stands behind it


def hide_maps(model: Proto) -> None:
    """Replaces map types, which classical models output (`ZipMap`) and onnx-ir cannot represent.

    They become optional types with a mark, which `restore_maps` converts back when a model is written.
    """
    for type_ in _types(model.graph):
        _hide(type_)


def restore_maps(model: Proto) -> None:
    """Restores map types from marked optional types."""
    for type_ in _types(model.graph):
        _restore(type_)


def _hide(type_: Proto) -> None:
    if type_.HasField("map_type"):
        key, value = type_.map_type.key_type, _copy_of(type_.map_type.value_type)
        _hide(value)
        type_.denotation = f"{MARK}{key}"
        type_.optional_type.elem_type.CopyFrom(value)
    elif (inner := _inner(type_)) is not None:
        _hide(inner)


def _restore(type_: Proto) -> None:
    inner = _inner(type_)
    if inner is None:
        return
    _restore(inner)
    if type_.denotation.startswith(MARK):
        key, value = int(type_.denotation.removeprefix(MARK)), _copy_of(inner)
        type_.ClearField("denotation")
        type_.map_type.key_type = key
        type_.map_type.value_type.CopyFrom(value)


def _inner(type_: Proto) -> Proto | None:
    kind = type_.WhichOneof("value")
    return getattr(type_, kind).elem_type if kind in {"sequence_type", "optional_type"} else None


def _copy_of(message: Proto) -> Proto:
    """Copies a message, because setting one field of a oneof clears the other and its content."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _types(graph: Proto) -> Iterator[Proto]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.type
    for node in graph.node:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                yield from _types(inner)
