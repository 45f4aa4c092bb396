"""A folder, such as that of a USB stick: a signed bundle that appears there is deployed, once."""

import asyncio
import hashlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.bundle.archive import holds, read_member
from edgeopt.bundle.deployment import FILE as DEPLOYMENT
from edgeopt.bundle.manifest import FILE as MANIFEST
from edgeopt.bundle.manifest import SIGNATURE
from edgeopt.bundle.sign import sequence_in
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, printable
from edgeopt.fleet.records import RefusedFile
from edgeopt_agent.data_dir import write_whole
from edgeopt_agent.deployments.floors import highest_sequence
from edgeopt_agent.deployments.incoming import Incoming, name_in
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.slots import Slot, Slots
from edgeopt_agent.deployments.states import State
from edgeopt_agent.threads import in_thread
from edgeopt_agent.trust import trust_of

log = logging.getLogger(__name__)
LOOK_S = 2.0
_PATTERN = "*.edgeopt"
_PARTS = (MANIFEST, SIGNATURE, DEPLOYMENT)
_PIECE_BYTES = 1 << 20
_DIGEST = re.compile(rb"[0-9a-f]{64}")
replace = msgspec.structs.replace
FileStamp = tuple[str, int, int]
"""A file's name, size and time: it is looked at again when one of them changes."""
_MAX_TRIES = 3
_REMEMBERED = 1024
_LARGEST_SIGNATURE = 1 << 24


class WatchedBundle(msgspec.Struct, frozen=True):
    """A bundle that was taken from the folder, as the disk remembers it."""

    digest: str
    model: str = ""
    """The added model whose deployment it was; empty for the agent's first one."""
    deployment: int = 0
    """The number is 0 before it begins."""
    tries: int = 0
    done: bool = False
    """Whether it is not taken again."""
    sequence: int = 0
    time_ns: int = 0
    """The time of the file, at most that at which it was taken: clocks of other machines may be wrong."""
    reason: str = ""
    """The reason why it does not serve."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete bundle with a signature, which nobody has checked."""

    path: Path
    stamp: FileStamp
    name: str
    sequence: int

    @property
    def time_ns(self) -> int:
        return min(self.stamp[2], time.time_ns())


