"""A model: its graph, its path, its digest. Source files are read and never written."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from edgeopt.errors import MissingExtraError, ModelError, error_text, no_outputs
from edgeopt.graph.files import sniff, stripped
from edgeopt.graph.files.order import disorder, function_cycle, function_disorder, sort
from edgeopt.graph.files.saving import save
from edgeopt.graph.files.sniff import check_versions, import_domains
from edgeopt.graph.files.stripped import checkable, skeleton, without_big_tensors
from edgeopt.graph.files.tensors import Proto, external_files, make_dense, tensor_fault
from edgeopt.graph.shapes.infer import fill_outputs
from edgeopt.graph.structure import unsound

if TYPE_CHECKING:
    import onnx_ir as ir

# The second module only builds a table of functions of the first.
_LATER = ("sympy", "onnx_ir._symbolic_shapes")


def import_onnx_ir() -> ModuleType:
    """Imports onnx_ir with lazy loading of slow dependencies; must run before any other import of onnx_ir."""
    finder = _Later()
    sys.meta_path.insert(0, finder)
    try:
        import onnx_ir
    finally:
        sys.meta_path.remove(finder)
    module: ModuleType = onnx_ir
    return module


class _Later:
    """An import finder that defers the execution of slow modules until an attribute is read."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


__all__ = ["Model", "digest_of", "load", "save"]

SMALL_TENSOR_BYTES = 1024
PROTOBUF_BYTES = (2 << 30) - 1
LONGEST_MESSAGE = 400
WEIGHTS_NEED_NO_INPUT = 4  # from this IR version on; onnxslim, for one, does not raise it
EXPORT_AGAIN = "Export or download it again; `onnx.checker.check_model` reports the same error."


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded model; weights stay on the disk until they are read."""

    ir: "ir.Model"
    path: Path
    digest: str
    """sha256 over the file and its external data."""
    external: tuple[Path, ...] = ()
    repairs: tuple[str, ...] = ()
    """Repairs that the model needed before use, as ends of sentences: "sorted the nodes, which …"."""


def load(path: Path | str) -> Model:
    """Loads an ONNX model; raises ModelError with the type of any other file and the next step."""
    try:
        import onnx

        if find_spec("onnx_ir") is None:
            raise ImportError
    except ImportError:
        raise MissingExtraError("optimize", "Loading a model's graph") from None
    try:
        return _load(Path(path), onnx)
    except ModelError as error:
        raise ModelError(_legible(error.message), error.hint) from error.__cause__
    except MemoryError:
        raise
    except OSError as error:
        raise ModelError(
            f"The files of '{path}' cannot be read: {error_text(error)}.", "Check them and their permissions."
        ) from error
    except Exception as error:  # damaged files make the libraries raise unrelated exceptions
        raise _invalid(Path(path), _legible(error_text(_first(error)))) from error


def _load(path: Path, onnx: ModuleType) -> Model:
    proto = _parse(path, onnx)
    check_versions(proto, path, onnx)
    ir = import_onnx_ir()  # slow, so it comes after the checks that reject most invalid files
    external = external_files(proto, path)
    repairs = _repair(proto, path)
    if problem := unsound(checkable(without_big_tensors(proto))):
        raise _invalid(path, problem)
    stripped.hide_maps(proto)
    graph = ir.from_proto(proto)
    ir.external_data.set_base_dir(graph.graph, str(path.parent.resolve()))
    _read_small_tensors(graph)
    skeleton(graph)  # reading accepts names that are not UTF-8, writing does not
    fill_outputs(graph)
    return Model(graph, path, digest_of((path, *external)), external, repairs)


def _repair(proto: Proto, path: Path) -> tuple[str, ...]:
    """Repairs a model as far as possible and returns the repairs; raises ModelError for invalid models."""
    repairs = []
    if tensor_said := tensor_fault(proto):
        raise ModelError(f"'{path.name}' is damaged: {tensor_said}.", EXPORT_AGAIN)
    if dense := make_dense(proto):
        repairs.append(f"converted sparse weights to dense: {_listed(dense)}")
    unsorted = [part for part in (proto.graph, *proto.functions) if sort(part)]
    if unsorted:
        repairs.append("sorted the nodes into an order in which they can run")
    reason = disorder(proto.graph) or next(filter(None, map(function_disorder, proto.functions)), None)
    if reason := reason or function_cycle(proto.functions):
        raise ModelError(f"The graph of '{path.name}' {reason}.", EXPORT_AGAIN)
    if domains := import_domains(proto):
        repairs.append(f"added missing imports of {_listed(domains)}")
    if _open_sizes(proto):
        repairs.append("read sizes of -1 and '?' as open dimensions")
    inputs = {value.name for value in proto.graph.input}
    if proto.ir_version < WEIGHTS_NEED_NO_INPUT and any(w.name not in inputs for w in proto.graph.initializer):
        repairs.append(f"raised the IR version from {proto.ir_version}, which required each weight to be an input")
        proto.ir_version = WEIGHTS_NEED_NO_INPUT
    if proto.training_info:
        proto.ClearField("training_info")
        repairs.append("removed the training information")
    return tuple(repairs)


def _open_sizes(proto: Proto) -> bool:
    """Makes sizes open that mean "any": negative ones, or a question mark, which would be one name for all."""
    found = False
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if (dim.HasField("dim_value") and dim.dim_value < 0) or dim.dim_param == "?":
                dim.Clear()
                found = True
    return found


def _legible(message: str) -> str:
    """Shortens a message to one line, whatever names a damaged model contains."""
    text = "".join(c if c.isprintable() else " " for c in message)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 4]}..."


def _first(error: BaseException) -> BaseException:
    """Returns the root cause of an error; the library wraps each error once for every level of the graph."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"'{name}'" for name in names[:3]) + rest


def _invalid(path: Path, problem: str) -> ModelError:
    return ModelError(f"'{path.name}' is not a valid ONNX model: {problem}", EXPORT_AGAIN)


def digest_of(files: tuple[Path, ...]) -> str:
    """Returns the sha256 over the contents of several files, in their order."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _parse(path: Path, onnx: ModuleType) -> Proto:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

    sniff.check_file(path)
    if (size := path.stat().st_size) > PROTOBUF_BYTES:
        raise ModelError(
            f"'{path.name}' has {size:,} bytes, and the limit of protobuf, the file format, is 2 GiB.",
            "Save its weights in separate files: onnx.save(model, path, save_as_external_data=True).",
        )
    data = path.read_bytes()
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        if sniff.is_cut_short(data):
            raise ModelError(
                f"'{path.name}' is cut short: the model continues beyond its end ({len(data):,} bytes).",
                "Copy or download it again.",
            ) from error
        raise ModelError(
            f"'{path.name}' is not an ONNX model: it cannot be parsed.", "Pass a file that an ONNX exporter wrote."
        ) from error
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"'{path.name}' contains no graph.", "Pass a file that an ONNX exporter wrote.")
    if not proto.graph.output:
        raise no_outputs(path.name)
    return proto


def _read_small_tensors(graph: "ir.Model") -> None:
    """Loads small external weights (shapes, axes, scales) into memory, for onnx's checks."""
    import onnx_ir as ir

    for part in graph.graphs():
        for weight in part.initializers.values():
            tensor = weight.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= SMALL_TENSOR_BYTES:
                weight.const_value = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)
