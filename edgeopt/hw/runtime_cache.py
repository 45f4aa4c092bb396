"""Keeps what the runtimes answered: asking them takes about a second, reading a file takes none."""

from pathlib import Path

import msgspec

from edgeopt.hw.user_folders import put


class Answer(msgspec.Struct, frozen=True):
    """What a runtime can run on, as it says itself."""

    providers: tuple[str, ...] = ()
    devices: dict[str, str] = {}
    capabilities: dict[str, tuple[str, ...]] = {}


Answers = dict[str, Answer]


def path(folder: Path | None, circumstances: list[object]) -> Path | None:
    """The file for these circumstances, or None where nothing can be kept."""
    if folder is None:
        return None
    import hashlib

    digest = hashlib.sha256(msgspec.json.encode(circumstances)).hexdigest()[:32]
    return folder / f"runtimes-{digest}.json"


def load(file: Path | None) -> Answers:
    """The cached facts; a missing or damaged file counts as empty and is written again."""
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=Answers)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}


def store(file: Path, answers: Answers) -> str | None:
    """Replaces the file in one step; why it could not, or None."""
    problem = put(file, msgspec.json.encode(answers))
    return None if problem is None else f"{problem}, so each probe asks the runtimes again"