class WatchedFolder:
    def __init__(self, slots: Slots, folder: Path) -> None:
        self._slots = slots
        self._folder = folder
        self._data = slots.first.site.data
        self._incoming = Incoming(slots, "watched")
        self._taken: dict[str, WatchedBundle] | None = None
        self._judged: dict[FileStamp, str] = {}
        """The files that are not looked at again, each with the reason why it is refused, if it is."""
        self._waiting: dict[FileStamp, str] = {}
        """Files that are not taken now and are tried again, each with the reason."""
        self._incomplete: set[FileStamp] = set()
        self._last_warning = ""

    async def run(self) -> None:
        """Looks at the folder until it is cancelled; what goes wrong there is logged, once in a row."""
        await self._slots.first.machine.recovered.wait()
        while True:
            warning = ""
            try:
                await self._look()
            except (EdgeoptError, OSError) as error:
                warning = f"Watched folder '{self._folder}': {error}"
            if warning and warning != self._last_warning:
                log.warning("%s", warning)
            self._last_warning = warning
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Takes the first file that can be, the one with the highest sequence number first."""
        found = await in_thread(partial(_files, self._folder))
        self._judged = {stamp: reason for stamp, reason in self._judged.items() if stamp in found}
        self._waiting = {}
        try:
            new = {stamp: path for stamp, path in found.items() if stamp not in self._judged}
            if not new:
                return
            if trust_of(self._data.trust) != "signed":
                self._waiting = dict.fromkeys(new, "The agent trusts no key.")
                name = printable(next(iter(new))[0])
                raise RefusedError(403, "no-key", f"The agent trusts no key, so it does not take '{name}'.")
            candidates = await in_thread(partial(_candidates, new))
            self._refuse_incomplete(new.keys() - {each.stamp for each in candidates})
            await self._take_first(candidates)
        finally:
            reasons = {stamp[0]: reason for stamp, reason in {**self._judged, **self._waiting}.items() if reason}
            self._slots.refuse_files(tuple(RefusedFile(name, reasons[name]) for name in sorted(reasons)))

    async def _take_first(self, candidates: list[Candidate]) -> None:
        """Takes the first one that can be taken now, and raises the first error of the others afterwards."""
        first: EdgeoptError | OSError | None = None
        for each in candidates:
            try:
                if not await self._take(each):
                    break
            except (EdgeoptError, OSError) as error:
                self._waiting[each.stamp] = str(error)
                first = first or error
        if first is not None:
            raise first

    def _refuse_incomplete(self, found: set[FileStamp]) -> None:
        """Judges what has not changed since the last look; the rest may still be copied."""
        for stamp in found & self._incomplete:
            self._judge(stamp, "It is not a complete bundle with a signature.")
        self._incomplete = found

    def _judge(self, stamp: FileStamp, reason: str) -> None:
        self._judged[stamp] = reason
        if reason:
            log.warning("'%s' in the watched folder is refused: %s", printable(stamp[0]), reason)

    async def _take(self, candidate: Candidate) -> bool:
        """Whether the next file can be looked at; False while this one is deployed, or has to wait."""
        slot = self._slots.for_bundle(candidate.name)
        if slot.machine.busy and not slot.machine.fetching:
            return False
        with await in_thread(partial(_opened, candidate.path)) as opened:
            size = os.fstat(opened.fileno()).st_size
            maximum = self._slots.first.site.settings.max_bundle_bytes
            if size > maximum:
                self._judge(
                    candidate.stamp, f"It has {units.size(size)}, and at most {units.size(maximum)} are taken."
                )
                return True
            digest = await in_thread(partial(_digest, opened))
            known = await self._known(digest)
            if known.done:
                self._judge(candidate.stamp, known.reason)
                return True
            if why := await self._why_older(slot, candidate):
                self._judge(candidate.stamp, why)
                return True
            await self._deploy(opened, size, candidate, known)
        return False

    async def _known(self, digest: str) -> WatchedBundle:
        """Returns what is known of a bundle, with the end of its deployment."""
        if self._taken is None:
            self._taken = await in_thread(partial(_read, self._data.watched))
        found = self._taken.get(digest, WatchedBundle(digest))
        if not found.deployment and found.tries >= _MAX_TRIES:
            return await self._remember(replace(found, done=True, reason=_stopped(found)))
        if found.done or not found.deployment:
            return found
        slot = next((each for each in self._slots.all if each.site.model == found.model), None)
        record = None if slot is None else await slot.site.journal.deployment(found.deployment)
        if record is None:
            return await self._remember(replace(found, done=True))  # its model was removed, or the journal lost
        if not record.final or (record.interrupted and found.tries < _MAX_TRIES):
            return found
        reason = "" if record.state is State.COMMITTED else record.reason
        if record.interrupted:
            reason = _stopped(found)
        return await self._remember(replace(found, done=True, reason=reason))

    async def _remember(self, taken: WatchedBundle) -> WatchedBundle:
        known = {**(self._taken or {})}
        known.pop(taken.digest, None)
        known = {**dict(list(known.items())[1 - _REMEMBERED :]), taken.digest: taken}
        text = json.dumps(msgspec.to_builtins(list(known.values())))  # in ASCII, whatever is in the reasons
        await asyncio.to_thread(write_whole, self._data.watched, text)
        self._taken = known
        return taken

    async def _why_older(self, slot: Slot, candidate: Candidate) -> str:
        """Returns why a bundle is too old to be taken; empty if it is not."""
        names = {slot.site.model, candidate.name}
        highest = await highest_sequence(self._data, names, slot.site.journal)
        older = candidate.sequence < highest
        for each in (self._taken or {}).values():
            alike = each.model == slot.site.model and each.sequence == candidate.sequence == highest
            older = older or (alike and not each.reason and each.done and each.time_ns >= candidate.time_ns)
        if not older:
            return ""
        return f"Its sequence number is {candidate.sequence}, and that of a release which has served {highest}."

    async def _deploy(self, opened: BufferedReader, size: int, candidate: Candidate, known: WatchedBundle) -> None:
        settings = self._slots.first.site.settings
        tries = f" (try {known.tries + 1} of {_MAX_TRIES})" if known.tries else ""
        record = Record(
            id=0,
            name=printable(candidate.path.name)[:120],
            reason=f"Found in the watched folder{tries}.",
            ordered_by=f"the watched folder '{self._folder}'",
            soak_s=settings.soak_s,
            soak_requests=settings.soak_requests,
        )
        async with self._incoming.receive(_pieces(opened, known.digest), size) as (bundle, named):
            slot = self._slots.for_bundle(named)
            counted = replace(
                known,
                model=slot.site.model,
                deployment=0,
                tries=known.tries + 1,
                sequence=candidate.sequence,
                time_ns=candidate.time_ns,
            )
            await self._remember(counted)  # before it begins, whatever becomes of the agent then
            try:
                work = await slot.machine.deploy_file(bundle, record)
            except EdgeoptError:
                await self._remember(known)
                raise
            await self._remember(replace(counted, deployment=work.record.id))
            await work.received.wait()


def _stopped(taken: WatchedBundle) -> str:
    return f"The agent stopped {taken.tries} times while it was deployed."


def _read(file: Path) -> dict[str, WatchedBundle]:
    """Returns the bundles that were taken, by their digests."""
    try:
        content = file.read_bytes()
    except OSError:
        return {}
    if _DIGEST.fullmatch(content):  # of an agent that remembered the last one only
        digest = content.decode()
        return {digest: WatchedBundle(digest, done=True)}
    try:
        return {each.digest: each for each in msgspec.json.decode(content, type=thread_safe(list[WatchedBundle]))}
    except msgspec.DecodeError:
        log.warning("'%s' is damaged: what it remembered may be deployed again.", file)
        return {}


def _files(folder: Path) -> dict[FileStamp, Path]:
    """Returns the files with the name of a bundle; none if there is no such folder now."""
    found = {}
    for file in folder.glob(_PATTERN):
        with suppress(FileNotFoundError):
            status = file.lstat()
            if stat.S_ISREG(status.st_mode):
                found[file.name, status.st_size, status.st_mtime_ns] = file
    return found


def _candidates(files: Mapping[FileStamp, Path]) -> list[Candidate]:
    """Returns the complete signed bundles, the newest first: by the claimed number, then by the file's time."""
    found = []
    for stamp, path in files.items():
        if holds(path, _PARTS):
            sequence = sequence_in(read_member(path, SIGNATURE, _LARGEST_SIGNATURE))
            found.append(Candidate(path, stamp, name_in(path), sequence))
    return sorted(found, key=lambda each: (each.sequence, each.time_ns, each.stamp), reverse=True)


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
