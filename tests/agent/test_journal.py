import asyncio
import sqlite3
import threading

import msgspec
import pytest

from edgeopt.errors import UsageError
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.states import State
from edgeopt_agent.journal import Journal, JournalError


def run(path, work):
    """Runs a coroutine function on an open journal."""

    async def opened():
        journal = Journal(path)
        try:
            return await work(journal)
        finally:
            await journal.close()

    return asyncio.run(opened())


def changed(record, **changes):
    return msgspec.structs.replace(record, **changes)


async def ended(journal, state, **more):
    record = await journal.begin(Record(id=0, **more))
    return await journal.write(changed(record, state=state))


def test_it_remembers_deployments_and_events_over_a_restart(tmp_path):
    async def write(journal):
        record = await journal.begin(Record(id=0, release="abc", force=True))
        return await journal.write(
            changed(record, state=State.RECEIVING, reason="why", detail={"latency_ms": 1.5})
        )

    async def read(journal):
        return await journal.deployment(1), await journal.newest_deployment(), await journal.events(0)

    written = run(tmp_path / "state.db", write)
    found, newest, events = run(tmp_path / "state.db", read)
    assert found == newest == written
    assert [moment.state for moment in found.history] == ["ACCEPTED", "RECEIVING"]
    assert [(e.seq, e.deployment, e.state, e.reason) for e in events] == [
        (1, 1, "ACCEPTED", ""),
        (2, 1, "RECEIVING", "why"),
    ]
    assert events[1].detail == {"latency_ms": 1.5}


def test_every_write_is_on_the_disk_before_it_returns(tmp_path):
    async def look(journal):
        await journal.begin(Record(id=0))
        with sqlite3.connect(tmp_path / "state.db") as other:
            count = other.execute("SELECT count(*) FROM events").fetchone()[0]
        other.close()
        return (
            count,
            journal._db.execute("PRAGMA synchronous").fetchone(),
            journal._db.execute("PRAGMA journal_mode").fetchone(),
        )

    assert run(tmp_path / "state.db", look) == (1, (2,), ("wal",))


def test_a_release_is_quarantined_by_its_own_fault_until_it_is_committed(tmp_path):
    async def look(journal):
        await ended(journal, State.FAILED, release="bad", fault=True, reason="NaN")
        await ended(journal, State.FAILED, release="bad", reason="refused")
        await ended(journal, State.FAILED, release="unlucky")
        await ended(journal, State.ROLLED_BACK, release="mended", fault=True)
        await ended(journal, State.COMMITTED, release="mended")
        await ended(journal, State.FAILED, release="", fault=True)
        return await journal.quarantined()

    found = run(tmp_path / "state.db", look)
    assert {name: record.reason for name, record in found.items()} == {"bad": "NaN"}


