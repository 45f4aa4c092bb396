"""The files beside a model that hold its weights: are they there, whole, and in the model's folder?"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from edgeopt.errors import ModelError

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto, NodeProto and TensorProto.
Proto = Any
EXTERNAL = 1  # TensorProto.EXTERNAL
# ONNX Runtime marks weights that it holds in memory so; in a file the offset would be taken for an address.
IN_MEMORY = "_ORT_MEM_ADDR_"


def external_files(model: Proto, path: Path) -> tuple[Path, ...]:
    """The files with the model's external data, in order; raises ModelError for the first unusable one."""
    files: dict[Path, None] = {}
    for tensor in tensors(model):
        if tensor.data_location == EXTERNAL:
            entries = {e.key: e.value for e in tensor.external_data}
            file = _inside(path, tensor.name, entries.get("location", ""))
            _check_length(path, file, tensor, entries)
            files[file] = None
    return tuple(sorted(files))


def tensors(model: Proto) -> Iterator[Proto]:
    """Every tensor of a model: weights, attributes, and those inside subgraphs and functions."""
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
