"""What lies in an entry, under a seal: whatever a disk or a hand changed in it is seen."""

import hashlib
from datetime import datetime
from pathlib import Path, PurePosixPath

import msgspec

FILE = "record.json"
FILES = "files"
"""The folder of an entry with its files."""
SCHEMA = 2


class DamagedError(Exception):
    """An entry is not what was written; the message says what of it."""


class Piece(msgspec.Struct, frozen=True):
    sha256: str
    size_bytes: int


class Record(msgspec.Struct, frozen=True):
    kind: str
    title: str
    """What it is, in a few words for people."""
    made_at: datetime
    files: dict[str, Piece]
    document: bytes = b""
    """What its owner needs to use it again."""
    parts: dict[str, str] = {}
    """What its key is made of, in words, to say what is different."""
    schema: int = SCHEMA

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.files.values()) + len(self.document)


class _Sealed(msgspec.Struct, frozen=True):
    sha256: str
    record: msgspec.Raw


def write(folder: Path, record: Record) -> None:
    inner = msgspec.json.encode(record)
    sealed = _Sealed(hashlib.sha256(inner).hexdigest(), msgspec.Raw(inner))
    (folder / FILE).write_bytes(msgspec.json.encode(sealed))


def read(folder: Path) -> Record:
    """Raises DamagedError, or FileNotFoundError if there is no record."""
    content = (folder / FILE).read_bytes()
    try:
        sealed = msgspec.json.decode(content, type=_Sealed)
        inner = bytes(sealed.record)
        if hashlib.sha256(inner).hexdigest() != sealed.sha256:
            raise DamagedError(f"{FILE} is not what was written")
        record = msgspec.json.decode(inner, type=Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"{FILE} cannot be read: {error}") from None
    if record.schema != SCHEMA or not all(_is_plain(name) for name in record.files):
        raise DamagedError(f"{FILE} is of another version")
    return record


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts
