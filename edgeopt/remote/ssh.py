"""Connection to a device over SSH: one run of the OpenSSH client, and the errors for its failures."""

import contextlib
import re
import subprocess
import tempfile
from pathlib import Path
from typing import BinaryIO

from edgeopt.errors import EdgeoptError, MissingError, printable
from edgeopt.platform.processes import group_options
from edgeopt.remote.address import VARIABLE, SshAddress
from edgeopt.workers.host import last_words

_OLDEST_PYTHON = (3, 11)

# Patterns of the OpenSSH client's output, each with message and hint. The first match counts.
_FAILURES = (
    (
        r"[Hh]ost key verification failed|host key is known|IDENTIFICATION HAS CHANGED",
        "The host key of '{host}' is not known here, or another one than it was.",
        "Connect once by hand and check the key: {by_hand}",
    ),
    (
        r"Permission denied|Too many authentication failures|no mutual signature",
        "'{host}' accepts none of your SSH keys ({client_text}).",
        "Copy your key there: ssh-copy-id {destination}; edgeopt asks for no passwords.",
    ),
    (
        r"Could not resolve|Name or service not known",
        "The host '{host}' is not known ({client_text}).",
        "Check the name, or give its network address.",
    ),
    (
        r"Connection refused",
        "'{host}' refuses SSH connections ({client_text}).",
        "Check that an SSH server runs there, and the port of its address.",
    ),
    (
        r"timed out|No route to host|Network is unreachable",
        "'{host}' does not answer ({client_text}).",
        "Check that it is switched on and in this network.",
    ),
    (
        r"edgeopt: Python ([\d.]+)",
        "The Python of '{host}' is too old: {client_text}; edgeopt needs 3.11 or newer.",
        "Name another one in its address: '{shown}?python=/usr/bin/python3.11'",
    ),
    (
        r"not found|No such file",
        "'{host}' has no '{python}' ({client_text}).",
        "Install Python 3.11 or newer there, or name it in the address: '{shown}?python=/path/to/python3'",
    ),
)


class SshWay:
    """Connection over SSH to the program on the device, which is sent there first."""

    def __init__(self, address: SshAddress) -> None:
        self.address = address
        self.host = address.destination
        program = Path(__file__).with_name("far.py").read_bytes()
        script = (
            f"import sys; v = sys.version_info; v >= {_OLDEST_PYTHON} or "
            f"sys.exit('edgeopt: Python %d.%d' % v[:2]); "
            f"exec(compile(sys.stdin.buffer.read({len(program)}), 'edgeopt', 'exec'))"
        )
        self._errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            # Runs in its own session, so that Ctrl-C at the terminal reaches this process alone.
            self._ssh: subprocess.Popen[bytes] = subprocess.Popen(
                address.command(script),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                **group_options(),
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
        self.first = program

    def send(self, data: bytes) -> None:
        self._input.write(data)
        self._input.flush()

    def line(self) -> bytes:
        return self._output.readline()

    def read(self, size: int) -> bytes:
        return self._output.read(size)

    def close(self, patience_s: float) -> None:
        with contextlib.suppress(OSError):
            self._input.close()
        self._ssh.stdin = None  # or `communicate` would use it
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._ssh.communicate(timeout=patience_s)
        self._ssh.kill()
        self._ssh.wait()
        self._output.close()
        self._errors.close()

    def end_reason(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._ssh.wait(5)
        return printable(last_words(self._errors.fileno()))

    def failure(self, client_text: str) -> EdgeoptError:
        """Returns the error for a connection that failed."""
        address = self.address
        facts = {
            "host": address.destination,
            "destination": address.destination,
            "shown": address.shown,
            "by_hand": address.by_hand,
            "python": address.python,
            "client_text": client_text,
        }
        for pattern, message, hint in _FAILURES:
            if re.search(pattern, client_text):
                return MissingError(message.format(**facts), hint.format(**facts))
        return MissingError(
            f"No connection to '{address.destination}': {client_text or 'it ended without a word'}.",
            f"Try it by hand: {address.by_hand}",
        )

    @property
    def has_edgeopt(self) -> bool:
        return False

    @property
    def other_python(self) -> str:
        """Returns the option that names another Python."""
        return f"--on '{self.address.shown}?python=/path/to/venv/bin/python'"
