"""The files of a profile: inside its text, compressed, as base64; or beside it."""

import base64
import binascii
import zlib
from pathlib import Path

from edgeopt.errors import BundleError

LARGEST_BYTES = 64 << 20
HINT = "Copy the bundle or the exported profile again from its source."


def packed(content: bytes) -> str:
    """For a text."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def unpacked(text: str, what: str, path: Path) -> bytes:
    """Raises BundleError with the fault; a foreign bundle must not fill the memory."""
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(text, validate=True), LARGEST_BYTES)
    except (zlib.error, binascii.Error, ValueError) as error:
        raise BundleError(f"{what} in '{path}' is damaged: {error}.", HINT) from None
    if not unpacker.eof:
        raise BundleError(f"{what} in '{path}' is truncated or too large.", HINT)
    return content


def read_beside(folder: Path, name: str, path: Path, most_bytes: int, too_large_for: str) -> bytes:
    """A file that a profile names, of the bundle or next to a profile that lies alone."""
    file = folder / name
    try:
        if file.stat().st_size > most_bytes:
            raise BundleError(f"{file} is too large for {too_large_for}.", HINT)
        return file.read_bytes()
    except OSError:
        raise BundleError(
            f"'{path}' needs the file {name} next to it, which is missing.",
            "Give the whole bundle, or export it to one file: edgeopt profile export BUNDLE -o NAME.toml",
        ) from None
