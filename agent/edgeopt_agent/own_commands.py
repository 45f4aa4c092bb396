"""Commands in the agent's sentences, with what they need to act on this agent when copied on its device."""

import ipaddress
import re
import shlex
from pathlib import Path

from edgeopt.fleet.address import PORT, REST
from edgeopt_agent.certificate import listening, uses_tls
from edgeopt_agent.settings import Settings, on_data_dir

_END = rf"\b(?![\w-]){REST})(?! --data-dir)"
_ASKING = re.compile(rf"\bedgeopt-agent (?>(?:status|releases|rollback|cancel|remove|gc|deploy BUNDLE){_END}")
_IN_FOLDER = re.compile(
    r"\bedgeopt-agent (?>(?:run|pin|unpin|pair|fingerprint|renew-certificate|(?:trust|token) (?:add|list|remove))"
    rf"{_END}"
)


def in_own_commands(text: str, settings: Settings) -> str:
    """Returns a sentence whose commands act on the agent with these settings."""
    usual = settings.port == PORT and not uses_tls(settings)
    return _in_commands(text, settings.data_dir, usual)


def for_client(text: str, settings: Settings, client: str) -> str:
    """Returns the same for a client on this device; one elsewhere is not told where the folder is.

    `client` is an IP address, as the connection has it.
    """
    return in_own_commands(text, settings) if _is_here(client) else text


def _is_here(client: str) -> bool:
    try:
        found = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def in_commands_of(text: str, data_dir: Path) -> str:
    """Returns the same for the agent that runs on this data folder, or ran last."""
    found = listening(data_dir)
    return _in_commands(text, data_dir, found is None or (found.port == PORT and not found.certificate))


def _in_commands(text: str, data_dir: Path, usual: bool) -> str:
    """Completes the commands in a text; `usual`: whether they find the agent at its address without options."""
    if "edgeopt-agent" not in text:
        return text
    place = f" --data-dir {shlex.quote(str(data_dir))}"
    if not usual:
        text = _ASKING.sub(lambda command: command[0] + place, text)
    return _IN_FOLDER.sub(lambda command: on_data_dir(command[0], data_dir), text)
