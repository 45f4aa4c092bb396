"""The file that keeps a reference across restarts; written in a thread, because the disk may be slow."""

import asyncio
import logging
from pathlib import Path

from edgeopt.errors import EdgeoptError
from edgeopt_agent.data_dir import write_whole

log = logging.getLogger(__name__)


class ReferenceFile:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._text = ""
        self._writing: asyncio.Task[None] | None = None

    def read(self) -> bytes:
        """Raises OSError where there is none."""
        return self._file.read_bytes()

    def save(self, text: str) -> None:
        """The newest text wins; one writer at a time."""
        self._text = text
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name=f"write {self._file.name}")

    async def _write(self) -> None:
        written = ""
        while written != self._text:
            written = self._text
            try:
                await asyncio.to_thread(write_whole, self._file, written)
            except (EdgeoptError, OSError) as error:  # the watch goes on; a restart learns anew
                log.warning("The reference for drift could not be written: %s", error)
