"""Atomic writing of models, weight by weight; a model of gigabytes needs the memory of one block."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from edgeopt.errors import ModelError, writing_to
from edgeopt.graph.files.stripped import graphs_of, skeleton, tensor_attributes
from edgeopt.graph.shapes.infer import declared
from edgeopt.platform.files import replace_path, sync_path

if TYPE_CHECKING:
    import onnx_ir as ir

# protobuf classes carry no types; these are onnx's ModelProto and TensorProto.
Proto = Any
EXTERNAL_ABOVE_BYTES = 1_500_000_000  # protobuf ends at 2 GB, with the graph itself still to come
PAGE_BYTES = 4096  # page-aligned data can be mapped into memory
MAPPED_ABOVE_BYTES = 1 << 20
# OpenVINO does not recognize an ONNX model if one of these fields occurs twice before the graph.
AFTER_GRAPH = ("opset_import", "metadata_props", "training_info", "functions", "configuration")
# Fields of onnx.proto, as protobuf writes them in front of bytes with a length.
GRAPH_OF_MODEL, INITIALIZER_OF_GRAPH, RAW_DATA_OF_TENSOR = b"\x3a", b"\x2a", b"\x4a"


def save(model_ir: "ir.Model", path: Path | str, external_above_bytes: int | None = None) -> None:
    """Writes a model atomically; above a size, its weights go into a file beside it, named by their digest.

    The size is 1.5 GB by default, as protobuf ends at 2 GB.

    Because of that name, an older model at the same path stays valid until the rename that replaces it.
    """
    path = Path(path)
    weights = [w.const_value for w in model_ir.graph.initializers.values() if w.const_value is not None]
    above = EXTERNAL_ABOVE_BYTES if external_above_bytes is None else external_above_bytes
    beside = sum(weight.nbytes for weight in weights) > above
    inside = _with_inner_tensors_read(model_ir)
    try:
        with writing_to(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            temporary = Path(folder) / path.name
            with declared(inside):
                proto, big = skeleton(inside, everything=False)
            _leave_out_inner_shapes(proto)
            if beside:
                data = temporary.with_name("data")
                name = f"{path.name}.{_write_data(proto, big, data)[:12]}.data"
                _name_data(proto, name)
                temporary.write_bytes(proto.SerializeToString())
                _put(data, path.with_name(name))
            else:
                with temporary.open("wb") as file:
                    _write_whole(proto, big, file)
            _put(temporary, path)
    except FileNotFoundError as error:
        raise ModelError(
            f"The folder '{path.parent}' does not exist.", "Create it, or choose another path with -o."
        ) from error


def _leave_out_inner_shapes(proto: Proto) -> None:
    """Removes inner shapes, which runtimes infer. With them, ONNX Runtime (1.31) fuses SkipLayerNormalization,
    whose CPU kernel is slower than the nodes that it replaces."""
    for graph in graphs_of(proto.graph):
        graph.ClearField("value_info")


def _with_inner_tensors_read(model_ir: "ir.Model") -> "ir.Model":
    """Returns the model, or a copy that loads external data outside the main graph's weights into memory."""
    import onnx_ir as ir

    def lies_outside(model: "ir.Model") -> "list[tuple[ir.Node, ir.Attr]]":
        return [(n, a) for n, a in tensor_attributes(model) if isinstance(a.value, ir.ExternalTensor)]

    if lies_outside(model_ir) or any(
        isinstance(value.const_value, ir.ExternalTensor)
        for part in model_ir.graphs()
        if part is not model_ir.graph
        for value in part.initializers.values()
    ):
        model_ir = model_ir.clone()
        for node, attribute in lies_outside(model_ir):
            node.attributes[attribute.name] = ir.AttrTensor(attribute.name, _read(attribute.as_tensor()))
        for part in model_ir.graphs():
            for value in part.initializers.values() if part is not model_ir.graph else ():
                if isinstance(value.const_value, ir.ExternalTensor):
                    value.const_value = _read(value.const_value)
    return model_ir


def _read(tensor: "ir.TensorProtocol") -> "ir.Tensor":
    import onnx_ir as ir

    return ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)


class _Digesting:
    """A file that computes the digest of all bytes written; without a descriptor, nothing can bypass it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.written = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.written += len(data)
        return self.file.write(data)


def _write_data(proto: Proto, big: "Sequence[ir.TensorProtocol]", path: Path) -> str:
    """Writes the weights into their own file and their offsets into the model; returns the file's digest."""
    held = [t for t in proto.graph.initializer if t.external_data]
    with path.open("wb") as file:
        out = _Digesting(file)
        for stand_in, tensor in zip(held, big, strict=True):
            if tensor.nbytes > MAPPED_ABOVE_BYTES:
                out.write(bytes(-out.written % PAGE_BYTES))
            start = out.written
            _write_tensor(tensor, out)
            stand_in.ClearField("external_data")
            for key, value in (("location", ""), ("offset", start), ("length", tensor.nbytes)):
                stand_in.external_data.add(key=key, value=str(value))
    return out.digest.hexdigest()


def _name_data(proto: Proto, name: str) -> None:
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name


def _write_whole(proto: Proto, big: "Sequence[ir.TensorProtocol]", file: IO[bytes]) -> None:
    """Writes one protobuf message in pieces: all but the weights, then each weight from its source."""
    waiting = iter(big)
    pieces: list[tuple[bytes, ir.TensorProtocol | None]] = []
    for tensor in proto.graph.initializer:
        source = next(waiting) if tensor.external_data else None
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        head = tensor.SerializeToString()
        if source is not None:
            head += RAW_DATA_OF_TENSOR + _varint(source.nbytes)
        length = len(head) + (source.nbytes if source is not None else 0)
        pieces.append((INITIALIZER_OF_GRAPH + _varint(length) + head, source))
    proto.graph.ClearField("initializer")
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    size = len(graph) + sum(len(head) + (source.nbytes if source is not None else 0) for head, source in pieces)
    after = type(proto)()
    after.CopyFrom(proto)
    for field, _ in proto.ListFields():
        (proto if field.name in AFTER_GRAPH else after).ClearField(field.name)
    file.write(proto.SerializeToString())
    file.write(GRAPH_OF_MODEL + _varint(size) + graph)
    for head, source in pieces:
        file.write(head)
        if source is not None:
            _write_tensor(source, _Digesting(file))
    file.write(after.SerializeToString())


def _write_tensor(tensor: "ir.TensorProtocol", out: _Digesting) -> None:
    start = out.written
    try:
        tensor.tofile(out)
    except OSError as error:
        if error.errno is not None:
            raise
        # raised by onnx-ir if the file was truncated since
    if out.written - start != tensor.nbytes:
        raise ModelError(
            f"The weight '{tensor.name}' has {out.written - start:,} bytes; its type and shape need "
            f"{tensor.nbytes:,}.",
            "Its file was changed meanwhile; export the model again.",
        )


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _put(temporary: Path, final: Path) -> None:
    sync_path(temporary)
    replace_path(temporary, final)
    sync_path(final.parent)
