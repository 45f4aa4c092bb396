"""Session with the program on a device, over any connection."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, BinaryIO, NoReturn, Protocol

from edgeopt.errors import (
    ConstraintError,
    EdgeoptError,
    InputError,
    MissingError,
    TrialError,
    UsageError,
    VerificationError,
    printable,
)

Message = dict[str, Any]
_ALIVE_S = 10.0
_END_S = 20.0
"""Time to wait for the end, in seconds: more than the command there has to clean up."""
_CHUNK_BYTES = 1 << 20
# Output of the device's shell at its start comes before the first answer.
_MAX_NOISE_BYTES = 1 << 16


# Refusals of an agent, as sentences.
_TOLD: dict[str, type[EdgeoptError]] = {"not-taken": UsageError, "version": MissingError, "ended": ConstraintError}


class Way(Protocol):
    """Connection to the program; `send`, `line` and `read` raise OSError once it has ended, or give nothing."""

    host: str
    """Name of the device in messages."""
    first: bytes
    """Bytes that are sent before all messages."""

    @property
    def other_python(self) -> str: ...
    @property
    def has_edgeopt(self) -> bool:
        """Whether the device runs an edgeopt of its own, so that none is sent."""
        ...

    def send(self, data: bytes) -> None: ...
    def line(self) -> bytes: ...
    def read(self, size: int) -> bytes: ...
    def end_reason(self) -> str:
        """Returns what is known of the connection's end."""
        ...

    def failure(self, reason: str) -> EdgeoptError:
        """Returns the error for a device that has not answered."""
        ...

    def close(self, patience_s: float) -> None: ...


class Link:
    """Session on a device; `close` ends it and everything that it started there."""

    def __init__(self, way: Way, folder: str) -> None:
        self._way = way
        self.is_running = False
        """Whether a command runs there that `interrupt` can reach."""
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._is_met = False
        try:
            self._send_bytes(way.first)
            self.hello = self._first_answer()
            self._is_met = True
            self.folder = str(self.ask({"folder": folder})["folder"])
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._stay_alive, daemon=True).start()

    @property
    def host(self) -> str:
        return self._way.host

    @property
    def has_edgeopt(self) -> bool:
        return self._way.has_edgeopt

    def ask(self, message: Message) -> Message:
        """Sends a message and returns its answer; raises the error that a refusal stands for."""
        self.send(message)
        return self.answer()

    def answer(self) -> Message:
        found = self._receive()
        if "refused" in found:
            raise self._refusal(found)
        return found

    def send(self, message: Message) -> None:
        self._send_bytes(json.dumps(message).encode() + b"\n")

    def put(self, digest: str, content: BinaryIO, size: int, step: Callable[[int], None]) -> None:
        """Sends a file under its digest; calls `step` with the bytes that are sent."""
        with self._writing:
            self._write(json.dumps({"do": "put", "digest": digest, "bytes": size}).encode() + b"\n")
            sent = 0
            while sent < size:
                chunk = content.read(min(_CHUNK_BYTES, size - sent))
                if not chunk:
                    raise InputError("A file became shorter while it was copied.", "Run the same command again.")
                self._write(chunk)
                sent += len(chunk)
                step(sent)
        self.answer()

    def lines(self) -> Iterator[bytes]:
        """Yields the lines that the command prints; at the end, `ended` has its exit code and last words."""
        self.is_running = True
        try:
            while True:
                line = self._line()
                if line.startswith(b">"):
                    yield line[1:]
                    continue
                found = json.loads(line)
                if "refused" in found:
                    raise self._refusal(found)
                self.ended: Message = found
                return
        finally:
            self.is_running = False

    def interrupt(self) -> bool:
        """Sends Ctrl-C to the command on the device; returns False if none runs."""
        if self.is_running:
            self.send({"do": "interrupt"})
        return self.is_running

    def read(self, size: int, file: BinaryIO) -> None:
        while size:
            try:
                chunk = self._way.read(min(size, _CHUNK_BYTES))
            except OSError:
                chunk = b""
            if not chunk:
                self._fail()
            file.write(chunk)
            size -= len(chunk)

    def close(self) -> None:
        """Waits until the other side has cleaned up; safe to call twice."""
        self._over.set()
        self._way.close(_END_S if self._is_met else 0.0)

    def _stay_alive(self) -> None:
        while not self._over.wait(_ALIVE_S):
            with contextlib.suppress(EdgeoptError, OSError, ValueError):
                self.send({"do": "alive"})

    def _send_bytes(self, data: bytes) -> None:
        with self._writing:
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self._way.send(data)
        except OSError:
            self._fail()

    def _line(self) -> bytes:
        try:
            line = self._way.line()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            self._fail()
        return line

    def _receive(self) -> Message:
        found: Message = json.loads(self._line())
        return found

    def _first_answer(self) -> Message:
        noise = 0
        while not (line := self._line()).startswith(b'{"edgeopt"'):
            noise += len(line)
            if noise > _MAX_NOISE_BYTES:
                raise TrialError(
                    f"'{self._way.host}' prints endless text instead of starting Python.",
                    "See what its shell prints when you connect by hand.",
                    ending="nonsense",
                )
        found: Message = json.loads(line)
        return found

    def _fail(self) -> NoReturn:
        """Raises an error for the connection that has ended, with the reason that the client gave."""
        reason = self._way.end_reason()
        if self._is_met:
            raise TrialError(
                f"The connection to '{self._way.host}' was lost{f' ({reason})' if reason else ''}.",
                "What ran there ends by itself, and nothing was written here. Check the device and run the same "
                "command again.",
                ending="closed",
            )
        raise self._way.failure(reason)

    def _refusal(self, found: Message) -> EdgeoptError:
        host, words = self._way.host, found.get("words") or ""
        if found["refused"] == "busy":
            since = datetime.fromtimestamp(found["since"]).astimezone() if "since" in found else None
            who, what = (printable(str(found.get(key, ""))) for key in ("who", "what"))
            what = f" with '{what}' of {who}" if what else ""
            return MissingError(
                f"'{host}' is busy{what}{f' since {since:%H:%M:%S}' if since else ''}: a device "
                "measures one thing at a time.",
                "Run the same command again later.",
            )
        if found["refused"] in {"venv", "pip"}:
            return MissingError(
                f"The packages that edgeopt needs could not be installed on '{host}': {printable(str(words))}",
                f"Install them in an environment there and name its Python: {self._way.other_python}",
            )
        if found["refused"] == "digest":
            return VerificationError(f"A file arrived damaged on '{host}'.", "Run the same command again.")
        if found["refused"] in _TOLD:
            kind = _TOLD[found["refused"]]
            return kind(printable(str(words)), printable(str(found.get("hint", ""))))
        if found["refused"] == "request":
            return TrialError(
                f"'{host}' refused a request: {printable(str(words))}.", "Use the same version of edgeopt on both."
            )
        return TrialError(
            f"'{host}' refused to store a file: {printable(str(words))}.",
            "Free space there, or name another folder.",
        )
