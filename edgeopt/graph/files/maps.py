"""Map types, which classical models give (`ZipMap`) and onnx-ir cannot hold.

They go through onnx-ir as optional types with a mark, and become maps again where a model is written.
"""

from collections.abc import Iterator
from typing import Any

from edgeopt.graph.files.tensors import subgraphs

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto and TypeProto.
Proto = Any
MARK = "edgeopt.map."  # the type of the keys stands behind it


def hide(model: Proto) -> None:
    """Puts marked types in the place of maps."""
    for type_ in _types(model.graph):
        _hide(type_)


def restore(model: Proto) -> None:
    """The other way."""
    for type_ in _types(model.graph):
        _restore(type_)


def _hide(type_: Proto) -> None:
    if type_.HasField("map_type"):
        key, value = type_.map_type.key_type, _copy(type_.map_type.value_type)
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
        key, value = int(type_.denotation.removeprefix(MARK)), _copy(inner)
        type_.ClearField("denotation")
        type_.map_type.key_type = key
        type_.map_type.value_type.CopyFrom(value)


def _inner(type_: Proto) -> Proto | None:
    kind = type_.WhichOneof("value")
    return getattr(type_, kind).elem_type if kind in {"sequence_type", "optional_type"} else None


def _copy(message: Proto) -> Proto:
    """Setting one field of a oneof clears the other, and what lies in it."""
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
