"""Answers in one piece: uvicorn writes head and body apart, which is two packets and wakes the client twice."""

import asyncio
from typing import Any

_HEAD = b"HTTP/1.1 "


class JoinedTransport:
    """A transport that keeps the head of an answer back until its body, or anything else, is written."""

    __slots__ = ("_head", "_loop", "_timer", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._timer: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        if self._head:
            parts = (self._head, data)
            self._forget()
            self._transport.writelines(parts)
        elif data[: len(_HEAD)] == _HEAD:
            self._head = data
            # Where no body follows at once, the head goes on its own.
            self._timer = self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head = self._head
            self._forget()
            self._transport.write(head)

    def _forget(self) -> None:
        self._head = b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport can do
        return getattr(self._transport, name)
