"""Checks on the tensors of a model file: external data is complete and in the model's folder, no tensor is too
short, and sparse ones become dense."""

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from edgeopt.errors import ModelError

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto, NodeProto and TensorProto.
Proto = Any
EXTERNAL = 1  # TensorProto.EXTERNAL
# ONNX Runtime marks weights in memory like this; it would interpret the offset in a file as an address.
IN_MEMORY = "_ORT_MEM_ADDR_"


def external_files(model: Proto, path: Path) -> tuple[Path, ...]:
    """Returns the files with the model's external data, in order; raises ModelError for the first invalid one."""
    files: dict[Path, None] = {}
    for tensor in tensors(model):
        if tensor.data_location == EXTERNAL:
            entries = {e.key: e.value for e in tensor.external_data}
            file = _inside(path, tensor.name, entries.get("location", ""))
            _check_length(path, file, tensor, entries)
            files[file] = None
    return tuple(sorted(files))


def tensors(model: Proto) -> Iterator[Proto]:
    """Yields every tensor of a model: weights, attributes, and those in subgraphs and functions."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: Proto) -> Iterator[Proto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Proto) -> Iterator[Proto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in subgraphs(attribute):
                yield from _graph_tensors(graph)


def subgraphs(attribute: Proto) -> tuple[Proto, ...]:
    return (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs)


def _inside(path: Path, tensor: str, location: str) -> Path:
    parts = PurePosixPath(location.replace("\\", "/"))
    if not location or parts.is_absolute() or ".." in parts.parts or ":" in parts.parts[0]:
        raise ModelError(
            f"The weight '{tensor}' of '{path.name}' is outside the model's folder ('{location}').",
            "For safety, only files in the model's folder are read. Save the model again with its data there.",
        )
    if IN_MEMORY in parts.parts:
        raise ModelError(
            f"The weight '{tensor}' of '{path.name}' refers to ONNX Runtime's own memory ('{location}').",
            "That is not a file, and runtimes crash on it. Export the model again.",
        )
    file = path.parent
    for part in parts.parts:
        file /= part
        if file.is_symlink():
            raise ModelError(
                f"The external data '{location}' of '{path.name}' is a symbolic link.",
                "Put the file itself into the model's folder: cp -L follows links.",
            )
    if not file.is_file():
        raise ModelError(
            f"The external data '{location}' of '{path.name}' is missing.",
            f"Put it into the model's folder, {path.parent}; it belongs to the model.",
        )
    if file.stat().st_nlink > 1:
        raise ModelError(
            f"The external data '{location}' of '{path.name}' has several hard links.",
            "onnx's own loaders refuse this for safety. Replace it with a copy: cp makes one.",
        )
    return file


def _check_length(path: Path, file: Path, tensor: Proto, entries: dict[str, str]) -> None:
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or _size_bytes(tensor))
    except ValueError:
        raise ModelError(
            f"The weight '{tensor.name}' of '{path.name}' has no valid offset in '{file.name}'.",
            "Export the model again.",
        ) from None
    size = file.stat().st_size
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(
            f"The external data '{file.name}' of '{path.name}' is too short: "
            f"the weight '{tensor.name}' ends at byte {offset + length:,}, the file at {size:,}.",
            "Copy or download it again; it was probably cut short.",
        )


def _size_bytes(tensor: Proto) -> int:
    import math

    import onnx_ir as ir

    bits: int = math.prod(tensor.dims) * ir.DataType(tensor.data_type).bitwidth
    return math.ceil(bits / 8)


DENSE_LIMIT_BYTES = 1_500_000_000
STRING, COMPLEX64, COMPLEX128 = 8, 14, 15
TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def tensor_fault(model: Proto) -> str | None:
    """Describes the first tensor whose data does not fit its type and shape, or returns None."""
    import onnx_ir as ir

    for tensor in tensors(model):
        name = f"its weight '{tensor.name}'" if tensor.name else "one of its constants"
        if any(size < 0 for size in tensor.dims):
            return f"{name} has a negative dimension"
        try:
            bits = 0 if tensor.data_type == STRING else ir.DataType(tensor.data_type).bitwidth
        except (ValueError, TypeError):
            return f"{name} has the unknown data type {tensor.data_type}"
        count = math.prod(tensor.dims)
        if tensor.data_location == EXTERNAL:
            continue
        if tensor.HasField("raw_data"):
            needed, got, what = math.ceil(count * bits / 8), len(tensor.raw_data), "bytes"
        else:
            needed, what = _stored(tensor.data_type, count, bits), "values"
            got = sum(len(getattr(tensor, field)) for field in TYPED_FIELDS)
        if needed != got:
            return f"{name} has {got:,} {what}; its type and shape need {needed:,}"
    return None


def _stored(data_type: int, count: int, bits: int) -> int:
    """Returns how many numbers store `count` elements: 2- and 4-bit types share a byte, complex ones take two."""
    if data_type in {COMPLEX64, COMPLEX128}:
        return 2 * count
    return math.ceil(count * bits / 8) if bits in {2, 4} else count


def make_dense(model: Proto) -> list[str]:
    """Converts sparse weights and constants to dense ones; returns their names."""
    done = _dense_graph(model.graph)
    for function in model.functions:
        done += _dense_nodes(function.node)
    return done


def _dense_graph(graph: Proto) -> list[str]:
    done = [sparse.values.name for sparse in graph.sparse_initializer]
    for sparse in graph.sparse_initializer:
        graph.initializer.append(_dense(sparse))
    del graph.sparse_initializer[:]
    return done + _dense_nodes(graph.node)


def _dense_nodes(nodes: Proto) -> list[str]:
    done: list[str] = []
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor") and attribute.name == "sparse_value":
                tensor = _dense(attribute.sparse_tensor)
                attribute.ClearField("sparse_tensor")
                attribute.name, attribute.type = "value", type(attribute).TENSOR
                attribute.t.CopyFrom(tensor)
                done.append(node.output[0])
            for inner in subgraphs(attribute):
                done += _dense_graph(inner)
    return done


def _dense(sparse: Proto) -> Proto:
    """Converts a sparse tensor, whose indices are flat or, in rows, one for each dimension."""
    import numpy as np
    import onnx.numpy_helper

    values = onnx.numpy_helper.to_array(sparse.values)
    places = onnx.numpy_helper.to_array(sparse.indices)
    shape = tuple(sparse.dims)
    size = math.prod(shape) * values.dtype.itemsize
    if size > DENSE_LIMIT_BYTES:
        raise ValueError(f"the sparse weight '{sparse.values.name}' would take {size:,} bytes")
    array = np.zeros(shape, values.dtype)
    array[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, shape)] = values
    return onnx.numpy_helper.from_array(array, sparse.values.name)
