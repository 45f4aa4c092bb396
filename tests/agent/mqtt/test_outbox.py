"""What waits for the broker: order, caps, and what survives a full disk, damage and another start."""

import asyncio
import sqlite3

import pytest

from edgeopt.fleet.mqtt_documents import DeviceEvent, TelemetryReport
from edgeopt_agent.mqtt.outbox import Outbox

HOUR_S = 3600.0


def event(name):
    return DeviceEvent(1, 0, 0.0, "", 1, "deploy", name)


def telemetry(requests=0.0):
    return TelemetryReport(1, 0, 0.0, 60.0, {"load_percent": 5.0}, {"null": {"requests": requests}})


@pytest.fixture
def opened(tmp_path):
    """Runs something with an outbox in the folder of the test."""

    def run(work, max_bytes=1 << 20, max_s=72 * HOUR_S, now_s=lambda: 1000.0):
        async def inside():
            outbox = Outbox(tmp_path / "outbox.db", max_bytes, max_s, now_s)
            try:
                return await work(outbox)
            finally:
                await outbox.close()

        return asyncio.run(inside())

    return run


def kinds(waiting):
    return [each.kind for each in waiting]


def test_messages_keep_their_order_and_numbers_across_starts(opened):
    async def add(outbox):
        outbox.add(event("ACCEPTED"))
        outbox.add(telemetry())
        await outbox.oldest(1)

    async def finish(outbox):
        outbox.add(event("COMMITTED"))
        waiting = await outbox.oldest(10)
        await outbox.sent(waiting[1].number)
        return waiting, await outbox.oldest(10)

    async def number(outbox):
        outbox.add(event("FAILED"))
        return [each.number for each in await outbox.oldest(10)]

    opened(add)
    waiting, left = opened(finish)
    assert kinds(waiting) == ["event", "telemetry", "event"]
    assert [each.number for each in waiting] == [1, 2, 3]
    assert b'"number":3' in waiting[2].payload
    assert left == waiting[2:]
    assert opened(number) == [3, 4]


def test_oldest_telemetry_is_dropped_first_and_events_never(opened):
    async def fill(outbox):
        for count in range(400):
            outbox.add(event(f"STATE-{count}") if count % 100 == 0 else telemetry(count))
        return await outbox.oldest(1000), await outbox.size_bytes()

    waiting, size = opened(fill, max_bytes=10_000)
    assert size <= 10_000
    assert size == sum(len(each.payload) + 64 for each in waiting)
    assert kinds(waiting).count("event") == 4
    telemetries = [each.number for each in waiting if each.kind == "telemetry"]
    assert telemetries == list(range(401 - len(telemetries), 401))


def test_telemetry_is_dropped_after_72_hours_of_an_injected_clock(opened):
    clock = [0.0]

    async def hours(outbox):
        outbox.add(event("ACCEPTED"))
        for hour in range(100):
            clock[0] = hour * HOUR_S
            outbox.add(telemetry(hour))
            await outbox.oldest(1)
        return await outbox.oldest(1000)

    waiting = opened(hours, now_s=lambda: clock[0])
    assert kinds(waiting) == ["event"] + ["telemetry"] * 73


def test_damaged_file_is_set_aside_and_sessions_still_rise(opened, tmp_path):
    async def session(outbox):
        outbox.add(event("ACCEPTED"))
        await outbox.oldest(1)
        return await outbox.next_session()

    first = opened(session)
    (tmp_path / "outbox.db").write_bytes(b"not a database" * 100)
    for name in ("outbox.db-wal", "outbox.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert opened(session, now_s=lambda: 2000.0) > first
    assert any("damaged" in each.name for each in tmp_path.iterdir())


def test_messages_are_held_in_memory_while_the_disk_takes_nothing(opened, tmp_path):
    async def blocked(outbox):
        outbox.add(event("ACCEPTED"))
        await outbox.oldest(1)
        other = sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # another writer: nothing can be written
        outbox.add(event("FETCHING"))
        held = await outbox.oldest(10)
        other.execute("ROLLBACK")
        other.close()
        outbox.add(event("COMMITTED"))
        return held, await outbox.oldest(10)

    held, written = opened(blocked)
    assert [each.number for each in held] == [1, 2]
    assert [each.number for each in written] == [1, 2, 3]
    assert written[:2] == held


def test_what_happened_without_the_broker_arrives_in_order_and_nothing_is_deployed_twice(
    make_broker, start_device, make_client, topics, serve_bundle, new_bundle, old_bundle
):
    broker = make_broker()
    client = make_client(broker, topics)
    server, digest = serve_bundle(new_bundle)
    agent = start_device(broker.url, server, mqtt={"telemetry_s": 0.1, "outbox_bytes": 64 << 10})
    session = client.presence("online")["session"]
    client.desire(1, server.url, digest)
    client.reported(lambda each: each["status"]["state"] == "serving")
    broker.stop()
    before = len(client.seen)
    assert agent.deploy(old_bundle)["state"] == "COMMITTED"
    agent.serves(old_bundle)
    broker.start()  # the desired state is retained there and comes again
    client.presence("online", after=session)
    client.until(
        lambda: any(e["deployment"] == 2 and e["state"] == "COMMITTED" for e in client.of(topics.event)), "events"
    )
    client.ask("view", {"command": "status"})
    assert agent.status()["deployment"]["id"] == 2
    agent.serves(old_bundle)
    client.until(lambda: len(client.seen) > before + 20, "more telemetry")
    events = [each for each in client.of(topics.event) if each["deployment"] == 2]
    assert [each["state"] for each in events] == [
        *("ACCEPTED", "RECEIVING", "VERIFYING", "STAGED", "PROBING", "SWITCHING", "SOAKING", "COMMITTED")
    ]
    sent = sorted(client.of(topics.event) + client.of(topics.telemetry), key=lambda each: each["number"])
    numbers = sorted({each["number"] for each in sent})  # the last one before the broker went away may come twice
    assert numbers == list(range(1, len(numbers) + 1))
    numbers = [each["number"] for each in client.of(topics.telemetry)]
    assert numbers == sorted(numbers)
    report = client.of(topics.telemetry)[-1]
    assert report["models"]["null"]["process_memory_bytes"] > 0
    assert report["device"]["agent_memory_bytes"] > 0
