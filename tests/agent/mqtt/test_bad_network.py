"""Days without the broker, a broker that comes and goes, and downloads that break."""

import asyncio
import random
import sqlite3
import time
from contextlib import closing

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.fleet.mqtt_documents import DeviceEvent, TelemetryReport
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt_agent.mqtt.outbox import Outbox
from tests.agent.deployments.fetching import RETRIES, digest_of
from tests.agent.mqtt.test_desired import committed
from tests.broker import Client

HOUR_S = 3600.0
AWAY_S = 72 * HOUR_S
REPORT = TelemetryReport(1, 0, 0.0, 60.0, {"load_percent": 5.0}, {"null": {"requests": 600.0, "p99_ms": 1.5}})
OUTBOX_BYTES = 64 << 10


def outbox_bytes(agent):
    """What waits in the outbox, as the agent counts it."""
    with closing(sqlite3.connect(agent.data_dir / "outbox.db")) as db:
        return db.execute("SELECT coalesce(sum(length(payload) + 64), 0) FROM outbox").fetchone()[0]


async def fill(file, max_bytes):
    """A report each minute for 75 hours that end now, and a deployment at their begin; how much waits then."""
    now_s = time.time()
    clock = [0.0]
    outbox = Outbox(file, max_bytes, AWAY_S, lambda: clock[0])
    for minute in range(75 * 60):
        clock[0] = now_s - 75 * HOUR_S + minute * 60
        if minute == 0:
            outbox.add(DeviceEvent(1, 0, clock[0], "", 1, "deploy", "COMMITTED"))
        outbox.add(REPORT)
        await outbox.oldest(1)  # it takes the time once it writes
    waiting = await outbox.oldest(10_000)
    await outbox.close()
    return [each.number for each in waiting]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_72_hours_of_telemetry_arrive_in_order_when_the_broker_is_back(
    make_broker, start_device, make_client, topics, serve_bundle, new_bundle
):
    broker = make_broker()
    client = make_client(broker, topics)
    server, digest = serve_bundle(new_bundle)
    agent = start_device(broker.url, server)
    client.presence("online")
    agent.stop()
    waiting = asyncio.run(fill(agent.data_dir / "outbox.db", 64 << 20))
    assert len(waiting) == 1 + 72 * 60 + 1  # the event, and the reports that are not older
    client.desire(1, server.url, digest)
    start_device(broker.url, server)
    client.reported(lambda each: committed(each, 1))

    def arrived():
        """The numbers of what was waiting, as they came."""
        numbers = [each["number"] for each in client.of(topics.event) + client.of(topics.telemetry)]
        return set(waiting) <= set(numbers)

    client.until(arrived, "what was waiting")
    reports = [each["number"] for each in client.of(topics.telemetry)]
    assert reports == sorted(set(reports))
    assert len(server.requests) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_devices_follow_the_newest_state_through_a_flapping_broker_and_cut_downloads(
    make_broker, start_agent, make_client, serve_bundle, make_null_bundle, tmp_path
):
    chance = random.Random(56)  # noqa: S311 - no secret
    broker = make_broker()
    bundles = [make_null_bundle(model={"noise": 0.125 * (number + 1)}) for number in range(6)]
    servers = [serve_bundle(each)[0] for each in bundles]
    cuts = 0
    for server in servers:
        for _ in range(20):
            cut = chance.random() < 0.1
            server.plans.append({"cut": chance.randrange(1, len(server.content))} if cut else {})
    devices = {}
    for name in ("camera-1", "camera-2", "camera-3"):
        table = {
            "url": broker.url, "device": name, "telemetry_s": 0.05, "outbox_bytes": OUTBOX_BYTES,
            "reconnect_s": 0.05, "reconnect_most_s": 0.5,
        }  # fmt: skip
        fetch = {"fetch_from": [each.prefix for each in servers], **RETRIES}
        agent = start_agent(data_dir=tmp_path / name, mqtt=table, **fetch)
        devices[name] = agent
    for sequence, server in enumerate(servers, 1):

        def desire(sequence=sequence, server=server):
            for name in devices:
                with closing(Client(broker, Topics("default", name))) as client:
                    client.desire(sequence, server.url, digest_of(server.content))

        desire()
        for _ in range(chance.randrange(1, 4)):
            time.sleep(chance.uniform(0, 0.5))
            broker.stop(kill=chance.random() < 0.5)
            time.sleep(chance.uniform(0, 0.5))
            broker.start()
        desire()  # as a rollout does when it goes on: a broker that was killed has forgotten it
    for name, agent in devices.items():
        client = make_client(broker, Topics("default", name))
        report = client.reported(lambda each: committed(each, len(servers)))
        assert report["status"]["serving"]["release"] == release_id(bundles[-1])
        refused = report["refused"]  # a broker that was killed may come back with an older state
        assert refused is None or (refused["code"] == "replayed" and refused["sequence"] < len(servers))
        assert agent.status()["serving"]["release"] == release_id(bundles[-1])
        agent.serves(bundles[-1])
        _, _, journal = agent.ask("GET", "/api/v1/events?after=0")
        committed_releases = [each["release"] for each in journal["events"] if each["state"] == "COMMITTED"]
        assert len(committed_releases) == len(set(committed_releases))
        begun = {each["deployment"] for each in journal["events"] if each["deployment"] is not None}
        assert len(begun) <= len(servers)
        assert outbox_bytes(agent) <= OUTBOX_BYTES
    for server in servers:
        cuts += sum(sent < len(server.content) for sent in server.sent)
    assert cuts
