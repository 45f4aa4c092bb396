"""The journal's file: its tables, and what is damage in it and what a matter of the disk."""

import sqlite3
from pathlib import Path

SCHEMA = 1
_OF_THE_DISK = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM,
}  # fmt: skip
"""Errors that say nothing about the journal itself."""

TABLES = """
CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, time_s REAL NOT NULL, deployment INTEGER NOT NULL,
    release TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE deployments (id INTEGER PRIMARY KEY AUTOINCREMENT, release TEXT NOT NULL, state TEXT NOT NULL,
    fault INTEGER NOT NULL, record TEXT NOT NULL);
CREATE INDEX by_release ON deployments (release, id);
"""


def damage_of_file(path: Path) -> str:
    """Returns what is wrong with the first bytes of a file, if SQLite would take it for a failure of the disk."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        start = file.read(100)
    if not start:
        return "it is empty"
    # The versions of the format: with others, SQLite does not write, or does not open it.
    return "" if {*start[18:20]} <= {1, 2} else "its header is damaged"


def is_of_the_disk(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _OF_THE_DISK


def definitions(db: sqlite3.Connection) -> set[tuple[str, str]]:
    return set(
        db.execute("SELECT name, sql FROM sqlite_master WHERE name IN ('events', 'deployments', 'by_release')")
    )


def text_of(content: bytes) -> str:
    """Decodes a text, replacing invalid bytes: a flipped bit in one must not keep all others from being read."""
    return content.decode(errors="replace")
