"""Requests to an agent by the standard library alone: TLS, and failures as sentences."""

import hashlib
import hmac
import http.client
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import (
    BundleError,
    ConstraintError,
    DiskFullError,
    EdgeoptError,
    InputError,
    MissingError,
    UsageError,
    VerificationError,
    error_text,
)
from edgeopt.fleet.address import PORT, Address

_PREFIX = "SHA256:"
_DIGITS = re.compile(r"[0-9a-f]{64}")
NO_MODEL = "no-model"
"""The code of an agent's answer that it has no model of this name."""
# Codes of what the caller gave wrongly, whatever the status: another token, model or release would be accepted.
_BAD_INPUT = ("wrong-role", NO_MODEL, "no-release", "place-not-allowed")
_LONGEST_ANSWER_BYTES = 64 << 20
_FINGERPRINT = "edgeopt-agent fingerprint (with the --data-dir of the agent, if it has one)"
UNREACHABLE = "unreachable"
"""The code of an error that is worth another try: the agent may come back."""


def fingerprint_of(certificate: bytes) -> str:
    """Returns the fingerprint of a certificate in DER, in the format that edgeopt uses everywhere."""
    return _PREFIX + hashlib.sha256(certificate).hexdigest()


def normal_fingerprint(text: str) -> str:
    """A fingerprint as `fingerprint_of` writes it, from this or openssl's form; raises UsageError."""
    digits = text.strip().lower().removeprefix("sha256").lstrip(":= ").replace(":", "")
    if not _DIGITS.fullmatch(digits):
        raise UsageError(
            f"'{text[:80]}' is not the fingerprint of a certificate.",
            f"Copy it from the device: {_FINGERPRINT}",
        )
    return _PREFIX + digits


def connect(address: Address, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to an agent, which is made at the first request."""
    if address.scheme == "https":
        return _TlsConnection(address, timeout_s)
    return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)


def open_tls(address: Address, timeout_s: float) -> ssl.SSLSocket:
    """A connection whose certificate is the right one; nothing was sent on it yet."""
    context = _any_certificate() if address.fingerprint else ssl.create_default_context()
    try:
        opened = _wrapped(address, timeout_s, context)
    except ssl.SSLCertVerificationError as error:
        raise _unknown(address, timeout_s, error.verify_message or str(error)) from None
    except ssl.SSLEOFError:
        raise ConnectionResetError("closed during the TLS handshake") from None
    except ssl.SSLError as error:
        raise MissingError(
            f"The server at {address.url} does not use TLS ({error.reason or error}).",
            "If the agent runs with --tls off, write http:// in --url.",
        ) from None
    seen = _seen(opened)
    if address.fingerprint and not hmac.compare_digest(seen, address.fingerprint):
        opened.close()
        raise _wrong(address, seen)
    return opened


def seen_fingerprint(address: Address, timeout_s: float) -> str:
    """Returns the fingerprint of the certificate at an address, unverified."""
    with _wrapped(address, timeout_s, _any_certificate()) as opened:
        return _seen(opened)


class _TlsConnection(http.client.HTTPConnection):
    def __init__(self, address: Address, timeout_s: float) -> None:
        super().__init__(address.host, address.port, timeout=timeout_s)
        self._address, self._timeout_s = address, timeout_s

    def connect(self) -> None:
        self.sock = open_tls(self._address, self._timeout_s)


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # the fingerprint is compared in its place
    context.verify_mode = ssl.CERT_NONE
    return context


def _wrapped(address: Address, timeout_s: float, context: ssl.SSLContext) -> ssl.SSLSocket:
    raw = socket.create_connection((address.host, address.port), timeout_s)
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(raw, server_hostname=address.host)
    except BaseException:
        raw.close()
        raise


def _seen(opened: ssl.SSLSocket) -> str:
    return fingerprint_of(opened.getpeercert(binary_form=True) or b"")


def _wrong(address: Address, seen: str) -> EdgeoptError:
    error = InputError(
        f"The agent at {address.url} has another certificate than expected: {seen} instead of "
        f"{address.fingerprint}. Nothing was sent.",
        f"Compare with the device: {_FINGERPRINT}. If the certificate was renewed, use the new fingerprint; "
        "otherwise this may be another server.",
    )
    error.code = "wrong-fingerprint"
    return error


def _unknown(address: Address, timeout_s: float, reason: str) -> EdgeoptError:
    seen = seen_fingerprint(address, timeout_s)
    error = InputError(
        f"This system does not trust the certificate of the agent at {address.url} ({reason}). "
        f"Its fingerprint is {seen}. Nothing was sent.",
        f"Compare with the device: {_FINGERPRINT}. If they match, pass: --fingerprint {seen}",
    )
    error.code = "unknown-certificate"
    return error


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


class _RefusalDetails(msgspec.Struct, frozen=True):
    message: str
    code: str = ""
    hint: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _RefusalDetails | str


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
        return msgspec.json.decode(reply.body, type=thread_safe(kind))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise no_agent(address) from None


@contextmanager
def reaching(address: Address, timeout_s: float) -> Iterator[http.client.HTTPConnection]:
    """A connection, with every way in which it can fail turned into a sentence."""
    connection = connect(address, timeout_s)
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
            f"The agent at {address.url} ended the connection: {error_text(error)}.",
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


def refusal_in(body: bytes) -> _RefusalDetails | None:
    """The agent's own words in a refusal; None where there are none."""
    try:
        refusal = msgspec.json.decode(body, type=thread_safe(_Refusal)).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return refusal if isinstance(refusal, _RefusalDetails) else _RefusalDetails(refusal)


def refused(address: Address, reply: Reply) -> EdgeoptError:
    """The error that an agent refused a request with, in its own words."""
    refusal = refusal_in(reply.body)
    if refusal is None:
        return no_agent(address)
    kind = InputError if refusal.code in _BAD_INPUT else _ERRORS.get(reply.status, MissingError)
    error = kind(refusal.message, refusal.hint)
    error.code = refusal.code or error.code
    return error
