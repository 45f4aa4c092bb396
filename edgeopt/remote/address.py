"""Address of a device: over SSH, or of an agent there."""

import os
import re
import shlex
from urllib.parse import parse_qsl, urlsplit

import msgspec

from edgeopt.errors import UsageError
from edgeopt.fleet.address import Address
from edgeopt.fleet.pairing import address_of
from edgeopt.platform.command_line import join_words, split_words

VARIABLE = "EDGEOPT_SSH"
"""Name of the variable with the client program and options of the user's own, such as `ssh -i key`."""
FOLDER = "~/.cache/edgeopt/remote"
BESIDE_SERVING = "beside_serving"
PROBE_ONLY = "probe_only"
EXAMPLE = "ssh://pi@raspberrypi.local"
# Without BatchMode, ssh would ask for a password or a host key on a terminal that nobody sees. A connection
# that is silent for 15 seconds is lost.
_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
)

# A leading hyphen would be an option to ssh.
_DESTINATION = re.compile(r"[^-\s:@][^\s:@]*(@[^-\s:@][^\s:@]*)?")


class SshAddress(msgspec.Struct, frozen=True):
    destination: str
    """USER@HOST or HOST, which may be a name of the user's own SSH configuration."""
    port: int | None = None
    python: str = "python3"
    folder: str = FOLDER
    """Folder of edgeopt's files on the device."""

    @property
    def shown(self) -> str:
        return f"ssh://{self.destination}{f':{self.port}' if self.port else ''}"

    @property
    def host(self) -> str:
        return self.destination

    @property
    def by_hand(self) -> str:
        """Returns the command that connects to the device."""
        return join_words([*self.client, self.destination])

    @property
    def client(self) -> list[str]:
        port = [] if self.port is None else ["-p", str(self.port)]
        return [*split_words(os.environ.get(VARIABLE) or "ssh"), *port]

    def command(self, script: str) -> list[str]:
        """Returns the command that runs a Python script on the device."""
        options = [word for each in _OPTIONS for word in ("-o", each)]
        # `exec`, so that no shell stays between the connection and the program.
        there = f"exec {shlex.quote(self.python)} -u -c {shlex.quote(script)}"
        return [*self.client, "-T", *options, "--", self.destination, there]


class AgentAddress(msgspec.Struct, frozen=True):
    address: Address
    beside_serving: bool = False
    """Whether to run even while a release serves there, which then shares the processor."""

    @property
    def shown(self) -> str:
        return self.address.url

    @property
    def host(self) -> str:
        return self.address.url


def read_address(text: str) -> SshAddress | AgentAddress:
    """Reads an address of a device; raises UsageError for anything else."""
    return _of_agent(text) if text.lower().startswith(("http://", "https://")) else _over_ssh(text)


def _of_agent(text: str) -> AgentAddress:
    place, _, query = text.partition("?")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    beside = settings.pop(BESIDE_SERVING, "0")
    if settings or beside not in {"0", "1"}:
        raise UsageError(
            f"'{text}' has an unknown setting.", f"The address of an agent takes {BESIDE_SERVING}=1 only."
        )
    return AgentAddress(address_of(place), beside == "1")


def _over_ssh(text: str) -> SshAddress:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _unusable(text) from None
    destination = parts.netloc.removesuffix(f":{port}") if port is not None else parts.netloc
    more = dict(parse_qsl(parts.query))
    if parts.scheme != "ssh" or parts.path.strip("/") or not _DESTINATION.fullmatch(destination):
        raise _unusable(text)
    if unknown := more.keys() - {"python", "folder"}:
        raise UsageError(
            f"'{text}' has the unknown setting '{min(unknown)}'.", "An address takes python=PATH and folder=PATH."
        )
    return SshAddress(destination, port, more.get("python", "python3"), more.get("folder", FOLDER))


def _unusable(text: str) -> UsageError:
    return UsageError(
        f"'{text}' is not the address of a device.",
        f"Write ssh://[USER@]HOST[:PORT] or the https:// address of an agent, such as {EXAMPLE}",
    )
