"""The connection to the program on a device: one run of the OpenSSH client, and what its failures mean."""

import contextlib
import json
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from edgeopt.errors import EdgeoptError, InputError, MissingError, TrialError, VerificationError, printable
from edgeopt.remote.address import VARIABLE, SshAddress
from edgeopt.workers.host import last_words

Message = dict[str, Any]
_ALIVE_S = 10.0
_END_S = 20.0
"""More than the command there has to clean up."""
_CHUNK_BYTES = 1 << 20
_OLDEST_PYTHON = (3, 11)
# What a shell there prints at every start comes before the first answer.
_MOST_NOISE_BYTES = 1 << 16

# What the OpenSSH client says, and what it means: the message, the hint. The first that fits counts.
_FAILURES = (
    (
        r"[Hh]ost key verification failed|host key is known|IDENTIFICATION HAS CHANGED",
        "The host key of '{host}' is not known here, or another one than it was.",
        "Connect once by hand and check the key: {by_hand}",
    ),
    (
        r"Permission denied|Too many authentication failures|no mutual signature",
        "'{host}' accepts none of your SSH keys ({said}).",
        "Copy your key there: ssh-copy-id {destination}; edgeopt asks for no passwords.",
    ),
    (
        r"Could not resolve|Name or service not known",
        "The host '{host}' is not known ({said}).",
        "Check the name in --on, or give its network address.",
    ),
    (
        r"Connection refused",
        "'{host}' refuses SSH connections ({said}).",
        "Check that an SSH server runs there, and the port in --on.",
    ),
    (
        r"timed out|No route to host|Network is unreachable",
        "'{host}' does not answer ({said}).",
        "Check that it is switched on and in this network.",
    ),
    (
        r"edgeopt: Python ([\d.]+)",
        "The Python of '{host}' is too old: {said}; edgeopt needs 3.11 or newer.",
        "Name another one: --on '{shown}?python=/usr/bin/python3.11'",
    ),
    (
        r"not found|No such file",
        "'{host}' has no '{python}' ({said}).",
        "Install Python 3.11 or newer there, or name it: --on '{shown}?python=/path/to/python3'",
    ),
)


class Link:
    """A session on a device; `close` ends it and everything that it started there."""

    def __init__(self, address: SshAddress) -> None:
        self.address = address
        self.is_running = False
        """A command runs there, and `interrupt` can reach it."""
        program = Path(__file__).with_name("far.py").read_bytes()
        script = (
            f"import sys; v = sys.version_info; v >= {_OLDEST_PYTHON} or "
            f"sys.exit('edgeopt: Python %d.%d' % v[:2]); "
            f"exec(compile(sys.stdin.buffer.read({len(program)}), 'edgeopt', 'exec'))"
        )
        self._errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            # In a session of its own: Ctrl-C at the terminal is for this process alone.
            self._ssh = subprocess.Popen(
                address.command(script),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            self._errors.close()
            raise MissingError(
                f"The SSH client '{error.filename}' is not installed here.",
                f"Install OpenSSH, or name its client in {VARIABLE}.",
            ) from error
        assert self._ssh.stdin is not None  # noqa: S101 - it was opened as a pipe
        assert self._ssh.stdout is not None  # noqa: S101 - it was opened as a pipe
        self._input, self._output = self._ssh.stdin, self._ssh.stdout
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._is_met = False
        try:
            self._send_bytes(program)
            self.hello = self._first_answer()
            self._is_met = True
            self.folder = str(self.ask({"folder": address.folder})["folder"])
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._stay_alive, daemon=True).start()

    def ask(self, message: Message) -> Message:
        """Its answer; raises the error that a refusal stands for."""
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
        """A file under its digest; `step` is called with the bytes that are sent."""
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
        """What the command there prints; at the end, `ended` has its exit code and last words."""
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
        """Ctrl-C for the command there; False where none runs."""
        if self.is_running:
            self.send({"do": "interrupt"})
        return self.is_running

    def read(self, size: int, file: BinaryIO) -> None:
        while size:
            chunk = self._output.read(min(size, _CHUNK_BYTES))
            if not chunk:
                self._fail()
            file.write(chunk)
            size -= len(chunk)

    def close(self) -> None:
        """Waits until the other side has cleaned up; safe to call twice."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._input.close()
        self._ssh.stdin = None  # or `communicate` would use it
        if self._is_met:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._ssh.communicate(timeout=_END_S)
        self._ssh.kill()
        self._ssh.wait()
        self._output.close()
        self._errors.close()

    def _stay_alive(self) -> None:
        while not self._over.wait(_ALIVE_S):
            with contextlib.suppress(EdgeoptError, OSError, ValueError):
                self.send({"do": "alive"})

    def _send_bytes(self, data: bytes) -> None:
        with self._writing:
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self._input.write(data)
            self._input.flush()
        except BrokenPipeError:
            self._fail()

    def _line(self) -> bytes:
        line = self._output.readline()
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
            if noise > _MOST_NOISE_BYTES:
                raise TrialError(
                    f"'{self.address.destination}' prints endless text instead of starting Python.",
                    f"See what its shell prints: {self.address.by_hand} true",
                    ending="nonsense",
                )
        found: Message = json.loads(line)
        return found

    def _fail(self) -> NoReturn:
        """The connection has ended: says why, as far as the client told."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._ssh.wait(5)
        said = printable(last_words(self._errors.fileno()))
        address = self.address
        if self._is_met:
            raise TrialError(
                f"The connection to '{address.destination}' was lost{f' ({said})' if said else ''}.",
                "What ran there ends by itself, and nothing was written here. Check the device and run the same "
                "command again.",
                ending="closed",
            )
        facts = {
            "host": address.destination,
            "destination": address.destination,
            "shown": address.shown,
            "by_hand": address.by_hand,
            "python": address.python,
            "said": said,
        }
        for pattern, message, hint in _FAILURES:
            if re.search(pattern, said):
                raise MissingError(message.format(**facts), hint.format(**facts))
        raise MissingError(
            f"No connection to '{address.destination}': {said or 'it ended without a word'}.",
            f"Try it by hand: {address.by_hand}",
        )

    def _refusal(self, found: Message) -> EdgeoptError:
        host, words = self.address.destination, found.get("words") or ""
        if found["refused"] == "busy":
            since = datetime.fromtimestamp(found["since"]).astimezone() if "since" in found else None
            what = f" with '{found['what']}' of {found['who']}" if "what" in found else ""
            return MissingError(
                f"'{host}' is busy{what}{f' since {since:%H:%M:%S}' if since else ''}: a device "
                "measures one thing at a time.",
                "Run the same command again later.",
            )
        if found["refused"] in {"venv", "pip"}:
            return MissingError(
                f"The packages that edgeopt needs could not be installed on '{host}': {printable(str(words))}",
                f"Install them in an environment there and name its Python: --on "
                f"'{self.address.shown}?python=/path/to/venv/bin/python'",
            )
        if found["refused"] == "digest":
            return VerificationError(f"A file arrived damaged on '{host}'.", "Run the same command again.")
        return TrialError(
            f"'{host}' refused to store a file: {printable(str(words))}.",
            "Free space there, or name another folder.",
        )
