"""Connection to the program on a device through its agent: one long answer, and a request for each message."""

import http.client
import json
import socket
from contextlib import ExitStack, suppress

from edgeopt.errors import EdgeoptError, MissingError
from edgeopt.fleet.transport import Reply, ask, no_agent, reaching, refusal_in, refused
from edgeopt.remote.address import BESIDE_SERVING, PROBE_ONLY, AgentAddress

PATH = "/api/v1/trials"
_TIMEOUT_S = 15.0
_LONGEST_REFUSAL_BYTES = 1 << 16
# Options of other commands that --on does not have.
_HINTS = (
    ("--url", "--on"),
    ("pass: --fingerprint ", "pair with it (edgeopt fleet pair), or set EDGEOPT_FINGERPRINT="),
    ("Pass --token, set EDGEOPT_TOKEN", "Pair with it (edgeopt fleet pair), set EDGEOPT_TOKEN"),
)


class AgentWay:
    """Connection through an agent; the program runs for as long as the agent's answer is read.

    With `probes`, the program may only read the facts of the device, so it runs while a release serves.
    """

    first = b""

    def __init__(self, device: AgentAddress, probes: bool = False) -> None:
        self._address = device.address
        self.host = device.host
        self._why = ""
        try:
            with ExitStack() as stack:
                connection = stack.enter_context(reaching(self._address, _TIMEOUT_S))
                connection.connect()
                # Kept here, because the connection drops its socket if the agent will close after this answer.
                self._socket: socket.socket = connection.sock
                parameter = BESIDE_SERVING if device.beside_serving else PROBE_ONLY if probes else ""
                query = f"?{parameter}=1" if parameter else ""
                connection.request("POST", PATH + query, headers=dict(self._address.headers))
                self._answer = connection.getresponse()
                if self._answer.status != http.client.OK:
                    content = self._answer.read(_LONGEST_REFUSAL_BYTES)
                    raise refused(self._address, Reply(self._answer.status, content, {}))
                try:
                    self._session = str(json.loads(self._answer.readline())["trial"])
                except (ValueError, KeyError, TypeError):
                    raise no_agent(self._address) from None
                # The agent may be silent for long; `send` notices a lost connection.
                self._socket.settimeout(None)
                self._stack = stack.pop_all()
        except EdgeoptError as error:
            for typed, instead in _HINTS:
                error.hint = error.hint.replace(typed, instead)
            raise

    @property
    def has_edgeopt(self) -> bool:
        return True

    @property
    def other_python(self) -> str:
        return "the one that runs the agent"

    def send(self, data: bytes) -> None:
        if not data:
            return
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(data))}
        try:
            reply = ask(self._address, "POST", f"{PATH}/{self._session}", _TIMEOUT_S, (data,), headers)
        except EdgeoptError as error:
            self._give_up(error.message)
        if reply.status != http.client.OK:
            refusal = refusal_in(reply.body)
            self._give_up(refusal.message if refusal is not None else "it is not an agent any more")

    def _give_up(self, why: str) -> None:
        self._why = self._why or why
        with suppress(OSError):
            # Shuts down the socket below TLS: a TLS shutdown must not run during a read in another thread.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        raise ConnectionError(why)

    def line(self) -> bytes:
        with _cut_off():
            return self._answer.readline()

    def read(self, size: int) -> bytes:
        with _cut_off():
            return self._answer.read(size)

    def end_reason(self) -> str:
        return self._why.rstrip(".")

    def failure(self, reason: str) -> EdgeoptError:
        return MissingError(
            f"The agent at {self.host} ended the session before it began{f' ({reason})' if reason else ''}.",
            "Look at the agent's own messages on the device.",
        )

    def close(self, patience_s: float) -> None:
        if patience_s and not self._why:
            with suppress(OSError, http.client.HTTPException, ValueError):
                self._socket.settimeout(patience_s)
                self.send(b'{"do": "end"}\n')
                while self._answer.read(_LONGEST_REFUSAL_BYTES):
                    pass
        self._stack.close()


class _cut_off:  # noqa: N801 - used as a function
    """Context in which an answer that is cut off counts as a connection that ended."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, http.client.HTTPException | ValueError):
            raise ConnectionError from error