def test_the_newest_refusals_are_listed_until_the_release_serves(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.journal.KEPT_REFUSED", 3)

    async def look(journal):
        await ended(journal, State.FAILED, name="oldest.edgeopt", reason="damaged")
        await ended(journal, State.FAILED, release="later", reason="not signed")
        await ended(journal, State.COMMITTED, release="later")
        await ended(journal, State.FAILED, release="unsigned", reason="not signed")
        await ended(journal, State.ROLLED_BACK, release="slow", reason="too few requests")
        await ended(journal, State.FAILED, release="soaks", reason="another device")
        await ended(journal, State.SOAKING, release="soaks")
        await ended(journal, State.FAILED, release="unsigned", reason="signed by another key")
        return await journal.refused()

    found = run(tmp_path / "state.db", look)
    assert [(record.release, record.reason) for record in found] == [
        ("unsigned", "signed by another key"),
        ("slow", "too few requests"),
    ]


def test_a_journal_on_a_full_disk_says_where_there_is_no_room(tmp_path):
    async def look(journal):
        def full():
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        with pytest.raises(JournalError, match=r"no room for '.*state\.db'") as raised:
            await journal._run(full)
        return raised.value.code

    assert run(tmp_path / "state.db", look) == "disk-full"


def test_who_waits_for_events_hears_at_once(tmp_path):
    async def look(journal):
        waiting = asyncio.create_task(journal.events(0, wait_s=3600))
        await asyncio.sleep(0)
        await journal.note("CRASHED", "abc", "why")
        return await asyncio.wait_for(waiting, 60)

    events = run(tmp_path / "state.db", look)
    assert [(e.kind, e.state, e.release) for e in events] == [("worker", "CRASHED", "abc")]


def test_a_wait_ends_without_events_when_its_time_is_up_or_the_agent_stops(tmp_path):
    async def look(journal):
        short = await journal.events(0, wait_s=0.01)
        waiting = asyncio.create_task(journal.events(0, wait_s=3600))
        await asyncio.sleep(0)
        journal.wake()
        return short, await asyncio.wait_for(waiting, 60)

    assert run(tmp_path / "state.db", look) == ([], [])


def test_a_question_to_a_closed_journal_is_refused_with_a_sentence(tmp_path):
    async def ask_late():
        journal = Journal(tmp_path / "state.db")
        await journal.begin(Record(id=0))
        closing = asyncio.create_task(journal.close())
        await asyncio.sleep(0)
        for ask in (journal.quarantined, lambda: journal.events(0), lambda: journal.note("SERVING", "a", "")):
            with pytest.raises(JournalError, match="is closed"):
                await ask()
        await closing
        with pytest.raises(JournalError, match="is closed"):
            await journal.unfinished()

    asyncio.run(ask_late())


def test_a_slow_disk_does_not_hold_up_the_event_loop(tmp_path):
    """The writer's thread is held for as long as the loop takes to do something else."""

    async def look(journal):
        gate = threading.Event()
        held = journal._writer.submit(gate.wait)
        writing = asyncio.create_task(journal.note("CRASHED", "abc", "why"))
        await asyncio.sleep(0)
        before = writing.done()
        gate.set()
        await writing
        return before, held.result()

    assert run(tmp_path / "state.db", look) == (False, True)


@pytest.mark.parametrize("content", [b"no database at all " * 500, b""])
def test_a_damaged_one_is_set_aside_and_said(tmp_path, content):
    path = tmp_path / "state.db"
    path.write_bytes(content)

    async def look(journal):
        await journal.note("SERVING", "abc", "")
        return journal.set_aside

    assert "state.db.damaged-1; its history is lost" in run(path, look)
    assert (tmp_path / "state.db.damaged-1").read_bytes() == content
    path.write_bytes(content)
    assert "state.db.damaged-2" in run(path, look)


def test_one_of_a_newer_agent_is_not_touched(tmp_path):
    with sqlite3.connect(tmp_path / "state.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(UsageError, match="newer edgeopt-agent"):
        Journal(tmp_path / "state.db")


def test_a_journal_that_cannot_be_written_is_a_sentence(tmp_path):
    async def look(journal):
        await journal._run(lambda: journal._db.execute("PRAGMA query_only = 1"))
        with pytest.raises(JournalError, match=r"cannot be used: attempt to write a readonly database"):
            await journal.begin(Record(id=0))

    run(tmp_path / "state.db", look)


def test_one_whose_records_do_not_read_is_set_aside_too(tmp_path):
    """What a flipped bit does where SQLite itself sees nothing wrong."""
    path = tmp_path / "state.db"
    run(path, lambda journal: ended(journal, State.COMMITTED))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE deployments SET record = replace(record, 'COMMITTED', 'COMMITUED')")
    db.close()

    async def look(journal):
        return journal.set_aside, await journal.newest_deployment()

    said, newest = run(path, look)
    assert "its history is lost" in said
    assert newest is None


def test_no_flipped_bit_keeps_it_from_being_opened(tmp_path):
    path = tmp_path / "state.db"
    run(path, lambda journal: ended(journal, State.COMMITTED, release="abc"))
    sound = path.read_bytes()

    async def use(journal):
        assert journal.unwritable == ""
        await journal.events(0)
        await journal.quarantined()
        return await ended(journal, State.COMMITTED)

    places = [*range(0, 100, 2), *range(100, len(sound), 997)]
    for place in places:
        for file in tmp_path.iterdir():
            file.unlink()
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << place % 8]) + sound[place + 1 :])
        assert run(path, use).final


@pytest.mark.parametrize("table", ["events", "deployments"])
def test_one_without_a_table_is_set_aside(tmp_path, table):
    path = tmp_path / "state.db"
    run(path, lambda journal: ended(journal, State.COMMITTED))
    with sqlite3.connect(path) as db:
        db.execute(f"DROP TABLE {table}")
    db.close()

    async def look(journal):
        await ended(journal, State.COMMITTED)
        return journal.set_aside

    assert "state.db.damaged-1" in run(path, look)


def test_a_damaged_entry_is_skipped_and_said(tmp_path):
    async def look(journal):
        await ended(journal, State.COMMITTED)
        with sqlite3.connect(tmp_path / "state.db") as db:
            db.execute("UPDATE events SET detail = '{\"a' WHERE seq = 1")
        db.close()
        return await journal.events(0)

    damaged, sound = run(tmp_path / "state.db", look)
    assert (damaged.seq, damaged.state) == (1, "DAMAGED")
    assert "is damaged and was skipped" in damaged.reason
    assert sound.state == "COMMITTED"


def test_what_a_full_disk_does_not_take_is_held_until_it_does(tmp_path):
    path = tmp_path / "state.db"

    async def look(journal):
        record = await journal.begin(Record(id=0, release="abc"))
        with sqlite3.connect(path) as db:
            db.execute("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'full'); END")
            with pytest.raises(JournalError):
                await journal.write(changed(record, state=State.FAILED))
            held = await journal.write(changed(record, state=State.FAILED), hold=True)
            assert await journal.deployment(1) == await journal.newest_deployment() == held
            assert [entry.state for entry in await journal.events(0)] == ["ACCEPTED", "FAILED"]
            assert "cannot be written" in journal.unwritable
            db.execute("DROP TRIGGER full")
        db.close()
        await journal.begin(Record(id=0))
        assert journal.unwritable == ""

    async def read(journal):
        return [entry.state for entry in await journal.events(0)], (await journal.deployment(1)).state

    run(path, look)
    assert run(path, read) == (["ACCEPTED", "FAILED", "ACCEPTED"], "FAILED")
