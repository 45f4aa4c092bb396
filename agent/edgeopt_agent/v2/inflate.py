"""Compressed requests."""

import zlib

from edgeopt_agent.v2.errors import RequestError

_WINDOW_BITS = {"gzip": 31, "deflate": 15}


def inflate(data: memoryview, encoding: str, most_bytes: int) -> bytes:
    """The body as it was before it was compressed; never more memory than is allowed, whatever was sent."""
    machine = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        body = machine.decompress(data, most_bytes)
        rest = machine.unconsumed_tail and machine.decompress(machine.unconsumed_tail, 1)
    except zlib.error:
        raise RequestError(400, f"The body is not {encoding} as its Content-Encoding says.") from None
    if rest:
        raise RequestError(413, f"The body inflates to more than the {most_bytes} bytes that are allowed.")
    if not machine.eof or machine.unused_data:
        raise RequestError(400, f"The body is not one complete piece of {encoding}.")
    return body
