"""One request for a bundle, or for the rest of one: redirects, ranges, and addresses that are refused."""

import errno
import http.client
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urljoin

from edgeopt_agent.bundle_urls import BundleUrl, allowed, read_url, shown
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.registry_login import MAX_TOKEN_BYTES, RegistryLogin, RegistryRequest

MAX_REDIRECTS = 5
PIECE_BYTES = 1 << 18
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
PASSING = frozenset({408, 425, 429})
"""Answers besides 5xx after which the same request may succeed."""
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class TransferError(Exception):
    """A transfer that ended early, and is worth another try."""


class ChangedError(TransferError):
    """A transfer whose server now has a file that does not continue the bytes received so far."""


class Link:
    """The connection of a transfer; who waits for the transfer can end it, whatever its thread waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._raw: socket.socket | None = None
        self._closed = False

    def attach(self, raw: socket.socket) -> None:
        """Makes this the connection of the transfer; raises OSError where that was ended."""
        with self._lock:
            self._raw = raw
            if self._closed:
                raw.close()
                raise ConnectionAbortedError(errno.ECONNABORTED, "the transfer was ended")

    def close(self) -> None:
        """Ends the transfer, also a read that goes on in another thread."""
        with self._lock, suppress(OSError):
            self._closed = True
            if self._raw is not None:
                # The plain one: TLS would wait for the other side.
                socket.socket.shutdown(self._raw, socket.SHUT_RDWR)


@dataclass(slots=True)
class Body:
    """An answer with the bundle from `start` to its end, not read yet."""

    url: BundleUrl
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse
    start: int
    total: int | None
    """The size of the whole bundle; None where the server does not say."""
    etag: str
    """A strong one, or empty."""

    def read(self) -> bytes:
        """Reads the next piece; empty at the end."""
        with network_of(self.url):
            return self.response.read1(PIECE_BYTES)

    def close(self) -> None:
        """Releases the connection; the link, closed before, ends a read in another thread."""
        self.connection.close()


def open_body(
    url: str,
    offset: int,
    etag: str,
    prefixes: Sequence[str],
    timeout_s: float,
    link: Link,
    registry: RegistryRequest | None = None,
) -> Body:
    """Asks for the bundle from an offset on; raises StepError for what no other try can change.

    A registry that refuses the request is asked once more, with the login that it wants.
    """
    headers = {"Accept-Encoding": "identity", "Connection": "close", "User-Agent": "edgeopt-agent"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if etag:
            headers["If-Range"] = etag
    login = None if registry is None else registry.login
    if registry is not None and registry.accept:
        headers["Accept"] = registry.accept
    redirects, may_log_in = 0, True
    while redirects <= MAX_REDIRECTS:
        place = _checked(url, prefixes)
        own = login.headers(place) if login is not None else {}
        connection, response = _answer_of(place, {**headers, **own}, timeout_s, link)
        try:
            if login is not None and login.is_at(place) and response.status == 401:
                if not may_log_in:
                    raise login.refused()
                may_log_in = False
                response.close()
                connection.close()
                _log_in(login, response, timeout_s, link)
                continue
            if response.status not in _REDIRECTS:
                start, total = _extent(response, offset, shown(url))
                tag = response.getheader("ETag", "")
                return Body(place, connection, response, start, total, tag if tag.startswith('"') else "")
        except BaseException:
            response.close()
            connection.close()
            raise
        response.close()
        connection.close()
        url = _location(response, url)
        redirects += 1
    raise StepError(f"The server redirects more than {MAX_REDIRECTS} times.", fault=False)


def _log_in(login: RegistryLogin, refusal: http.client.HTTPResponse, timeout_s: float, link: Link) -> None:
    """Prepares the authorization that a registry asks for; raises StepError if it cannot be had."""
    wanted = login.token_request(refusal.headers.get_all("WWW-Authenticate") or ())
    if wanted is None:
        return
    place, headers = wanted
    connection, response = _answer_of(place, {"Connection": "close", **headers}, timeout_s, link)
    try:
        if response.status in PASSING or response.status >= 500:
            raise TransferError(f"'{place.host}' answers {response.status} to a request for a token")
        with network_of(place):
            content = response.read(MAX_TOKEN_BYTES)
    finally:
        response.close()
        connection.close()
    login.take_token(response.status, content)


def _answer_of(
    place: BundleUrl, headers: Mapping[str, str], timeout_s: float, link: Link
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    with network_of(place):
        raw = connected_to(place, timeout_s, link)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(place.host, place.port, timeout=timeout_s)
    connection.sock = raw
    try:
        with network_of(place):
            connection.request("GET", place.target, headers=dict(headers))
            return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise


def _location(response: http.client.HTTPResponse, url: str) -> str:
    try:
        return urljoin(url, response.getheader("Location", ""))
    except ValueError:
        raise StepError(f"The redirect at {shown(url)} leads to no address.", fault=False) from None


def _checked(url: str, prefixes: Sequence[str]) -> BundleUrl:
    try:
        place = read_url(url)
    except ValueError as error:
        raise StepError(f"'{shown(url)[:200]}' is not an address for bundles: {error}.", fault=False) from None
    if not allowed(place, prefixes):
        raise StepError(
            f"The agent does not fetch from {shown(url)}: `fetch_from` in agent.toml does not allow it.",
            fault=False,
        )
    return place


def _extent(response: http.client.HTTPResponse, offset: int, url: str) -> tuple[int, int | None]:
    """Returns the offset of an answer in the bundle, and the size of the whole bundle if it is known."""
    status = response.status
    if status in PASSING or status >= 500:
        raise TransferError(f"{url} answers {status} {response.reason}")
    if status == 416:
        raise ChangedError(f"{url} has no more than {offset} bytes")
    if status not in {200, 206}:
        raise StepError(f"{url} answers {status} {response.reason}.", fault=False)
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise StepError(f"{url} is sent compressed although that was not asked for.", fault=False)
    if status == 200:
        return 0, response.length
    found = _RANGE.fullmatch(response.getheader("Content-Range", "").strip())
    if found is None or int(found[1]) != offset or not offset:
        raise ChangedError(f"{url} sends another part than the one asked for")
    return offset, int(found[3])


def connected_to(place: BundleUrl, timeout_s: float, link: Link) -> socket.socket:
    """Returns a connection to an address that the host's name may lead to."""
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    fit = [each for each in found if may_lead_to(place.host, str(each[4][0]))]
    if not fit:
        raise StepError(
            f"The name '{place.host}' leads to {found[0][4][0]}, an address of this device or its link alone.",
            fault=False,
        )
    failure: OSError | None = None
    for family, kind, protocol, _, address in fit:
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(timeout_s)
            link.attach(raw)
            raw.connect(address)
            if place.scheme == "https":
                context = ssl.create_default_context()
                raw = context.wrap_socket(raw, server_hostname=place.host, do_handshake_on_connect=False)
                link.attach(raw)
                raw.do_handshake()
        except OSError as error:
            raw.close()
            failure = error
        else:
            return raw
    assert failure is not None  # noqa: S101 - there was an address to try
    raise failure


def may_lead_to(host: str, address: str) -> bool:
    """Whether a host may be there; a name must not lead to what only an address in `fetch_from` can allow."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return True
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback:
        return host == "localhost"
    return not (found.is_link_local or found.is_multicast or found.is_unspecified or found.is_reserved)


@contextmanager
def network_of(place: BundleUrl) -> Iterator[None]:
    """Turns the ways in which a network fails into a TransferError."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        reason = f"The certificate of '{place.host}' is not trusted: {error.verify_message}."
        raise StepError(reason, fault=False) from None
    except TimeoutError:
        raise TransferError(f"'{place.host}' sent nothing in time") from None
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        # The last two: of http.client, whose connection was closed while it read.
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        raise TransferError(f"'{place.host}' cannot be reached or ended the connection: {reason}") from None
