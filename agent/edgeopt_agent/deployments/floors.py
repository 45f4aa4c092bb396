"""The sequence numbers that removed models leave behind: an older bundle does not come back by their names."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from edgeopt_agent.data_dir import DataDir, make_private, write_whole
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.journal import Journal


async def keep_floors(data: DataDir, names: Iterable[str], journal: Journal) -> None:
    """Writes down the highest sequence number that a model has committed, before its journal is deleted."""
    if highest := await journal.highest_sequence():
        await asyncio.to_thread(_keep, [_file(data, name) for name in names if name], highest)


async def highest_sequence(data: DataDir, names: Iterable[str], journal: Journal) -> int:
    """Returns the highest number of this journal, and of removed models of these names; may raise StepError."""
    kept = await asyncio.to_thread(lambda: [_kept(_file(data, name)) for name in names])
    return max(await journal.highest_sequence(), *kept)


def _file(data: DataDir, name: str) -> Path:
    # A digest, because a name can be as long as the name of a file.
    return data.floors / sha256(name.encode()).hexdigest()


def _keep(files: list[Path], highest: int) -> None:
    for file in files:
        make_private(file.parent)
        known = 0
        with suppress(StepError):  # a damaged file gives way to what the journal knows
            known = _kept(file)
        write_whole(file, str(max(known, highest)))


def _kept(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        raise StepError(
            "It cannot be told how old the bundle may be: what a removed model of its name has left in the data "
            "folder is damaged. Deploy the bundle with --allow-downgrade if it is not older.",
            fault=False,
        ) from None
