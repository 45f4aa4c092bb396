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
from urllib.parse import quote

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import DiskFullError, EdgeoptError, UsageError, no_room
from edgeopt_agent.data_dir import free_name
from edgeopt_agent.deployments.record import Detail, Moment, Record
from edgeopt_agent.deployments.states import FINAL, State
from edgeopt_agent.journal_file import SCHEMA, TABLES, damage_of_file, definitions, is_of_the_disk, text_of

KEPT_EVENTS = 20_000
MAX_EVENTS_AT_ONCE = 500
KEPT_REFUSED = 50
log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

# Of the deployments `d`, those after the last of their release in one of the states.
_SINCE = (
    "id > (SELECT coalesce(max(id), 0) FROM deployments WHERE release = d.release AND release != '' "
    "AND state IN (?, ?))"
)


class JournalError(EdgeoptError):
    code = "journal"


class JournalFullError(JournalError):
    """A write to the journal that failed because its disk is full."""

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
    """The journal of deployments and events; its SQL runs on its own thread: serving never waits for the disk."""

    def __init__(self, path: Path) -> None:
        """Opens it; one that is damaged is set aside, and one that cannot be written is read into memory."""
        self.set_aside = ""
        """Reason why the history is lost, and the path of the damaged file; empty if it is not."""
        self.unwritable = ""
        """Reason why the journal is in memory alone at the moment; empty if it is not."""
        self._unwritten: set[int] = set()
        self._closed = False
        self._path = path
        self._writer = ThreadPoolExecutor(1, "journal")
        self._changed = asyncio.Event()
        self._db = self._writer.submit(self._open).result()
        self.last_seq = self._writer.submit(self._newest).result()

    async def begin(self, record: Record, hold: bool = False) -> Record:
        """Gives a new deployment its number and writes it down."""
        return await self._run(lambda: self._written(lambda: self._commit(record, new=True), hold))

    async def write(self, record: Record, hold: bool = False) -> Record:
        """Writes a deployment's new state; what belongs to it may happen afterwards.

        With `hold`, what the disk does not take is held in memory, where every view finds it, until it does.
        """
        return await self._run(lambda: self._written(lambda: self._commit(record), hold))

    async def note(self, state: str, release: str, reason: str) -> None:
        """Writes what happened to the serving worker outside any deployment."""
        entry = Entry(0, time.time(), 0, release, "worker", state, reason)
        await self._run(lambda: self._written(lambda: self._append(entry), hold=True))

    async def events(self, after: int, wait_s: float = 0.0) -> list[Entry]:
        """Returns the events after a number, oldest first; waits up to this time for the first one."""
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
        """Returns the releases that failed and have not been committed since, each with its failed deployment."""
        return await self._run(self._quarantined)

    async def highest_sequence(self) -> int:
        """Returns the highest sequence number of the committed releases; 0 if none was signed with a number."""
        records = await self._run(lambda: self._records("WHERE state = ?", State.COMMITTED))
        return max((record.sequence for record in records), default=0)

    async def succession(self) -> list[str]:
        """Returns the releases that served, the present one last, without those that a rollback left."""
        return await self._run(self._succession)

    async def garbage(self, used: set[str | None]) -> set[str]:
        """Returns the releases of ended deployments that are no longer used; keeps those unknown to the journal.

        The release that the last rollback left stays too, until the next deployment.
        """
        records = await self._run(lambda: self._records("ORDER BY id"))
        used = used | {record.release for record in records if not record.final} | {_left(records)}
        return {record.release for record in records if record.release} - used

    async def committed(self) -> list[str]:
        """Returns the releases that ever served, the last first."""
        found = await self._run(lambda: self._records("WHERE state = ? ORDER BY id DESC", State.COMMITTED))
        return list(dict.fromkeys(record.release for record in found if record.release))

    async def refused(self) -> list[Record]:
        """Returns the newest sent bundles that do not serve, each with its last deployment, the newest first."""
        found = await self._run(
            lambda: self._records(
                f"AS d WHERE state IN (?, ?) AND {_SINCE} ORDER BY id DESC LIMIT ?",
                State.FAILED,
                State.ROLLED_BACK,
                State.COMMITTED,
                State.SOAKING,
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
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._writer, self._db.close)
        self._writer.shutdown(wait=False)

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        if self._closed:
            raise JournalError(
                f"The journal {self._path} is closed.", "Its model was removed, or the agent stops."
            )
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
        try:
            if (damage := damage_of_file(self._path)) or (damage := self._damage()):
                self._put_aside(damage)
            return self._connect()
        except (OSError, sqlite3.Error) as error:  # a full disk, say: no reason not to serve
            return self._in_memory(error)

    def _damage(self) -> str:
        """Returns what is wrong with the file itself; empty also if the disk keeps it from being opened."""
        try:
            self._connect().close()
        except sqlite3.Error as error:
            return "" if is_of_the_disk(error) else str(error)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return str(error)
        return ""

    def _in_memory(self, error: Exception) -> sqlite3.Connection:
        """Copies what can be read of the journal to memory."""
        self.unwritable = (
            f"The journal {self._path} cannot be written: {error}. Free some space and check the disk."
        )
        log.error("%s", self.unwritable)
        db = sqlite3.connect(":memory:", check_same_thread=False)
        db.executescript(TABLES)
        for how in ("mode=ro", "mode=ro&immutable=1"):  # the second does without files beside it
            address = f"file:{quote(str(self._path))}?{how}"
            with (
                contextlib.suppress(sqlite3.Error),
                contextlib.closing(sqlite3.connect(address, uri=True)) as found,
                db,
            ):
                found.text_factory = text_of
                for table in ("deployments", "events"):
                    for row in found.execute(f"SELECT * FROM {table}"):  # noqa: S608 - our own names
                        db.execute(_replace(table, row), row)
                break
        return db

    def _written(self, work: Callable[[], Answer], hold: bool) -> Answer:
        """Runs `work`, which writes to the disk; with `hold`, writes to memory as long as the disk fails."""
        try:
            if self.unwritable:
                self._return_to_disk()
            return work()
        except sqlite3.Error as error:
            if not hold:
                raise
            if not self.unwritable:
                full, self._db = self._db, self._in_memory(error)
                full.close()
            return work()

    def _return_to_disk(self) -> None:
        db = self._connect()
        try:
            with db:
                for number in self._unwritten:
                    for row in self._db.execute("SELECT * FROM deployments WHERE id = ?", (number,)):
                        db.execute(_replace("deployments", row), row)
                last = db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
                for row in self._db.execute("SELECT * FROM events WHERE seq > ?", last):
                    db.execute(_replace("events", row), row)
        except BaseException:
            db.close()
            raise
        self._db.close()
        self._db, self.unwritable = db, ""
        self._unwritten.clear()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, check_same_thread=False, timeout=1.0)
        db.text_factory = text_of
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            found = db.execute("PRAGMA quick_check").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            self._check_tables(db)
            for row in db.execute("SELECT record FROM deployments"):  # a flipped bit here is sound SQL
                msgspec.json.decode(row[0], type=thread_safe(Record))
            with contextlib.suppress(sqlite3.OperationalError), db:  # shortening can wait until the disk has room
                db.execute("DELETE FROM events WHERE seq <= (SELECT max(seq) FROM events) - ?", (KEPT_EVENTS,))
        except BaseException:
            db.close()
            raise
        return db

    def _check_tables(self, db: sqlite3.Connection) -> None:
        """Makes the tables of a new journal; raises for those of a newer agent, and for damaged ones."""
        version = db.execute("PRAGMA user_version").fetchone()[0]
        found = definitions(db)
        if not found and version == 0:
            db.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
            return
        with contextlib.closing(sqlite3.connect(":memory:")) as ours:
            ours.executescript(TABLES)
            same = found == definitions(ours)
        if version > SCHEMA and not same:
            raise UsageError(
                f"The journal {self._path} was written by a newer edgeopt-agent.", "Use that one, or newer."
            )
        if not same:
            raise sqlite3.DatabaseError("a table is missing or damaged")
        if version != SCHEMA:  # a newer one would have other tables: the number is damaged
            db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _put_aside(self, why: str) -> None:
        aside = free_name(self._path)
        self._path.rename(aside)
        with contextlib.suppress(FileNotFoundError):  # the newest entries, which belong to it
            self._path.with_name(f"{self._path.name}-wal").rename(aside.with_name(f"{aside.name}-wal"))
        self._path.with_name(f"{self._path.name}-shm").unlink(missing_ok=True)
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
        if self.unwritable:
            self._unwritten.add(record.id)
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
            "SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (after, MAX_EVENTS_AT_ONCE)
        )
        return [_entry(row) for row in rows]

    def _records(self, where: str, *values: object) -> list[Record]:
        rows = self._db.execute(f"SELECT record FROM deployments {where}", values)  # noqa: S608 - our own text
        return [msgspec.json.decode(row[0], type=thread_safe(Record)) for row in rows]

    def _succession(self) -> list[str]:
        chain: list[str] = []
        for record in self._records("WHERE state = ? ORDER BY id", State.COMMITTED):
            release = record.release
            if record.kind == "rollback" and release in chain:
                del chain[chain.index(release) + 1 :]
            else:
                gone = {release, record.old} if record.kind == "rollback" else {release}
                chain = [*(each for each in chain if each not in gone), release]
        return chain

    def _quarantined(self) -> dict[str, Record]:
        rows = self._records(f"AS d WHERE fault AND {_SINCE} ORDER BY id", State.COMMITTED, State.COMMITTED)
        return {record.release: record for record in rows if record.release}


def _left(records: list[Record]) -> str | None:
    """Returns the release that the last rollback replaced, if nothing was deployed since."""
    serving, left = "", None
    for record in records:
        if record.state is State.COMMITTED and record.release != serving:
            serving, left = record.release, record.old if record.kind == "rollback" else None
    return left


def _entry(row: tuple[object, ...]) -> Entry:
    """Returns one row as an entry; for a damaged row, an entry that says so."""
    seq, *others, detail = row
    try:
        fields = dict(zip(("time_s", "deployment", "release", "kind", "state", "reason"), others, strict=True))
        if not isinstance(detail, str):
            raise msgspec.ValidationError("no text")
        return msgspec.convert({"seq": seq, **fields, "detail": msgspec.json.decode(detail)}, thread_safe(Entry))
    except msgspec.MsgspecError as error:
        message = f"This entry of the journal is damaged and was skipped: {error}."
        return Entry(int(str(seq)), 0.0, 0, "", "journal", "DAMAGED", message)


def _replace(table: str, row: tuple[object, ...]) -> str:
    return f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})"  # noqa: S608 - our own names


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
