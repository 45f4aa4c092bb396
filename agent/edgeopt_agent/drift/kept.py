"""The file that keeps a reference across restarts; written in a thread, because the disk may be slow."""

import asyncio
import logging
from pathlib import Path

from edgeopt.errors import EdgeoptError
from edgeopt_agent.data_dir import write_whole
from edgeopt_agent.drift.watch import SavedDrift, text_of

log = logging.getLogger(__name__)


class ReferenceFile:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._newest: SavedDrift | None = None
        self._writing: asyncio.Task[None] | None = None

    def read(self) -> bytes:
        """Raises OSError if the file cannot be read."""
        return self._file.read_bytes()

    def save(self, saved: SavedDrift) -> None:
        """Saves in the background, one write at a time; if several values wait, only the newest is written."""
        self._newest = saved
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name=f"write {self._file.name}")

    async def _write(self) -> None:
        while (saved := self._newest) is not None:
            self._newest = None
            try:
                await asyncio.to_thread(self._put, saved)
            except (EdgeoptError, OSError) as error:  # only a restart needs it
                log.warning("The reference for drift could not be written: %s", error)

    def _put(self, saved: SavedDrift) -> None:
        write_whole(self._file, text_of(saved))
