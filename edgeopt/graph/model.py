"""A model: its graph, its path, its digest. Source files are read and never written."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from edgeopt.errors import MissingExtraError, ModelError, said_by
from edgeopt.graph import sniff
from edgeopt.graph.external import Proto, external_files
from edgeopt.graph.order import disorder

if TYPE_CHECKING:
    import onnx_ir as ir

EXTERNAL_ABOVE_BYTES = 1_500_000_000  # protobuf ends at 2 GB, with the graph itself still to come
SMALL_TENSOR_BYTES = 1024
EXPORT_AGAIN = "Export or download it again; `onnx.checker.check_model` says the same about it."


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded model; weights stay on the disk until they are read."""

    ir: "ir.Model"
    path: Path
    digest: str
    """sha256 over the file and its external data."""
    external: tuple[Path, ...] = ()


def load(path: Path | str) -> Model:
    """Loads an ONNX model; anything else gets one ModelError that says what it is and what to do."""
    try:
        import onnx
        import onnx_ir as ir
    except ImportError:
        raise MissingExtraError("optimize", "Loading a model's graph") from None
    path = Path(path)
    proto = _parse(path, onnx)
    _check_versions(proto, path, onnx)
    external = external_files(proto, path)
    if reason := disorder(proto.graph):
        raise ModelError(f"The graph of '{path.name}' {reason}.", EXPORT_AGAIN)
    proto = _with_output_shapes(proto, onnx)
    try:
        onnx.checker.check_model(str(path) if external else proto)
        graph = ir.from_proto(proto)
    except (onnx.checker.ValidationError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"'{path.name}' is not a valid ONNX model: {said_by(error)}", EXPORT_AGAIN) from error
    ir.external_data.set_base_dir(graph.graph, str(path.parent.resolve()))
    _read_small_tensors(graph)
    return Model(graph, path, digest_of((path, *external)), external)


def _with_output_shapes(proto: Proto, onnx: ModuleType) -> Proto:
    """onnx's checker wants a shape for every output; real models leave it out, and no runtime minds."""
    if all(output.type.tensor_type.HasField("shape") for output in proto.graph.output):
        return proto
    try:
        return onnx.shape_inference.infer_shapes(proto)
    except (onnx.shape_inference.InferenceError, ValueError):
        return proto  # the checker says what is missing


def save(model_ir: "ir.Model", path: Path | str) -> None:
    """Writes a model whole or not at all; above 1.5 GB its weights go beside it, named by their digest.

    That name lets an older model at the same path stay valid until the very rename that replaces it.
    """
    import onnx_ir as ir

    path = Path(path)
    inside = ir.external_data.load_to_model(model_ir.clone())
    weights = [
        w.const_value for g in inside.graphs() for w in g.initializers.values() if w.const_value is not None
    ]
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            temporary = Path(folder) / path.name
            if sum(w.nbytes for w in weights) > EXTERNAL_ABOVE_BYTES:
                digest = hashlib.sha256()
                for weight in weights:
                    digest.update(weight.tobytes())
                data = f"{path.name}.{digest.hexdigest()[:12]}.data"
                ir.save(inside, temporary, format="protobuf", external_data=data)
                _put(temporary.with_name(data), path.with_name(data))
            else:
                ir.save(inside, temporary, format="protobuf")
            _put(temporary, path)
    except FileNotFoundError as error:
        raise ModelError(
            f"The folder '{path.parent}' does not exist.", "Make it first, or give another place with -o."
        ) from error


def digest_of(files: tuple[Path, ...]) -> str:
    """sha256 over the contents of several files, in their order."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _parse(path: Path, onnx: ModuleType) -> Proto:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

    sniff.check_file(path)
    data = path.read_bytes()
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        if sniff.is_cut_short(data):
            raise ModelError(
                f"'{path.name}' is cut short: the model goes on after the file's end ({len(data):,} bytes).",
                "Copy or download it again.",
            ) from error
        raise ModelError(
            f"'{path.name}' is not an ONNX model: its bytes cannot be read as one.",
            "Give a file that an ONNX exporter wrote.",
        ) from error
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"'{path.name}' holds no graph.", "Give a file that an ONNX exporter wrote.")
    return proto


def _check_versions(proto: Proto, path: Path, onnx: ModuleType) -> None:
    newer = f"Update onnx ({onnx.__version__} is installed): pip install -U onnx; or export with an older one."
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"'{path.name}' has IR version {proto.ir_version}; the newest known here is {onnx.IR_VERSION}.",
            newer,
        )
    latest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in {"", "ai.onnx"} and opset.version > latest:
            raise ModelError(
                f"'{path.name}' uses opset {opset.version}; the newest known here is {latest}.", newer
            )


def _read_small_tensors(graph: "ir.Model") -> None:
    """Brings small external weights (shapes, axes, scales) into memory, where onnx's checks see them."""
    import onnx_ir as ir

    for part in graph.graphs():
        for weight in part.initializers.values():
            tensor = weight.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= SMALL_TENSOR_BYTES:
                weight.const_value = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)


def _put(temporary: Path, final: Path) -> None:
    with temporary.open("rb") as stream:
        os.fsync(stream.fileno())
    temporary.replace(final)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(final.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
