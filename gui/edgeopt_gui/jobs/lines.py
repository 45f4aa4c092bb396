"""Turns the bytes of a job's stdout into events."""

from collections.abc import Iterator

import msgspec

from edgeopt import events


class EventLines:
    """Decoder of lines; it keeps an incomplete line, and skips lines that are not events of this version."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[events.Event]:
        if b"\n" not in data:
            self._pending.append(data)  # joined once: a long line comes in many pieces
            return
        *lines, rest = b"".join((*self._pending, data)).split(b"\n")
        self._pending = [rest]
        for line in lines:
            try:
                yield events.decode(line)
            except msgspec.MsgspecError:
                continue
