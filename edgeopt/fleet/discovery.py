"""Agents in the local network that announce themselves by mDNS.

Anybody in the network can announce anything, so agents that answer are listed and never trusted: pairing, or the
fingerprint from the device itself, proves which agent answers.
"""

import asyncio
import re
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec
import psutil

from edgeopt.errors import MissingError, MissingExtraError, UsageError, printable
from edgeopt.fleet.rollout_request import DiscoverRequest
from edgeopt.fleet.transport import normal_fingerprint

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncZeroconf

SERVICE = "_edgeopt._tcp.local."
_SCHEMES = ("http", "https")
_LONGEST = 64
_RESOLVE_S = 3.0
_MAX_AGENTS = 1000


class DiscoveredAgent(msgspec.Struct, frozen=True):
    name: str
    url: str
    version: str = ""
    fingerprint: str = ""
    """Announced fingerprint of the certificate; empty without TLS."""


class DiscoveredAgents(msgspec.Struct, frozen=True):
    seconds: float
    agents: tuple[DiscoveredAgent, ...]


def discover(request: DiscoverRequest) -> DiscoveredAgents:
    """All agents that answer within the time."""
    if find_spec("zeroconf") is None:
        raise MissingExtraError("fleet", "Discovery")
    return DiscoveredAgents(request.seconds, asyncio.run(_discovered(request)))


def interface_addresses() -> tuple[str, ...]:
    """The IPv4 addresses of this machine, loopback included."""
    found = (each for addresses in psutil.net_if_addrs().values() for each in addresses)
    return tuple(sorted({each.address for each in found if each.family is socket.AF_INET}))


async def _discovered(request: DiscoverRequest) -> tuple[DiscoveredAgent, ...]:
    from zeroconf import InterfaceChoice, ServiceStateChange, Zeroconf
    from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

    here = interface_addresses()
    if unknown := [each for each in request.interfaces if each not in here]:
        raise UsageError(
            f"No interface here has the address {printable(unknown[0])}.", f"The addresses are: {', '.join(here)}."
        )
    try:
        network = AsyncZeroconf(interfaces=list(request.interfaces) or InterfaceChoice.All)
    except (OSError, RuntimeError) as error:
        raise MissingError(
            f"mDNS cannot be used here: {printable(str(error))}.", "Check that a network with multicast is up."
        ) from None
    names: dict[str, None] = {}

    def changed(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        del zeroconf, service_type
        if state_change is not ServiceStateChange.Removed and len(names) < _MAX_AGENTS:
            names[name] = None
        elif state_change is ServiceStateChange.Removed:
            names.pop(name, None)

    try:
        browser = AsyncServiceBrowser(network.zeroconf, SERVICE, handlers=[changed])
        await asyncio.sleep(request.seconds)
        await browser.async_cancel()
        found = await asyncio.gather(*(_resolved(network, name) for name in names))
    finally:
        await network.async_close()
    return tuple(sorted((each for each in found if each is not None), key=lambda each: (each.name, each.url)))


async def _resolved(network: "AsyncZeroconf", name: str) -> DiscoveredAgent | None:
    """Returns a discovered agent, or None if it has gone or its announcement is not that of an agent."""
    from zeroconf import BadTypeInNameException, IPVersion
    from zeroconf.asyncio import AsyncServiceInfo

    try:
        info = AsyncServiceInfo(SERVICE, name)
        if not await info.async_request(network.zeroconf, _RESOLVE_S * 1000):
            return None
    except BadTypeInNameException:
        return None
    addresses = info.parsed_scoped_addresses(IPVersion.V4Only) or info.parsed_scoped_addresses()
    texts = {key: _text(value) for key, value in info.decoded_properties.items()}
    return read_announcement(name.removesuffix(f".{SERVICE}"), addresses[0] if addresses else "", info.port, texts)


def read_announcement(
    instance: str, address: str, port: int | None, texts: dict[str, str]
) -> DiscoveredAgent | None:
    scheme = texts.get("scheme", "")
    if scheme not in _SCHEMES or not address or not port:
        return None
    host = f"[{address}]" if ":" in address else address
    try:
        fingerprint = normal_fingerprint(texts.get("fingerprint", ""))
    except UsageError:
        fingerprint = ""
    name = texts.get("name") or _text(instance)
    return DiscoveredAgent(name, f"{scheme}://{host}:{port}", texts.get("version", ""), fingerprint)


def _text(value: str | None) -> str:
    return re.sub(r"\s+", " ", printable(value or ""))[: _LONGEST * 2]
