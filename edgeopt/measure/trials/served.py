"""A served model as a contender: the Open Inference Protocol v2 over HTTP, with binary tensors.

A run includes all that a client waits for: encoding the arrays as a request, sending it, and decoding the
answer. Each concurrent run has a connection of its own, which is kept for later runs.
"""

import http.client
import json
from collections import deque
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, InputError, MissingError, ModelError, UsageError, error_text
from edgeopt.fleet import transport
from edgeopt.fleet.address import Address
from edgeopt.fleet.pairing import address_of
from edgeopt.fleet.tensors import TensorMetadata, decode, encode, tensor_info
from edgeopt.fleet.transport import refusal_in

_TIMEOUT_S = 30.0
_MODELS = "/v2/models/"
_HINT = "Give the address of a model: http://127.0.0.1:8080/v2/models/NAME"
_Document = TypeVar("_Document")
# Errors of an idle connection that the server has closed.
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class _Listed(msgspec.Struct, frozen=True):
    name: str
    state: str = "READY"


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and the path of a model on it; an empty path means the server's only model."""

    address: Address
    """Address, with the access token of an agent and its certificate's fingerprint if they are known."""
    path: str

    @property
    def url(self) -> str:
        return f"{self.address.url}{self.path}"

    def connect(self) -> http.client.HTTPConnection:
        return transport.connect(self.address, _TIMEOUT_S)


class Served:
    """A client of a served model; safe to use from several threads."""

    def __init__(self, address: str) -> None:
        """Connects to the model; raises an EdgeoptError if the server does not answer, or not by the protocol."""
        place = parse(address)
        self._place = place
        self._idle: deque[http.client.HTTPConnection] = deque()
        path = place.path or self._only_model()
        metadata = self._document("GET", path, TensorMetadata)
        self.inputs: tuple[TensorInfo, ...] = tuple(tensor_info(t, fixed=False) for t in metadata.inputs)
        self.outputs: tuple[TensorInfo, ...] = tuple(tensor_info(t, fixed=False) for t in metadata.outputs)
        self._infer = f"{path}/infer"

    def run(self, feeds: Feeds) -> dict[str, Array]:
        request = encode(feeds)
        headers = {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(request.header_length),
        }
        status, body, length = self._exchange("POST", self._infer, request.body, headers)
        if status != 200:
            raise self._refused(status, body)
        return decode(body, None if length is None else int(length))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _only_model(self) -> str:
        """Returns the path of the server's only model; raises UsageError if there is none or more than one."""
        models = [m for m in self._document("POST", "/v2/repository/index", list[_Listed]) if m.state == "READY"]
        if len(models) != 1:
            names = ", ".join(model.name for model in models) or "none"
            raise UsageError(
                f"The server at {self._place.url} serves {len(models)} models ({names}); one must be named.", _HINT
            )
        return _MODELS + quote(models[0].name, safe="")

    def _document(self, method: str, path: str, kind: type[_Document]) -> _Document:
        body = json.dumps({}).encode() if method == "POST" else b""
        status, content, _ = self._exchange(method, path, body, {"Content-Type": "application/json"})
        if status == 404 and refusal_in(content) is None:
            raise self._no_protocol()
        if status >= 400:
            raise self._refused(status, content)
        try:
            return msgspec.json.decode(content, type=thread_safe(kind))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._no_protocol() from None

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes, str | None]:
        """Sends a request, again if an idle connection was closed; returns status, content and JSON length."""
        try:
            connection, rested = self._idle.pop(), True
        except IndexError:
            connection, rested = self._place.connect(), False
        while True:
            try:
                access = self._place.address.headers
                connection.request(method, path, body=body, headers={**access, **headers})
                answer = connection.getresponse()
                content = answer.read()
            except _STALE as error:
                connection.close()
                if not rested:
                    raise self._broken(error) from None
                rested = False  # an http.client.HTTPConnection connects again by itself
                continue
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise self._broken(error) from None
            self._idle.append(connection)
            return answer.status, content, answer.getheader("Inference-Header-Content-Length")

    def _broken(self, error: Exception) -> EdgeoptError:
        url = self._place.url
        if isinstance(error, ConnectionRefusedError):
            return MissingError(f"No server listens at {url}.", "Start it, or check the address.")
        if isinstance(error, TimeoutError):
            return MissingError(
                f"The server at {url} did not answer within {_TIMEOUT_S:.0f} s.", "Look at its log."
            )
        if isinstance(error, http.client.HTTPException) and not isinstance(error, ConnectionError):
            return self._no_protocol()
        return MissingError(f"The server at {url} cannot be reached: {error_text(error)}.", "Look at its log.")

    def _refused(self, status: int, body: bytes) -> EdgeoptError:
        reply = refusal_in(body)
        if reply is not None and status in {401, 403, 429}:
            refused_access = InputError(reply.message, reply.hint)
            refused_access.code = reply.code or refused_access.code
            return refused_access
        words = reply.message if reply else http.client.responses.get(status, "")
        return ModelError(f"The server at {self._place.url} refused ({status}): {words.rstrip('.')}.", _HINT)

    def _no_protocol(self) -> EdgeoptError:
        return MissingError(
            f"What answers at {self._place.url} does not speak the Open Inference Protocol v2.", _HINT
        )


def parse(address: str) -> Place:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"'{address}' is not an address: {error}.", _HINT) from None
    path = parts.path.rstrip("/")
    known = not path or (path.startswith(_MODELS) and unquote(path) != _MODELS.rstrip("/"))
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or not known:
        raise UsageError(f"'{address}' is not the address of a served model.", _HINT)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = port or (443 if parts.scheme == "https" else 80)
    return Place(address_of(f"{parts.scheme}://{host}:{port}"), path)
