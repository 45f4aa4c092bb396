"""Compressed requests."""

import zlib

from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.pauses import Pause, no_pause

MAX_RATIO = 100
"""Largest ratio of the inflated size of a body to its compressed size; up to 1 MiB, any ratio is allowed."""
_SMALL_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16
_INFLATED_BYTES = 1 << 20
_WINDOW_BITS = {"gzip": 31, "deflate": 15}


def inflate(data: memoryview, encoding: str, max_bytes: int, pause: Pause = no_pause) -> bytes | bytearray:
    """Inflates a body; never takes more memory than is allowed, whatever was sent."""
    machine = zlib.decompressobj(_WINDOW_BITS[encoding])
    # One with a good ratio is lawful, but a small one must not cost as much as one of the largest size.
    max_bytes = min(max_bytes, max(_SMALL_BYTES, MAX_RATIO * len(data)))
    body = bytearray()
    start = 0
    while start < len(data) and not machine.eof:
        piece: bytes | memoryview = data[start : start + _PIECE_BYTES]
        start += len(piece)
        while piece:
            try:
                body += machine.decompress(piece, min(_INFLATED_BYTES, max_bytes - len(body) + 1))
            except zlib.error:
                raise RequestError(400, f"The body is not {encoding} as its Content-Encoding says.") from None
            if len(body) > max_bytes:
                raise RequestError(
                    413, f"The body inflates to more than the {max_bytes} bytes that are allowed for its size."
                )
            piece = machine.unconsumed_tail
            pause()
    if not machine.eof or machine.unused_data or start < len(data):
        raise RequestError(400, f"The body is not one complete piece of {encoding}.")
    return body
