"""Address of an agent, as `https://host:port`, `host:port` or `host`, with the credentials to use it."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from edgeopt.errors import UsageError
from edgeopt.platform.command_line import quote_word

PORT = 8080
DEFAULT_URL = f"http://127.0.0.1:{PORT}"
_QUOTED = r"(?:'[^']*'|[^\s'`;,)])+"
_WORD = r"(?:'[^']*'|[\w./-]*\w)"
REST = rf"(?>(?: --(?:model|to|role|tls) {_WORD}| --(?:add|rename|force)\b|(?<=remove|..pair|.. add) {_WORD})*)"
"""Pattern of what commands in sentences have behind their name."""
# Of the agent too: the machine that asks it may have no `edgeopt-agent`, and its data folder is not there.
_COMMAND = re.compile(
    r"\bedgeopt(?: fleet|-agent) (status|releases|rollback|cancel|remove|watch|deploy BUNDLE)\b(?! --url)"
    rf"({REST})(?: --data-dir {_QUOTED})?"
)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    token: str = field(default="", repr=False)
    """Empty where none is to be sent."""
    scheme: str = "http"
    fingerprint: str = ""
    """Fingerprint of the agent's certificate; without one the system's trust store decides."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Returns the headers of each request to the agent."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.place}"

    @property
    def place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def in_commands(text: str, url: str, fingerprint: str = "") -> str:
    """Returns a sentence whose commands are those of `edgeopt fleet` for the agent that was asked.

    The fingerprint is the one that was given as an option; one of the environment or a pairing is there anyway.
    """
    found = parse(url, fingerprint=fingerprint).url
    selection = "" if found == DEFAULT_URL else f" --url {quote_word(found)}"
    selection += f" --fingerprint {fingerprint}" if fingerprint else ""
    return _COMMAND.sub(lambda command: f"edgeopt fleet {command[1]}{selection}{command[2]}", text)


def parse(url: str | Address, token: str = "", fingerprint: str = "") -> Address:
    """Raises UsageError for an invalid address or token.

    Without a scheme it is HTTPS, but for this device: there an agent speaks plain HTTP by default.
    """
    if isinstance(url, Address):
        return url
    if not token.isascii() or not all(c.isprintable() and c != " " for c in token):
        raise UsageError(
            "The access token has invalid characters.",
            "Check --token or EDGEOPT_TOKEN: a token is one word, as edgeopt-agent token add printed it.",
        )
    hint = f"Give an address such as {DEFAULT_URL}, or a host name."
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"'{url}' is not the address of an agent: {error}.", hint) from None
    scheme = parts.scheme or ("https" if fingerprint or not is_this_device(host or "") else "http")
    if scheme not in {"http", "https"}:
        raise UsageError(f"'{url}' is neither an http nor an https address.", hint)
    if fingerprint and scheme == "http":
        raise UsageError(
            f"'{url}' is plain HTTP, which has no certificate to compare the fingerprint with.",
            "Write https:// in --url, or leave out --fingerprint.",
        )
    odd = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if not host or odd or any(c.isspace() or not c.isprintable() for c in url):
        raise UsageError(f"'{url}' is not the address of an agent.", hint)
    return Address(host, PORT if port is None else port, token, scheme, fingerprint)


def is_this_device(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
