"""Agents that the app knows: those that answered, those that the user is paired with, that of this machine."""

from edgeopt.errors import UsageError
from edgeopt.fleet.address import DEFAULT_URL, parse
from edgeopt.fleet.pairing import known_pairings
from edgeopt_gui.settings import Settings


def known_address(url: str) -> str:
    """Returns host and port of an agent, safe to store; "" for an invalid address, which may contain a secret."""
    try:
        return parse(url).url
    except UsageError:
        return ""


def known_agents(settings: Settings) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*settings.agents(), *known_pairings(), DEFAULT_URL)))
