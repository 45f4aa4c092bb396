"""A request and its answer, written in one piece: uvicorn sends two packets, which wake the client twice."""

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent

Fields = tuple[tuple[bytes, bytes], ...]
_WITHOUT_BODY = frozenset({204, 304})
_CLOSE = b"connection: close\r\n\r\n"
_COPIED_BYTES = 64 << 10


class Cycle(RequestResponseCycle):
    """Keeps the head of an answer back until its body is there, and writes both at once if that is all of it."""

    _start: "HTTPResponseStartEvent | None" = None

    async def send(self, message: "ASGISendEvent") -> None:
        if message["type"] == "http.response.start" and not self.response_started:
            self._start = message
            return
        start, self._start = self._start, None
        if start is None:
            await super().send(message)
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._answer(start, message.get("body", b""))
        else:
            await super().send(start)
            await super().send(message)

    async def _answer(self, start: "HTTPResponseStartEvent", body: bytes) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        head = self._head(start["status"], cast(Fields, start.get("headers", ())), len(body))
        if self.scope["method"] == "HEAD":
            body = b""
        self.response_started = True
        self.waiting_for_100_continue = False
        if len(body) > _COPIED_BYTES:
            self.transport.writelines((head, body))
        else:
            self.transport.write(b"".join((head, body)))
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _head(self, status: int, fields: Fields, size: int) -> bytes:
        length = b"%d" % size
        has_length = status in _WITHOUT_BODY
        parts = [STATUS_LINE[status], _lines(tuple(self.default_headers))]
        for name, value in fields:
            if b"\r" in value or b"\n" in value:
                raise RuntimeError("A header of the answer has more than one line.")
            if name == b"content-length":
                has_length = True
                if value != length and self.scope["method"] != "HEAD":
                    raise RuntimeError(f"The answer has {size} bytes, and its head says {value!r}.")
            if name == b"connection" and value == b"close":
                self.keep_alive = False
            else:
                parts += (name, b": ", value, b"\r\n")
        if not has_length:
            parts += (b"content-length: ", length, b"\r\n")
        parts.append(b"\r\n" if self.keep_alive else _CLOSE)
        return b"".join(parts)


@lru_cache(8)
def _lines(fields: Fields) -> bytes:
    return b"".join(b"%s: %s\r\n" % field for field in fields)
