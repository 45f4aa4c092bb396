"""Where an agent is: `http://host:port`, `host:port` or `host`; and the token for it."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from edgeopt.errors import UsageError

PORT = 8080
DEFAULT_URL = f"http://127.0.0.1:{PORT}"
_COMMAND = re.compile(r"\bedgeopt(?: fleet|-agent) (?:status|releases|rollback|watch|deploy BUNDLE)\b(?! --url)")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    token: str = field(default="", repr=False)
    """Empty where none is to be sent."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What each request to the agent carries."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def url(self) -> str:
        return f"http://{self._place}"

    @property
    def websocket_url(self) -> str:
        return f"ws://{self._place}"

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def in_commands(text: str, url: str) -> str:
    """A sentence whose commands name the agent that they are for, so that they can be copied."""
    found = parse(url).url
    return text if found == DEFAULT_URL else _COMMAND.sub(rf"\g<0> --url {shlex.quote(found)}", text)


def parse(url: str, token: str = "") -> Address:
    """Raises UsageError for what is no address of an agent, or no token."""
    if not token.isascii() or not all(c.isprintable() and c != " " for c in token):
        raise UsageError(
            "The access token holds characters that no token has.",
            "Check --token or EDGEOPT_TOKEN: a token is one word, as edgeopt-agent token add printed it.",
        )
    hint = f"Write it like this: {DEFAULT_URL}, or a host's name alone."
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"'{url}' is no address of an agent: {error}.", hint) from None
    if parts.scheme != "http":
        raise UsageError(
            f"'{url}' is not an http address; this version of the agent speaks plain HTTP.",
            "To reach another machine safely, tunnel its port: ssh -L 8080:127.0.0.1:8080 HOST",
        )
    odd = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if not host or odd or any(c.isspace() or not c.isprintable() for c in url):
        raise UsageError(f"'{url}' is no address of an agent.", hint)
    return Address(host, PORT if port is None else port, token)
