"""Files inside a text: compressed, as base64."""

import base64
import binascii
import zlib
from pathlib import Path

from edgeopt.errors import BundleError

LARGEST_BYTES = 64 << 20
_HINT = "Copy the bundle or the exported profile again from its source."


def packed(content: bytes) -> str:
    """For a text."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def unpacked(text: str, what: str, path: Path) -> bytes:
    """Raises BundleError with the fault; a foreign bundle must not fill the memory."""
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(text, validate=True), LARGEST_BYTES)
    except (zlib.error, binascii.Error, ValueError) as error:
        raise BundleError(f"{what} in '{path}' is damaged: {error}.", _HINT) from None
    if not unpacker.eof:
        raise BundleError(f"{what} in '{path}' is truncated or too large.", _HINT)
    return content
