"""A bundle that comes in before it is clear which model it is for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from edgeopt.bundle.archive import read_member
from edgeopt.bundle.deployment import FILE, LARGEST_BYTES
from edgeopt.bundle.toml import read_toml
from edgeopt_agent.data_dir import remove
from edgeopt_agent.deployments.receive import write_stream
from edgeopt_agent.deployments.refused import RefusedError, StepError, disk_refusal
from edgeopt_agent.deployments.slots import Slots
from edgeopt_agent.releases import check_space


class Incoming:
    """Takes bundles into the agent's own folder, as many at once as there may be models."""

    def __init__(self, slots: Slots, prefix: str = "incoming") -> None:
        self._slots = slots
        self._prefix = prefix
        """Prefix of the file names, different for each object of this class."""
        self._numbers = count(1)
        self._under_way = 0

    @asynccontextmanager
    async def receive(self, stream: AsyncIterator[bytes], length: int) -> AsyncIterator[tuple[Path, str]]:
        """Yields the bundle's file and claimed name; deletes the file in the end unless a deployment took it.

        The name is empty where it cannot be told: the deployment will say what is wrong with the bundle.
        """
        site = self._slots.first.site
        if self._under_way >= site.settings.max_models:
            raise RefusedError(
                409, "busy", "Too many bundles are being received.", "Wait for their end, and send it again."
            )
        self._under_way += 1
        place = site.data.partial / f"{self._prefix}-{next(self._numbers)}.zip"
        try:
            await self._slots.first.machine.recovered.wait()  # until then partial files are removed
            await asyncio.to_thread(check_space, site.data, length, site.settings.disk_reserve_bytes)
            await asyncio.to_thread(remove, place)
            try:
                await write_stream(stream, length, place, site.settings.body_timeout_s, lambda _: None)
            except StepError as error:
                raise RefusedError(400, "not-received", error.message, "Send it again.") from None
            except OSError as error:
                message = f"The bundle cannot be written to '{site.data.root}': {error.strerror}."
                raise disk_refusal(message, error) from None
            yield place, await asyncio.to_thread(name_in, place)
        finally:
            self._under_way -= 1
            await asyncio.to_thread(remove, place)


def name_in(file: Path) -> str:
    """Returns the name that a bundle claims; empty if it cannot be read."""
    try:
        name = read_toml(read_member(file, FILE, LARGEST_BYTES).decode()).get("name", "")
    except (ValueError, RecursionError):
        return ""
    return name if isinstance(name, str) and name.isprintable() else ""
