"""The journal: what the agent is about to do, on the disk before it does it."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from edgeopt.errors import DiskFullError, EdgeoptError, UsageError, no_room
from edgeopt_agent.data_dir import free_name
from edgeopt_agent.deployments.record import Detail, Moment, Record
from edgeopt_agent.deployments.states import FINAL, State

SCHEMA = 1
KEPT_EVENTS = 20_000
MOST_EVENTS_AT_ONCE = 500
KEPT_REFUSED = 50
log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

_TABLES = """
CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, time_s REAL NOT NULL, deployment INTEGER NOT NULL,
    release TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE deployments (id INTEGER PRIMARY KEY AUTOINCREMENT, release TEXT NOT NULL, state TEXT NOT NULL,
    fault INTEGER NOT NULL, record TEXT NOT NULL);
CREATE INDEX by_release ON deployments (release, id);
"""
# Of the deployments `d`, those after the last that put their release into service.
_SINCE_COMMITTED = (
    "id > (SELECT coalesce(max(id), 0) FROM deployments WHERE release = d.release AND release != '' AND state = ?)"
)


class JournalError(EdgeoptError):
    code = "journal"


class JournalFullError(JournalError):
    """It could not be written as its disk is full."""

    code = DiskFullError.code

    def __init__(self, full: DiskFullError) -> None:
        super().__init__(full.message, full.hint)


class Entry(msgspec.Struct, frozen=True):
    """One line of the journal."""

    seq: int
    time_s: float
    deployment: int
    release: str
    kind: str
    state: str
    reason: str
    detail: Detail = {}


class Journal:
    """All of its SQL runs on one thread of its own: serving never waits for the disk."""

    def __init__(self, path: Path) -> None:
        """Opens it; one that is damaged is set aside, and `set_aside` says so."""
        self.set_aside = ""
        self._path = path
        self._writer = ThreadPoolExecutor(1, "journal")
        self._changed = asyncio.Event()
        self._db = self._writer.submit(self._open).result()
        self.last_seq = self._writer.submit(self._newest).result()

    async def begin(self, record: Record) -> Record:
        """Gives a new deployment its number and writes it down."""
        return await self._run(lambda: self._commit(record, new=True))

    async def write(self, record: Record) -> Record:
        """Writes a deployment's new state; what belongs to it may happen afterwards."""
        return await self._run(lambda: self._commit(record))

    async def note(self, state: str, release: str, reason: str) -> None:
        """Writes what happened to the serving worker outside any deployment."""
        entry = Entry(0, time.time(), 0, release, "worker", state, reason)
        await self._run(lambda: self._append(entry))

    async def events(self, after: int, wait_s: float = 0.0) -> list[Entry]:
        """The events after a number, oldest first; waits so long for the first of them."""
        deadline = time.monotonic() + wait_s
        while self.last_seq <= after and (left := deadline - time.monotonic()) > 0:
            changed = self._changed
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), left)
            if self._changed is changed:  # nothing was written: the time is up, or the agent stops
                break
        return await self._run(lambda: self._events(after))

    async def deployment(self, number: int) -> Record | None:
        found = await self._run(lambda: self._records("WHERE id = ?", number))
        return found[0] if found else None

    async def newest_deployment(self) -> Record | None:
        found = await self._run(lambda: self._records("ORDER BY id DESC LIMIT 1"))
        return found[0] if found else None

    async def unfinished(self) -> list[Record]:
        final = ", ".join(f"'{state}'" for state in FINAL)
        return await self._run(lambda: self._records(f"WHERE state NOT IN ({final}) ORDER BY id"))

    async def quarantined(self) -> dict[str, Record]:
        """The releases that failed and have not been committed since, each with its failed deployment."""
        return await self._run(self._quarantined)

    async def in_service(self) -> tuple[str | None, str | None]:
        """The release that serves and the one before it, as the deployments that ended have left them."""
        return await self._run(self._in_service)

    async def garbage(self, used: set[str | None]) -> set[str]:
        """The releases of deployments that ended and are used no more; what the journal does not name stays."""
        records = await self._run(lambda: self._records(""))
        used = used | {record.release for record in records if not record.final}
        return {record.release for record in records if record.release} - used

    async def refused(self) -> list[Record]:
        """The newest bundles that were sent and do not serve, each with its last deployment, the newest first."""
        found = await self._run(
            lambda: self._records(
                f"AS d WHERE state IN (?, ?) AND {_SINCE_COMMITTED} ORDER BY id DESC LIMIT ?",
                State.FAILED,
                State.ROLLED_BACK,
                State.COMMITTED,
                KEPT_REFUSED,
            )
        )
        newest: dict[tuple[str, str], Record] = {}
        for record in found:
            if record.kind == "deploy":
                newest.setdefault((record.release, "" if record.release else record.name), record)
        return list(newest.values())

    def wake(self) -> None:
        """Ends every wait for events at once."""
        self._changed.set()

    async def close(self) -> None:
        await self._run(self._db.close)
        self._writer.shutdown(wait=False)

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        before = self.last_seq
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, work)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise JournalFullError(no_room(self._path)) from error
            raise JournalError(
                f"The journal {self._path} cannot be used: {error}.", "Free some space and check the disk."
            ) from error
        finally:
            if self.last_seq != before:
                self._changed.set()
                self._changed = asyncio.Event()

    # Everything below runs on the writer's thread.

    def _open(self) -> sqlite3.Connection:
        if self._path.exists() and self._path.stat().st_size == 0:
            self._put_aside("it is empty")
        try:
            return self._connect()
        except sqlite3.OperationalError as error:  # a full disk, say: no reason to lose the history
            raise JournalError(
                f"The journal {self._path} cannot be opened: {error}.", "Free some space and check the disk."
            ) from error
        except (sqlite3.DatabaseError, msgspec.DecodeError, UnicodeDecodeError) as error:
            self._put_aside(str(error))
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, check_same_thread=False, timeout=1.0)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            found = db.execute("PRAGMA quick_check").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA:
                raise UsageError(
                    f"The journal {self._path} was written by a newer edgeopt-agent.", "Use that one, or newer."
                )
            if version == 0:
                db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
            for row in db.execute("SELECT record FROM deployments"):  # a flipped bit here is sound SQL
                msgspec.json.decode(row[0], type=Record)
            with contextlib.suppress(sqlite3.OperationalError), db:  # shortening can wait until the disk has room
                db.execute("DELETE FROM events WHERE seq <= (SELECT max(seq) FROM events) - ?", (KEPT_EVENTS,))
        except BaseException:
            db.close()
            raise
        return db

    def _put_aside(self, why: str) -> None:
        aside = free_name(self._path)
        self._path.rename(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self.set_aside = f"The journal was damaged ({why}) and is now {aside.name}; its history is lost."
        log.warning("%s", self.set_aside)

    def _newest(self) -> int:
        row = self._db.execute("SELECT max(seq) FROM events").fetchone()
        return int(row[0] or 0)

    def _commit(self, record: Record, new: bool = False) -> Record:
        now = time.time()
        with self._db:
            if new:
                blank = (record.release, record.state, False, b"{}")
                record = msgspec.structs.replace(record, id=self._insert("deployments", blank))
            moment = Moment(record.state, now, record.reason)
            record = msgspec.structs.replace(record, history=(*record.history, moment))
            self._db.execute(
                "UPDATE deployments SET release = ?, state = ?, fault = ?, record = ? WHERE id = ?",
                (record.release, record.state, record.fault, _text(record), record.id),
            )
            entry = Entry(
                0, now, record.id, record.release, record.kind, record.state, record.reason, record.detail
            )
            seq = self._insert_event(entry)
        self.last_seq = seq
        return record

    def _append(self, entry: Entry) -> None:
        with self._db:
            seq = self._insert_event(entry)
        self.last_seq = seq

    def _insert_event(self, entry: Entry) -> int:
        values = (entry.time_s, entry.deployment, entry.release, entry.kind, entry.state, entry.reason)
        return self._insert("events", (*values, _text(entry.detail)))

    def _insert(self, table: str, values: tuple[object, ...]) -> int:
        places = ", ".join("?" * len(values))
        row = self._db.execute(f"INSERT INTO {table} VALUES (NULL, {places})", values).lastrowid  # noqa: S608 - our own names
        assert row is not None  # noqa: S101 - an INSERT gives one
        return row

    def _events(self, after: int) -> list[Entry]:
        rows = self._db.execute(
            "SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (after, MOST_EVENTS_AT_ONCE)
        )
        return [
            Entry(seq, time_s, number, release, kind, state, reason, msgspec.json.decode(detail, type=Detail))
            for seq, time_s, number, release, kind, state, reason, detail in rows
        ]

    def _records(self, where: str, *values: object) -> list[Record]:
        rows = self._db.execute(f"SELECT record FROM deployments {where}", values)  # noqa: S608 - our own text
        return [msgspec.json.decode(row[0], type=Record) for row in rows]

    def _in_service(self) -> tuple[str | None, str | None]:
        serving, previous = None, None
        for record in self._records("ORDER BY id"):
            if record.state is State.COMMITTED and record.release != serving:
                serving, previous = record.release, record.old
            elif record.state is State.ROLLED_BACK:
                serving, previous = record.old, record.old_previous
        return serving, previous

    def _quarantined(self) -> dict[str, Record]:
        rows = self._records(
            f"AS d WHERE fault AND {_SINCE_COMMITTED} ORDER BY id",
            State.COMMITTED,
        )
        return {record.release: record for record in rows if record.release}


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
