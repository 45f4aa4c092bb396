"""Announces the agent by mDNS, so that `edgeopt fleet discover` finds it."""

import asyncio
import ipaddress
import logging
from typing import TYPE_CHECKING

from edgeopt.fleet.discovery import SERVICE, interface_addresses
from edgeopt.version import __version__

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

log = logging.getLogger(__name__)
_LONGEST_NAME = 40
_GOODBYE_S = 1.0


def announced_name(name: str) -> str:
    """Returns the name in a form that the instance of a service can have: without dots, and not too long."""
    return name.replace(".", "-")[:_LONGEST_NAME]


class Announcement:
    """Lasts from `start` until `stop`. Where it is not possible, the agent logs that and serves on."""

    def __init__(self, name: str, host: str, port: int, fingerprint: str) -> None:
        """Takes the fingerprint of the certificate; empty without TLS."""
        self._name = name
        self._host = host
        self._port = port
        self._texts = {
            "name": name,
            "version": __version__,
            "scheme": "https" if fingerprint else "http",
            "fingerprint": fingerprint,
            "port": str(port),
        }
        self._network: AsyncZeroconf | None = None
        self._task = asyncio.create_task(self._begin(), name="mdns")

    async def stop(self) -> None:
        """Tells the network that the agent goes."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._network is None:
            return
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await self._network.async_unregister_all_services()
                await self._network.async_close()
        except (OSError, TimeoutError) as error:
            log.debug("mDNS did not end cleanly: %s", error)

    async def _begin(self) -> None:
        from zeroconf import Error, InterfaceChoice
        from zeroconf.asyncio import AsyncZeroconf

        try:
            everywhere = ipaddress.ip_address(self._host).is_unspecified
            self._network = AsyncZeroconf(interfaces=InterfaceChoice.All if everywhere else [self._host])
            registered = await self._network.async_register_service(
                self._service(everywhere), allow_name_change=True
            )
            await registered
        except (OSError, RuntimeError, ValueError, Error) as error:
            log.warning("This agent is not announced by mDNS: %s", error)
            return
        log.info("Announced by mDNS as %s.", self._name)

    def _service(self, everywhere: bool) -> "AsyncServiceInfo":
        from zeroconf.asyncio import AsyncServiceInfo

        found = [each for each in interface_addresses() if not ipaddress.ip_address(each).is_loopback]
        name = announced_name(self._name)
        return AsyncServiceInfo(
            SERVICE,
            f"{name}.{SERVICE}",
            port=self._port,
            properties=self._texts,
            server=f"{name}-{self._port}.local.",
            parsed_addresses=found if everywhere else [self._host],
        )
