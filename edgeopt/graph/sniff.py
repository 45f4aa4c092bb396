"""Says what a file is by its first bytes, so that a wrong file gets a sentence of its own."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.errors import ModelError

HEAD_BYTES = 4096
TEXT_BYTES = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}
EXPORT_PYTORCH = "Export it first: torch.onnx.export(model, example_inputs, 'model.onnx', dynamo=True)."


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a file is instead of an ONNX model, and what to do about it."""

    what: str
    hint: str


MAGIC = (
    # (offset, bytes, what it is, what to do)
    (0, b"\x89HDF\r\n\x1a\n", "a Keras HDF5 file", "Convert it first: python -m tf2onnx.convert."),
    (0, b"GGUF", "a GGUF file", "edgeopt takes ONNX models; export the original model to ONNX."),
    (0, b"\x1f\x8b", "a gzip archive", "Unpack it and give the .onnx file inside."),
    (4, b"TFL3", "a TensorFlow Lite model", "Convert it first: python -m tf2onnx.convert --tflite MODEL."),
    (4, b"ORTM", "an ONNX Runtime .ort model", "Give the .onnx file that it was made from."),
    (0, b"version https://git-lfs", "a Git LFS pointer, not the model itself", "Fetch it with: git lfs pull"),
)


def what_is(head: bytes) -> Sighting | None:
    """What a file that begins with `head` is, or None where it may be an ONNX model."""
    for offset, magic, what, hint in MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return Sighting(what, hint)
    if head.startswith(b"PK\x03\x04"):
        if b"data.pkl" in head or b"/version" in head or b"/.format_version" in head:
            return Sighting("a PyTorch checkpoint", EXPORT_PYTORCH)
        return Sighting("a zip archive", "Unpack it and give the .onnx file inside.")
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        return Sighting("a Python pickle, probably a PyTorch checkpoint", EXPORT_PYTORCH)
    if _is_safetensors(head):
        return Sighting("a safetensors file: weights without a graph", EXPORT_PYTORCH)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"<?xml", b"<net")):
        return Sighting("an OpenVINO model (XML)", "Give the .onnx file that it was converted from.")
    if head and not set(head) - TEXT_BYTES:
        return Sighting("a text file", "Give the .onnx file; a download may have saved an error page instead.")
    return None


def check_file(path: Path) -> None:
    """Raises ModelError for a file that cannot be read or whose first bytes say that it is no ONNX model."""
    if path.is_dir():
        raise ModelError(f"'{path}' is a folder, not a model.", "Give the .onnx file inside it.")
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except FileNotFoundError as error:
        raise ModelError(f"There is no file '{path}'.", "Check the path.") from error
    except PermissionError as error:
        raise ModelError(f"'{path}' may not be read.", "Check the file's permissions.") from error
    if not head:
        raise ModelError(f"'{path.name}' is empty (0 bytes).", "Copy or download it again.")
    if sighting := what_is(head):
        raise ModelError(f"'{path.name}' is {sighting.what}, not an ONNX model.", sighting.hint)


def is_cut_short(data: bytes) -> bool:
    """Whether bytes read like an ONNX model without its end: fields are sound until one leaves the file."""
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
    # One field alone would make a truncated model of a good part of all random files.
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
