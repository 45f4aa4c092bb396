"""Requests to an agent by the standard library alone, and what can go wrong with them as sentences."""

import http.client
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from edgeopt.errors import (
    BundleError,
    ConstraintError,
    DiskFullError,
    EdgeoptError,
    InputError,
    MissingError,
    VerificationError,
    said_by,
)
from edgeopt.fleet import tls
from edgeopt.fleet.address import PORT, Address

Answer = TypeVar("Answer", bound=msgspec.Struct)

# A status that is not here is one that this edgeopt should not have caused.
_ERRORS: Mapping[int, type[EdgeoptError]] = {
    400: BundleError,
    401: InputError,
    403: VerificationError,
    409: ConstraintError,
    411: InputError,
    413: ConstraintError,
    415: BundleError,
    429: ConstraintError,
    503: ConstraintError,
    507: DiskFullError,
}
NO_MODEL = "no-model"
"""The code of an agent's answer that it has no model of this name."""
# Codes of what the caller gave wrongly, whatever the status: another token, model or release would be accepted.
_BAD_INPUT = ("wrong-role", NO_MODEL, "no-release")
_LONGEST_ANSWER_BYTES = 64 << 20


class _Said(msgspec.Struct, frozen=True):
    message: str
    code: str = ""
    hint: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _Said | str


UNREACHABLE = "unreachable"
"""The code of an error that is worth another try: the agent may come back."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str]


def ask(
    address: Address,
    method: str,
    path: str,
    timeout_s: float,
    body: Iterable[bytes] = (),
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """One request on a connection of its own; raises MissingError when there is nobody to answer it."""
    with reaching(address, timeout_s) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            # An agent that refuses a body answers before all of it is sent, and then closes: the answer counts.
            connection.request(method, path, body=body, headers={**address.headers, **(headers or {})})
        answer = connection.getresponse()
        content = answer.read(_LONGEST_ANSWER_BYTES)
        if answer.length:
            raise ConnectionError("its answer was cut off")
        return Reply(answer.status, content, {name.lower(): text for name, text in answer.getheaders()})


def understood(address: Address, reply: Reply, kind: type[Answer]) -> Answer:
    """The record in an answer; raises what the agent refused with, or MissingError for no agent at all."""
    if reply.status >= 400:
        raise refused(address, reply)
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise no_agent(address) from None


@contextmanager
def reaching(address: Address, timeout_s: float) -> Iterator[http.client.HTTPConnection]:
    """A connection, with every way in which it can fail turned into a sentence."""
    connection = tls.connection(address, timeout_s)
    try:
        yield connection
    except ConnectionRefusedError:
        raise nobody(address) from None
    except socket.gaierror as error:
        raise MissingError(f"There is no host named '{address.host}': {error.strerror}.", "Check --url.") from None
    except TimeoutError:
        raise unreachable(
            f"The agent at {address.url} does not answer (waited {timeout_s:g} s).",
            "Check that the device is on and reachable, and look at the agent's own messages.",
        ) from None
    except (ConnectionError, http.client.RemoteDisconnected, http.client.IncompleteRead) as error:
        raise unreachable(
            f"The agent at {address.url} ended the connection: {said_by(error)}.",
            "Check that it still runs: edgeopt fleet status"
            + (
                ""
                if address.scheme == "https"
                else "; an agent that listens on the network needs TLS: --url https://…"
            ),
        ) from None
    except http.client.HTTPException:
        raise no_agent(address) from None
    except OSError as error:
        raise unreachable(
            f"The agent at {address.url} cannot be reached: {error.strerror or error}.",
            "Check the network and --url.",
        ) from None
    finally:
        connection.close()


def unreachable(message: str, hint: str) -> MissingError:
    """Nobody answers, or the connection ended in the middle."""
    error = MissingError(message, hint)
    error.code = UNREACHABLE
    return error


def nobody(address: Address) -> MissingError:
    port = "" if address.port == PORT else f" --port {address.port}"
    return unreachable(
        f"No agent listens at {address.url}.", f"Start one there with: edgeopt-agent run{port}; or check --url."
    )


def no_agent(address: Address) -> MissingError:
    return MissingError(
        f"The server at {address.url} is not an edgeopt agent.",
        "Check the port: an agent prints its address when it starts.",
    )


def said_in(body: bytes) -> _Said | None:
    """The agent's own words in a refusal; None where there are none."""
    try:
        said = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return said if isinstance(said, _Said) else _Said(said)


def refused(address: Address, reply: Reply) -> EdgeoptError:
    """The error that an agent refused a request with, in its own words."""
    said = said_in(reply.body)
    if said is None:
        return no_agent(address)
    kind = InputError if said.code in _BAD_INPUT else _ERRORS.get(reply.status, MissingError)
    error = kind(said.message, said.hint)
    error.code = said.code or error.code
    return error
