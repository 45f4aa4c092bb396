"""Who may ask for what: every request needs a token, once there is one or others can reach the agent."""

import ipaddress
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from edgeopt_agent.http.admissible import Refusal
from edgeopt_agent.http.early import RateLimit
from edgeopt_agent.http.plain import Scope
from edgeopt_agent.tokens import ROLES, Role, StoredToken, matching, read_token, token_files
from edgeopt_agent.trust import SETTLED_NS, is_loopback

MAX_FAILURES = 10
WINDOW_S = 60.0
"""Wrong tokens from an address within this time; after that many it is refused until the time is over."""
_MAX_ADDRESSES = 4096
_TEXT = frozenset({
    "/v1/completions", "/v1/chat/completions", "/v1/audio/transcriptions", "/v1/audio/translations",
})  # fmt: skip
_CHALLENGE = (b"www-authenticate", b"Bearer")
_MAKE_ONE = "make one on the device: edgeopt-agent token add NAME --role deploy"
logger = logging.getLogger(__name__)
logger.addFilter(RateLimit())


class Access:
    """Says why a request is not answered; loopback without any token takes all."""

    def __init__(self, host: str, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._reachable = not is_loopback(host)
        self._tokens = TokenWatch(folder)
        self._attempts = FailedAttempts(clock)

    def refusal(self, scope: Scope) -> Refusal | None:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        client = scope["client"][0] if scope.get("client") else ""
        return self.refusal_of(sent, client, needed_role(scope))

    def asker(self, scope: Scope) -> str:
        """Returns the sender of an allowed request, in words for the log."""
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        found = matching(_bearer(sent), self._tokens().tokens) if sent else None
        address = scope["client"][0] if scope.get("client") else "an unknown address"
        return f"{address} without a token" if found is None else f"the token '{found[0]}' at {address}"

    def refusal_of(self, sent: list[bytes], client: str, needed: Role) -> Refusal | None:
        """Returns why a request with these Authorization headers is refused; None if the client may send it."""
        known = self._tokens()
        if not known.required and not self._reachable:
            return None
        if not sent:
            message = "This agent requires an access token."
            hint = f"Pass --token, set EDGEOPT_TOKEN or send 'Authorization: Bearer TOKEN'; or {_MAKE_ONE}"
            return Refusal(401, "no-token", message, hint, (_CHALLENGE,))
        address = _network(client)
        found = matching(_bearer(sent), known.tokens)
        wait_s = self._attempts.wait_s(address, found[0] if found else "")
        if wait_s > 0:
            message = "Too many requests with a wrong access token came from this address."
            retry = (b"retry-after", b"%d" % math.ceil(wait_s))
            return Refusal(429, "too-many-attempts", message, f"Try again in {math.ceil(wait_s)} s.", (retry,))
        if found is None:
            self._attempts.failed(address)
            logger.warning("Refused a wrong access token from %s.", address)
            message = "The access token is unknown to this agent."
            return Refusal(401, "wrong-token", message, f"Check it, or {_MAKE_ONE}", (_CHALLENGE,))
        name, token = found
        self._attempts.succeeded(address, name)
        if ROLES.index(token.role) >= ROLES.index(needed):
            return None
        message = f"The access token '{name}' has the role '{token.role}'; this needs the role '{needed}'."
        return Refusal(
            403,
            "wrong-role",
            message,
            f"Use one that has it, or make one on the device: edgeopt-agent token add NAME --role {needed}",
        )


def needed_role(scope: Scope) -> Role:
    """Returns the least role that may send a request; unknown requests need the highest."""
    if scope["type"] == "websocket" or scope["method"] in {"GET", "HEAD"}:
        return "view"
    path: str = scope["path"]
    if path == "/v2/repository/index":  # a list, though the protocol asks for it by POST
        return "view"
    infers = path.startswith("/v2/models/") and path.endswith("/infer")
    return "infer" if infers or path.rstrip("/") in _TEXT else "deploy"


def _bearer(sent: list[bytes]) -> str:
    """Returns the token in an Authorization header; empty without one, or with several such headers."""
    scheme, _, token = sent[0].decode("latin-1").partition(" ")
    return token.strip() if len(sent) == 1 and scheme.lower() == "bearer" else ""


@lru_cache(_MAX_ADDRESSES)
def _network(address: str) -> str:
    """Returns a client's address; of IPv6 the first 64 bits, because one client has all that follow."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


@dataclass(frozen=True, slots=True)
class KnownTokens:
    required: bool
    tokens: tuple[tuple[str, StoredToken], ...] = ()


class TokenWatch:
    """The tokens of this moment; reads them again when the folder changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = str(folder)
        self._changed_ns = -1
        self._known = KnownTokens(required=False)

    def __call__(self) -> KnownTokens:
        try:
            changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - half the time, at each request
            if changed_ns != self._changed_ns or time.time_ns() - changed_ns < SETTLED_NS:
                self._known = self._read()
                self._changed_ns = changed_ns
        except FileNotFoundError:
            return KnownTokens(self._known.required)  # a folder that is taken away opens nothing
        except OSError:
            return KnownTokens(required=True)
        return self._known

    def _read(self) -> KnownTokens:
        files = token_files(self._folder)
        read = ((file.stem, read_token(file)) for file in files)
        return KnownTokens(bool(files), tuple((name, token) for name, token in read if token is not None))


class FailedAttempts:
    """Counts wrong tokens by address.

    A token that was right from an address before stays so while others there are refused: otherwise one bad client
    behind a proxy would lock out all the rest.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}
        self._right: dict[tuple[str, str], None] = {}

    def wait_s(self, address: str, name: str) -> float:
        """Seconds that the address must wait; 0 if it may try. `name` is that of a correct token."""
        count, until_s = self._failures.get(address, (0, 0.0))
        if count < MAX_FAILURES or (address, name) in self._right:
            return 0.0
        return max(0.0, until_s - self._clock())

    def failed(self, address: str) -> None:
        now = self._clock()
        count, until_s = self._failures.pop(address, (0, 0.0))
        if until_s <= now:
            count, until_s = 0, now + WINDOW_S
        self._failures[address] = (count + 1, until_s)
        if len(self._failures) > _MAX_ADDRESSES:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, address: str, name: str) -> None:
        self._right.pop((address, name), None)
        self._right[address, name] = None
        if len(self._right) > _MAX_ADDRESSES:
            del self._right[next(iter(self._right))]
