"""The check of request headers: refuses requests of web pages, and those that parsers could read in two ways."""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from edgeopt_agent.http.plain import Scope
from edgeopt_agent.trust import is_loopback

_MAX_HOST_CHARACTERS = 300
_SAME_SITE = frozenset({b"none"})


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    code: str
    message: str
    hint: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


def refusal(scope: Scope, own_host: str) -> Refusal | None:
    """Returns why a request is not answered; None if its headers are fine.

    A web page must not command a device, or read of it, through the browser of someone who can reach it. One whose
    own name leads to this device sends no Origin with what it reads; its name it cannot hide.
    """
    hosts: list[bytes] = []
    codings: list[bytes] = []
    from_page = False
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value)
        elif name == b"transfer-encoding":
            codings.append(value)
        elif name == b"origin" or (name == b"sec-fetch-site" and value not in _SAME_SITE):
            from_page = True
    if len(hosts) != 1 and not (not hosts and scope["http_version"] == "1.0"):
        message = f"The request has {len(hosts)} Host headers." if hosts else "The request has no Host header."
        return Refusal(400, "bad-host", message, "Send exactly one.")
    if codings and b",".join(codings).strip().lower() != b"chunked":
        shown = b", ".join(codings).decode("latin-1")[:80]
        message = f"The transfer encoding '{shown}' is not supported."
        return Refusal(
            501, "bad-encoding", message, "Send the body plain or chunked, and name gzip as Content-Encoding."
        )
    host = hosts[0].decode("latin-1") if hosts else ""
    if host and not _is_own_name(host[:_MAX_HOST_CHARACTERS]) and is_loopback(own_host):
        return Refusal(
            403,
            "browser",
            f"The agent listens on loopback only and was addressed as '{host[:80]}', as a web page could.",
            "Ask for localhost; a proxy in front of it must do so too.",
        )
    if from_page:
        message = "The agent rejects requests from web pages."
        return Refusal(403, "browser", message, "Use edgeopt-agent, edgeopt fleet or curl.")
    return None


@lru_cache(256)
def _is_own_name(host: str) -> bool:
    """Whether a Host header is one that nobody else can let lead to this device: an address, or localhost."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in {"", "localhost"} or bool(ipaddress.ip_address(name))
    except ValueError:
        return False
