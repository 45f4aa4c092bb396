"""A request of the Open Inference Protocol on its way from a client to a worker."""

from collections.abc import Sequence
from dataclasses import dataclass, field

LARGE_BYTES = 1 << 16
"""A body above this size, or a compressed one, is a large request."""
_COMPRESSED = frozenset({"gzip", "deflate"})


@dataclass(slots=True, eq=False)
class Request:
    """One request, with what both protocols say of its body."""

    model: str
    version: str | None
    parts: Sequence[bytes]
    """The body, in the pieces in which it came."""
    header_length: int | None = None
    """Bytes of JSON at the beginning of the body; None if all of it is JSON."""
    encoding: str = ""
    """Encoding of the body, as `Infer.encoding` names it."""
    client: str = ""
    """Address of the sender; empty if it is unknown."""
    size_bytes: int = field(init=False)
    is_large: bool = field(init=False)
    """Whether the request waits with the large ones: a compressed body can inflate to any size."""

    def __post_init__(self) -> None:
        self.size_bytes = sum(map(len, self.parts))
        self.is_large = self.size_bytes > LARGE_BYTES or self.encoding in _COMPRESSED

    @property
    def text_bytes(self) -> int:
        """Bytes of plain JSON at the beginning of the body; the worker splits a body that has an encoding."""
        if self.encoding:
            return 0
        return self.size_bytes if self.header_length is None else self.header_length
