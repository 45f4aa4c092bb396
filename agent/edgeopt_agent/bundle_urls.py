"""Addresses of bundles to fetch: URLs, and the prefixes in `fetch_from` that allow them."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from edgeopt.errors import UsageError
from edgeopt.registry.reference import SCHEME, is_reference, read_reference

DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST = 2048
_PLAIN = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without spaces and backslashes."""
_HIDDEN = re.compile(r"%(2e|2f|5c)", re.IGNORECASE)
"""Dots and slashes that some servers decode, and then leave the folder."""
_LOGIN = re.compile(r"//[^/]*@")


@dataclass(frozen=True, slots=True)
class BundleUrl:
    scheme: str
    host: str
    port: int
    path: str
    query: str

    @property
    def target(self) -> str:
        """Target of the HTTP request: the path and the query."""
        return self.path + (f"?{self.query}" if self.query else "")


def read_url(text: str) -> BundleUrl:
    """Returns the parts of an address; raises ValueError, with what is wrong, for one that bundles cannot have."""
    if not _PLAIN.fullmatch(text) or len(text) > _LONGEST:
        raise ValueError("it must be ASCII without spaces and backslashes, of at most 2048 characters")
    try:
        parts: SplitResult = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(str(error)) from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("it must begin with https://HOST or http://HOST")
    if parts.username is not None or parts.password is not None or "#" in text:
        raise ValueError("it must have neither a user name, nor a password, nor a '#'")
    if _HIDDEN.search(parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise ValueError("its path must have no '.', '..', or encoded dots and slashes")
    port = DEFAULT_PORTS[parts.scheme] if port is None else port
    return BundleUrl(parts.scheme, parts.hostname.rstrip("."), port, parts.path or "/", parts.query)


def read_place(text: str) -> BundleUrl:
    """Returns the place of a bundle on a web server or in a registry; raises ValueError like `read_url`."""
    if not is_reference(text):
        return read_url(text)
    try:
        reference = read_reference(text)
    except UsageError as error:
        raise ValueError(error.message) from None
    return _in_registry(f"{reference.host}/{reference.repository}")


def _in_registry(place: str) -> BundleUrl:
    return dataclasses.replace(read_url(f"https://{place}"), scheme="oci")


def read_prefix(text: str) -> BundleUrl:
    """Returns one entry of `fetch_from`; raises ValueError like `read_url`."""
    found = _in_registry(text.removeprefix(SCHEME)) if is_reference(text) else read_url(text)
    if "?" in text:
        raise ValueError("a prefix has no '?'")
    return found


def allows(prefix: str, url: BundleUrl) -> bool:
    """Whether the URL is on the same server as the prefix, at its path or in the folder that it names."""
    known = read_prefix(prefix)
    if (known.scheme, known.host, known.port) != (url.scheme, url.host, url.port):
        return False
    folder = known.path if known.path.endswith("/") else f"{known.path}/"
    return url.path == known.path or url.path.startswith(folder)


def allowed(url: BundleUrl, prefixes: Sequence[str]) -> bool:
    return any(allows(prefix, url) for prefix in prefixes)


def shown(url: str) -> str:
    """Returns the URL without its login and its query, which may hold a signature that gives access."""
    return _LOGIN.sub("//", url.partition("?")[0])
