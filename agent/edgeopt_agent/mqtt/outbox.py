"""Messages that wait on the disk for the broker, in order, and values that the agent remembers for its fleet."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from edgeopt.fleet.mqtt_documents import DeviceEvent, TelemetryReport
from edgeopt_agent.data_dir import free_name

log = logging.getLogger(__name__)
Kind = Literal["event", "telemetry"]
Answer = TypeVar("Answer")
_HELD = 1000
_OVERHEAD_BYTES = 64
"""Approximate size of each message beyond its payload."""
_TABLES = """
CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,
    time_s REAL NOT NULL, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS memory (name TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


class Waiting(msgspec.Struct, frozen=True):
    number: int
    kind: Kind
    payload: bytes


class Outbox:
    """The queue of messages on the disk; its SQL runs on a thread of its own, in the order of the calls.

    Over the caps, the oldest telemetry goes first. Events never go: deployments are few. What the disk does not
    take is held in memory until it does.
    """

    def __init__(self, path: Path, max_bytes: int, max_s: float, now_s: Callable[[], float] = time.time) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_s = max_s
        self._now_s = now_s
        self._held: list[tuple[int, Kind, float, bytes]] = []
        self._last = 0
        self._session = 0
        self._bytes = 0
        self.changed = asyncio.Event()
        """Set when something was added."""
        self._writer = ThreadPoolExecutor(1, "outbox")
        self._db = self._writer.submit(self._open).result()

    def add(self, document: DeviceEvent | TelemetryReport) -> None:
        """Returns at once; what was added before is sent before. The document gets its number here."""
        added = asyncio.get_running_loop().run_in_executor(self._writer, self._add, document)
        added.add_done_callback(lambda _: self.changed.set())

    async def oldest(self, count: int) -> list[Waiting]:
        return await self._run(lambda: self._oldest(count))

    async def sent(self, number: int) -> None:
        """Forgets this message and all before it."""
        await self._run(lambda: self._sent(number))

    async def size_bytes(self) -> int:
        return await self._run(lambda: self._bytes)

    async def recall(self, name: str) -> bytes | None:
        return await self._run(lambda: self._recall(name))

    async def remember(self, name: str, value: bytes) -> None:
        """Stores a value, and returns when it is on the disk; raises sqlite3.Error if that fails."""
        await self._run(lambda: self._remember(name, value))

    async def next_session(self) -> int:
        """Returns a number above all earlier ones, even if the file was lost, as long as the clock is right."""
        return await self._run(self._next_session)

    async def close(self) -> None:
        await self._run(self._db.close)
        self._writer.shutdown(wait=False)

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    # Everything below runs on the writer's thread.

    def _open(self) -> sqlite3.Connection:
        try:
            try:
                return self._connect(str(self._path))
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # the disk, not the file
                    raise
                aside = free_name(self._path)
                self._path.rename(aside)
                log.warning("The outbox was damaged (%s) and is now %s.", error, aside.name)
                return self._connect(str(self._path))
        except (OSError, sqlite3.Error) as error:  # no reason not to serve
            log.error("The outbox %s cannot be used: %s. It is kept in memory.", self._path, error)
            return self._connect(":memory:")

    def _connect(self, path: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, check_same_thread=False, timeout=1.0)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            # Telemetry need not survive a power loss; what is remembered asks for more.
            db.execute("PRAGMA synchronous = NORMAL")
            if (found := db.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(found)
            db.executescript(_TABLES)
            last = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'outbox'")
            self._last = int(last.fetchone()[0])
            row = db.execute("SELECT coalesce(sum(length(payload) + ?), 0) FROM outbox", (_OVERHEAD_BYTES,))
            self._bytes = int(row.fetchone()[0])
        except BaseException:
            db.close()
            raise
        return db

    def _add(self, document: DeviceEvent | TelemetryReport) -> None:
        self._last += 1
        kind: Kind = "event" if isinstance(document, DeviceEvent) else "telemetry"
        payload = msgspec.json.encode(msgspec.structs.replace(document, number=self._last))
        self._held.append((self._last, kind, self._now_s(), payload))
        try:
            with self._db:
                self._db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?)", self._held)
                self._bytes += sum(len(each[3]) + _OVERHEAD_BYTES for each in self._held)
                self._drop()
            self._held.clear()
        except sqlite3.Error as error:
            self._count()
            if len(self._held) > _HELD:
                self._held.remove(next((each for each in self._held if each[1] == "telemetry"), self._held[0]))
            log.warning("The outbox cannot be written: %s. %d messages are in memory.", error, len(self._held))

    def _drop(self) -> None:
        """Drops the telemetry that is too old or too much."""
        oldest = self._now_s() - self._max_s
        self._forget("kind = 'telemetry' AND time_s < ?", oldest)
        while self._bytes > self._max_bytes:
            row = self._db.execute("SELECT min(number) FROM outbox WHERE kind = 'telemetry'").fetchone()
            if row[0] is None:
                return
            self._forget("number = ?", row[0])

    def _forget(self, condition: str, *values: float) -> None:
        gone = self._db.execute(
            f"DELETE FROM outbox WHERE {condition} RETURNING length(payload)",  # noqa: S608 - our own words
            values,
        ).fetchall()
        self._bytes -= sum(row[0] + _OVERHEAD_BYTES for row in gone)

    def _count(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            row = self._db.execute("SELECT coalesce(sum(length(payload) + ?), 0) FROM outbox", (_OVERHEAD_BYTES,))
            self._bytes = int(row.fetchone()[0])

    def _oldest(self, count: int) -> list[Waiting]:
        rows = self._db.execute("SELECT number, kind, payload FROM outbox ORDER BY number LIMIT ?", (count,))
        held = (Waiting(number, kind, payload) for number, kind, _, payload in self._held)
        return [*(Waiting(*row) for row in rows), *held][:count]

    def _sent(self, number: int) -> None:
        self._held = [each for each in self._held if each[0] > number]
        with self._db:
            self._forget("number <= ?", number)

    def _recall(self, name: str) -> bytes | None:
        row = self._db.execute("SELECT value FROM memory WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def _remember(self, name: str, value: bytes) -> None:
        self._db.execute("PRAGMA synchronous = FULL")
        try:
            with self._db:
                self._db.execute("REPLACE INTO memory VALUES (?, ?)", (name, value))
        finally:
            self._db.execute("PRAGMA synchronous = NORMAL")

    def _next_session(self) -> int:
        """Returns the number of a new session, also if the disk cannot be read or written."""
        with contextlib.suppress(sqlite3.Error, ValueError):
            self._session = max(self._session, int(self._recall("session") or 0))
        self._session = max(self._session + 1, int(self._now_s()))
        with contextlib.suppress(sqlite3.Error):
            self._remember("session", str(self._session).encode())
        return self._session
