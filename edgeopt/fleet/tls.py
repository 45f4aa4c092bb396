"""TLS to an agent: its certificate is known by its fingerprint, or judged by the system's trust store."""

import hashlib
import hmac
import http.client
import re
import socket
import ssl

from edgeopt.errors import EdgeoptError, InputError, MissingError, UsageError
from edgeopt.fleet.address import Address

_PREFIX = "SHA256:"
_DIGITS = re.compile(r"[0-9a-f]{64}")


def fingerprint_of(certificate: bytes) -> str:
    """Of a certificate in DER, as edgeopt writes it everywhere."""
    return _PREFIX + hashlib.sha256(certificate).hexdigest()


def normal_fingerprint(text: str) -> str:
    """A fingerprint as `fingerprint_of` writes it, from this or openssl's form; raises UsageError."""
    digits = text.strip().lower().removeprefix("sha256").lstrip(":= ").replace(":", "")
    if not _DIGITS.fullmatch(digits):
        raise UsageError(
            f"'{text[:80]}' is not the fingerprint of a certificate.",
            "Copy it from the device: edgeopt-agent fingerprint",
        )
    return _PREFIX + digits


def connection(address: Address, timeout_s: float) -> http.client.HTTPConnection:
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
    """Of the certificate that answers there, unverified."""
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
        "Compare with the device: edgeopt-agent fingerprint. If the certificate was renewed, use the "
        "new fingerprint; otherwise this may be another server.",
    )
    error.code = "wrong-fingerprint"
    return error


def _unknown(address: Address, timeout_s: float, reason: str) -> EdgeoptError:
    seen = seen_fingerprint(address, timeout_s)
    error = InputError(
        f"This system does not trust the certificate of the agent at {address.url} ({reason}). "
        f"Its fingerprint is {seen}. Nothing was sent.",
        f"Compare with the device: edgeopt-agent fingerprint. If they match, pass: --fingerprint {seen}",
    )
    error.code = "unknown-certificate"
    return error
