"""Releases that stay on the disk: the serving one, the one before, some earlier ones, and pinned ones."""

import asyncio
import re
import shlex
from collections.abc import Iterable
from urllib.parse import unquote

import msgspec

from edgeopt.errors import InputError
from edgeopt_agent.data_dir import DataDir, make_private, pointed, remove, write_whole
from edgeopt_agent.deployments.site import Site, current
from edgeopt_agent.journal import JournalError
from edgeopt_agent.own_commands import in_commands_of

_ID = re.compile(r"[0-9a-f]{1,64}")


class Pins(msgspec.Struct, frozen=True):
    data_dir: str
    pins: tuple[str, ...]


def pinned(data: DataDir) -> set[str]:
    """Returns the pinned releases, whether or not they are on the disk."""
    return {file.name for file in data.pins.iterdir() if _ID.fullmatch(file.name)} if data.pins.is_dir() else set()


def pins_of(data: DataDir) -> Pins:
    return Pins(str(data.root), tuple(sorted(pinned(data))))


def pin(data: DataDir, release: str) -> Pins:
    """Keeps a release until it is unpinned; raises InputError where it is not on the disk."""
    if not _ID.fullmatch(release) or not data.release(release).is_dir():
        option = "" if data.shared is None else f" --model {shlex.quote(unquote(data.root.name))}"
        listed = f"List them: edgeopt-agent releases{option}"
        raise InputError(
            f"There is no release '{release[:64]}' in '{data.root}'.",
            in_commands_of(listed, data.base),
        )
    make_private(data.pins)
    write_whole(data.pins / release, "")
    return pins_of(data)


def unpin(data: DataDir, release: str) -> Pins:
    """Allows the next garbage collection to remove a release; raises InputError if it is not pinned."""
    if release not in pinned(data):
        known = ", ".join(sorted(pinned(data))) or "none is"
        raise InputError(f"The release '{release[:64]}' is not pinned.", f"Pinned: {known}.")
    remove(data.pins / release)
    return pins_of(data)


async def retained(site: Site) -> set[str]:
    """Returns the releases that stay; raises JournalError if the journal cannot be read."""
    data = site.data
    linked = {name for link in (data.current, data.previous) if (name := pointed(link)) is not None}
    if (serves := current(site)) is not None:
        linked.add(serves)
    failed = await site.journal.quarantined()
    older = [
        name
        for name in await site.journal.committed()
        if name not in linked and name not in failed and data.release(name).is_dir()
    ]
    return linked | pinned(data) | set(older[: site.settings.keep])


async def garbage(site: Site, used: Iterable[str | None] = ()) -> set[str]:
    """Returns the releases that the journal names, and that nothing needs any more."""
    return await site.journal.garbage({*used, *await retained(site)})


async def discard(site: Site, release: str) -> None:
    """Removes a candidate that failed, unless it is retained: one that served once may be gone back to."""
    try:
        stays = not release or release in await retained(site)
    except JournalError:
        return  # nothing is removed that the journal cannot name; the next start looks again
    if not stays:
        await asyncio.to_thread(remove, site.data.release(release))
