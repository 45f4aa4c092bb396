"""Detection of file types by their first bytes, and of the ONNX versions that a model needs."""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from edgeopt.errors import ModelError, error_text
from edgeopt.graph.files.checkpoints import FROM_CODE, SUFFIXES, checkpoint_error, import_hint
from edgeopt.graph.files.tensors import subgraphs
from edgeopt.platform.command_line import join_words

HEAD_BYTES = 4096
AS_TEXT = "Convert it first: onnx.save(onnx.load(path, format='{}'), 'model.onnx')."


@dataclass(frozen=True, slots=True)
class Sighting:
    """Type of a file that is not an ONNX model, and the next step for the user."""

    what: str
    hint: str = ""
    suffixes: tuple[str, ...] = ()
    """Suffixes with which `edgeopt import` accepts the file; empty if it does not."""


UNPACK = "Unpack it and pass the .onnx file inside."
PICKLES = (".joblib", ".pkl", ".pickle")
MAGIC = (
    # (offset, bytes, what it is, what to do: a sentence, or the suffixes with which it can be imported)
    (0, b"\x89HDF\r\n\x1a\n", "a Keras HDF5 file", (".h5", ".hdf5")),
    (0, b"GGUF", "a GGUF file", "edgeopt takes ONNX models; export the original model to ONNX."),
    (0, b"\x1f\x8b", "a gzip archive", UNPACK),
    (0, b"BZh", "a bzip2 archive", UNPACK),
    (0, b"\xfd7zXZ\0", "an xz archive", UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
    (257, b"ustar", "a tar archive", UNPACK),
    (0, b"\x93NUMPY", "a NumPy array", "Pass data with --data, and the .onnx file as the model."),
    (0, b"ftrt", "a TensorRT engine", "An engine fits one GPU only; pass the .onnx file that it was built from."),
    (0, b"ptrt", "a TensorRT engine", "An engine fits one GPU only; pass the .onnx file that it was built from."),
    (4, b"TFL3", "a TensorFlow Lite model", (".tflite",)),
    (4, b"ORTM", "an ONNX Runtime .ort model", "Pass the .onnx file that it was made from."),
    (4, b"ET12", "an ExecuTorch program", FROM_CODE),
    (0, b"version https://git-lfs", "a Git LFS pointer", "Fetch it with: git lfs pull"),
)
IN_ZIP = (
    # (what stands among the first names of the archive, what it is, what to do)
    (b"data.pkl", "a PyTorch model", SUFFIXES),
    (b"/version", "a PyTorch model", SUFFIXES),
    (b"/.format_version", "a PyTorch model", SUFFIXES),
    (b"archive_format", "a PyTorch exported program", (".pt2",)),
    (b"model.weights.h5", "a Keras model", (".keras",)),
    (b"deployment.toml", "an edgeopt bundle", "Pass the model inside it, or use a command that takes a bundle."),
    (b".npy", "a NumPy archive", "Pass data with --data, and the .onnx file as the model."),
)
IN_TEXT = (
    # (how the text begins, what it is, what to do)
    (
        "<!doctype html",
        "an HTML page",
        "The download saved an error page instead of the model; download it again.",
    ),
    ("<html", "an HTML page", "The download saved an error page instead of the model; download it again."),
    ("<?xml", "an OpenVINO model (XML)", "Pass the .onnx file that it was converted from."),
    ("<net", "an OpenVINO model (XML)", "Pass the .onnx file that it was converted from."),
    ("ir_version", "an ONNX model as text", AS_TEXT.format("textproto")),
)


def what_is(head: bytes) -> Sighting | None:
    """Identifies the type of a file by its first bytes `head`; None if it may be an ONNX model."""
    for offset, magic, what, hint in MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return _sighting(what, hint)
    if head.startswith(b"PK\x03\x04"):
        found = next(((what, hint) for name, what, hint in IN_ZIP if name in head), ("a zip archive", UNPACK))
        return _sighting(*found)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        return Sighting("a Python pickle, such as a PyTorch checkpoint or a scikit-learn model", FROM_CODE)
    if _is_safetensors(head):
        return Sighting("a safetensors file: weights without a graph", FROM_CODE)
    if _is_tensorflow(head):
        return Sighting("a TensorFlow graph", "Convert it first: python -m tf2onnx.convert --saved-model FOLDER.")
    return _what_text(head)


def _sighting(what: str, remedy: str | tuple[str, ...]) -> Sighting:
    if isinstance(remedy, str):
        return Sighting(what, remedy)
    return Sighting(what, suffixes=remedy)


def _what_text(head: bytes) -> Sighting | None:
    text = _text(head)
    if text is None:
        return None
    start = text.removeprefix("\ufeff").lstrip().lower()
    if start.startswith("<") and start[1:].lstrip().startswith("ir_version"):
        return Sighting("an ONNX model as text", AS_TEXT.format("onnxtxt"))
    for beginning, what, hint in IN_TEXT:
        if start.startswith(beginning):
            return Sighting(what, hint)
    if start.startswith("{") and '"irversion"' in start:
        return Sighting("an ONNX model as JSON", AS_TEXT.format("json"))
    return Sighting("a text file", "Pass the .onnx file. A download may have saved an error page instead.")


def _text(head: bytes) -> str | None:
    """Decodes the head as text; the last character may be truncated."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or not error.start:
            return None
        text = head[: error.start].decode()
    readable = all(letter >= " " or letter in "\t\n\f\r" for letter in text)
    return text if text and readable else None


def _is_tensorflow(head: bytes) -> bool:
    """Whether the head is a TensorFlow graph: a frozen one starts with a node (field 1 with a length), a saved
    model with its schema version, 1, and a graph.

    An ONNX model starts with its IR version, a number.
    """
    if head.startswith(b"\x08\x01\x12"):
        return _varint(head, 3)[0] > 1000
    if head[:1] != b"\x0a":
        return False
    length, start = _varint(head, 1)
    # A node begins with its name (field 1) and its operator (field 2), both texts.
    name_length, after = _varint(head, start + 1)
    return (
        4 < length < 1_000_000
        and head[start : start + 1] == b"\x0a"
        and (head[after + name_length : after + name_length + 1] == b"\x12")
    )


def check_file(path: Path) -> None:
    """Raises ModelError if a file cannot be read or its first bytes show that it is no ONNX model."""
    try:
        if path.is_dir():
            raise ModelError(f"'{path}' is a folder, not a model.", "Pass the .onnx file inside it.")
        if path.exists() and not path.is_file():
            raise ModelError(f"'{path}' is a device or a pipe, not a file.", "Save the model to a file first.")
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelError(f"There is no file '{path}'.", "Check the path.") from error
    except PermissionError as error:
        raise ModelError(
            f"'{path}' cannot be read: permission denied.", "Check the file's permissions."
        ) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"'{path}' cannot be read: {error_text(error)}.", "Check the path.") from error
    if not head:
        raise ModelError(f"'{path.name}' is empty (0 bytes).", "Copy or download it again.")
    if head.startswith(b"PK") and (checkpoint := checkpoint_error(path)) is not None:
        raise checkpoint
    if sighting := what_is(head):
        instead = "as protobuf" if sighting.what.startswith("an ONNX model") else "an ONNX model"
        hint = import_hint(path, sighting.suffixes) if sighting.suffixes else sighting.hint
        if path.name == "saved_model.pb":
            command = join_words(["edgeopt", "import", str(path.parent), "-o", "model.onnx"])
            hint = f"Import its folder: {command}"
        if head[:1] == b"\x80" and path.suffix in PICKLES:
            hint = import_hint(path, PICKLES)
        raise ModelError(f"'{path.name}' is {sighting.what}, not {instead}.", hint)


def is_cut_short(data: bytes) -> bool:
    """Whether bytes look like a truncated ONNX model: all fields are valid until one exceeds the file."""
    position, fields = 0, 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        # A ModelProto has the fields 1 to 26, as numbers (wire type 0) or as bytes with a length (2) alone.
        if not 1 <= number <= 26 or wire not in {0, 2}:
            return False
        value, position = _varint(data, position)
        fields += 1
        if wire == 2:
            position += value
    # With a single field, many random files would look like a truncated model.
    return position > len(data) and fields > 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return value, len(data) + 1


def _is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= length < 100_000_000 and head[9:10] in b'"} \n'


# protobuf classes carry no types; these are onnx's ModelProto and NodeProto.
Proto = Any
OLDEST_OPSET = 7
"""Lowest opset; an older model is accepted if its operators mean the same in opset 7, as runtimes do."""
OWN = ("", "ai.onnx")


def check_versions(proto: Proto, path: Path, onnx: ModuleType) -> None:
    """Raises ModelError if a model is too new for the installed onnx or too old for the runtimes."""
    newer = f"Update onnx ({onnx.__version__} is installed): pip install -U onnx; or export with an older one."
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"'{path.name}' has IR version {proto.ir_version}; the newest supported is {onnx.IR_VERSION}.", newer
        )
    newest = {
        "": onnx.defs.onnx_opset_version(),
        "ai.onnx": onnx.defs.onnx_opset_version(),
        "ai.onnx.ml": onnx.defs.onnx_ml_opset_version(),
    }
    own = [opset.version for opset in proto.opset_import if opset.domain in OWN]
    for opset in proto.opset_import:
        latest = newest.get(opset.domain)
        if latest is not None and opset.version > latest:
            of = "" if opset.domain in OWN else f" of {opset.domain}"
            raise ModelError(
                f"'{path.name}' uses opset {opset.version}{of}; the newest supported is {latest}.", newer
            )
    if not own and proto.ir_version < 3:
        own = [1]  # models before IR version 3 do not state it
    if own and min(own) < OLDEST_OPSET and (changed := _changed(proto.graph, min(own), onnx)):
        raise ModelError(
            f"'{path.name}' uses opset {min(own)}, where {changed} has another meaning than in "
            f"{OLDEST_OPSET}, the oldest supported opset.",
            "Export it with opset 17, or raise it with onnx.version_converter.convert_version(model, 17).",
        )


def _changed(graph: Proto, opset: int, onnx: ModuleType) -> str | None:
    """Returns the first operator of a graph whose definition changed before the oldest opset, or None."""
    for node in graph.node:
        if node.domain in OWN and onnx.defs.has(node.op_type):
            try:
                then, later = (onnx.defs.get_schema(node.op_type, v).since_version for v in (opset, OLDEST_OPSET))
            except onnx.defs.SchemaError:
                return str(node.op_type)
            if then != later:
                return str(node.op_type)
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                if changed := _changed(inner, opset, onnx):
                    return changed
    return None


def import_domains(proto: Proto) -> list[str]:
    """Adds version 1 of domains whose operators are used without being imported; runtimes assume that too."""
    done: list[str] = []
    for holder, nodes in ((proto, proto.graph.node), *((f, f.node) for f in proto.functions)):
        imported = {opset.domain for opset in holder.opset_import} | set(OWN)
        for domain in sorted(_domains(nodes) - imported):
            holder.opset_import.add(domain=domain, version=1)
            done.append(domain)
    return list(dict.fromkeys(done))


def _domains(nodes: Proto) -> set[str]:
    found = {node.domain for node in nodes}
    for node in nodes:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                found |= _domains(inner.node)
    return found
