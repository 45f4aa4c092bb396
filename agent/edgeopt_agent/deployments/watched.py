"""A folder, such as that of a USB stick: a signed bundle that appears there is deployed, once."""

import asyncio
import hashlib
import logging
import os
import stat
from collections.abc import AsyncIterator
from functools import partial
from io import BufferedReader
from pathlib import Path

from edgeopt.bundle.archive import holds
from edgeopt.bundle.deployment import FILE as DEPLOYMENT
from edgeopt.bundle.manifest import FILE as MANIFEST
from edgeopt.bundle.manifest import SIGNATURE
from edgeopt.errors import EdgeoptError, printable
from edgeopt_agent.data_dir import write_whole
from edgeopt_agent.deployments.incoming import Incoming, name_in
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.slots import Slots
from edgeopt_agent.threads import in_thread
from edgeopt_agent.trust import trust_of

log = logging.getLogger(__name__)
LOOK_S = 2.0
_PATTERN = "*.edgeopt"
_PARTS = (MANIFEST, SIGNATURE, DEPLOYMENT)
_PIECE_BYTES = 1 << 20
Seen = tuple[str, int, int]
"""A file's name, size and time: it is looked at again when one of them changes."""


class WatchedFolder:
    def __init__(self, slots: Slots, folder: Path) -> None:
        self._slots = slots
        self._folder = folder
        self._incoming = Incoming(slots, "watched")
        self._seen: Seen | None = None
        self._said = ""

    async def run(self) -> None:
        """Looks at the folder until it is cancelled; what goes wrong there is logged, once in a row."""
        await self._slots.first.machine.recovered.wait()
        while True:
            said = ""
            try:
                await self._look()
            except (EdgeoptError, OSError) as error:
                said = f"Watched folder '{self._folder}': {error}"
            if said and said != self._said:
                log.warning("%s", said)
            self._said = said
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        found = await in_thread(partial(_newest, self._folder))
        if found is None or found[1] == self._seen:
            return
        file, seen = found
        data = self._slots.first.site.data
        if trust_of(data.trust) != "signed":
            said = f"The agent trusts no key, so it does not take '{printable(file.name)}'."
            raise RefusedError(403, "no-key", said)
        if not await in_thread(partial(holds, file, _PARTS)):
            return  # it is still being copied, or is not a signed bundle
        slot = self._slots.for_bundle(await in_thread(partial(name_in, file)))
        if slot.machine.busy and not slot.machine.fetching:
            return
        with await in_thread(partial(_opened, file)) as opened:
            size = os.fstat(opened.fileno()).st_size
            digest = await in_thread(partial(_digest, opened))
            if digest != _taken(data.watched) and size <= self._slots.first.site.settings.max_bundle_bytes:
                await self._deploy(opened, size, digest, file.name)
                await asyncio.to_thread(write_whole, data.watched, digest)
        self._seen = seen

    async def _deploy(self, opened: BufferedReader, size: int, digest: str, name: str) -> None:
        settings = self._slots.first.site.settings
        asked = Record(
            id=0,
            name=printable(name)[:120],
            reason="Found in the watched folder.",
            ordered_by=f"the watched folder '{self._folder}'",
            soak_s=settings.soak_s,
            soak_requests=settings.soak_requests,
        )
        async with self._incoming.receive(_pieces(opened, digest), size) as (bundle, named):
            work = await self._slots.for_bundle(named).machine.deploy_file(bundle, asked)
            await work.received.wait()


def _newest(folder: Path) -> tuple[Path, Seen] | None:
    """The newest bundle in the folder; None if there is none, or no such folder now."""
    found = []
    for file in folder.glob(_PATTERN):
        status = file.lstat()
        if stat.S_ISREG(status.st_mode):
            found.append((status.st_mtime_ns, file, (file.name, status.st_size, status.st_mtime_ns)))
    return max(found)[1:] if found else None


def _opened(file: Path) -> BufferedReader:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(descriptor, "rb")


def _digest(opened: BufferedReader) -> str:
    opened.seek(0)
    return hashlib.file_digest(opened, "sha256").hexdigest()


async def _pieces(opened: BufferedReader, digest: str) -> AsyncIterator[bytes]:
    opened.seek(0)
    hashed = hashlib.sha256()
    while piece := await in_thread(partial(opened.read, _PIECE_BYTES)):
        hashed.update(piece)
        yield piece
    if hashed.hexdigest() != digest:
        raise RefusedError(409, "changed", "The file changed while it was read.")


def _taken(file: Path) -> str:
    """The digest of the bundle that was taken last."""
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
