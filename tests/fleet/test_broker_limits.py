"""A client of more devices than its broker queues messages for it."""

import pytest

from edgeopt.errors import MissingError
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.mqtt_client import FleetClient
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt.fleet.rollout_request import DevicesRequest, RolloutStartRequest
from tests.broker import Broker, Client
from tests.fleet.light_agents import LightFleet

DEVICES = 40
GOOD = "sha256:" + "a" * 64


@pytest.fixture
def crowded(mosquitto, tmp_path):
    """Starts a broker with these settings and connects the devices to it."""
    running = []

    def start(settings, access="allow_anonymous true"):
        broker = Broker(tmp_path, settings, access)
        fleet = LightFleet(broker.port)
        running.append((broker, fleet))
        fleet.add([f"device-{number}" for number in range(DEVICES)], step_s=0.3)
        return broker, fleet

    yield start
    for broker, fleet in running:
        fleet.close()
        broker.stop()


def test_a_fleet_larger_than_the_queue_of_the_broker_is_refused(crowded):
    broker, fleet = crowded("max_inflight_messages 5\nmax_queued_messages 20")
    with pytest.raises(MissingError, match=r"25 came of edgeopt/v1/default/\+/status") as refused:
        commands.devices(DevicesRequest(broker=broker.url))
    assert "max_queued_messages" in refused.value.hint
    start = RolloutStartRequest(broker=broker.url, bundle="https://host/m.edgeopt", digest=GOOD, to="*")
    with pytest.raises(MissingError, match="the queue of a client is full"):
        commands.start(start, "r", lambda _: None)
    assert not any(each.orders for each in fleet.agents.values())


@pytest.mark.parametrize("settings", ["max_inflight_messages 5", "max_queued_messages 0"])
def test_all_devices_are_read_where_the_queue_has_room(crowded, settings):
    broker, _ = crowded(settings)
    assert len(commands.devices(DevicesRequest(broker=broker.url)).devices) == DEVICES


def test_a_user_who_may_only_read_sees_a_small_fleet(crowded, tmp_path, monkeypatch):
    rules = tmp_path / "rules"
    rules.write_text("topic readwrite edgeopt/v1/default/#\n\nuser viewer\ntopic read edgeopt/v1/default/#\n")
    rules.chmod(0o600)
    broker, _ = crowded("", f"allow_anonymous true\nacl_file {rules}")
    asking = DevicesRequest(broker=broker.url, username="viewer")
    assert len(commands.devices(asking).devices) == DEVICES
    monkeypatch.setattr("edgeopt.fleet.mqtt_client._SMALLEST_QUEUE", DEVICES)
    with pytest.raises(MissingError, match="may drop"):
        commands.devices(asking)


def test_a_client_leaves_no_message_on_the_broker(crowded):
    broker, _ = crowded("")
    commands.devices(DevicesRequest(broker=broker.url))
    client = Client(broker, Topics("default", "_clients"))
    client.publish(f"{client.topics.base}/end", b"1")
    client.until(lambda: client.seen, "the end")
    client.close()
    assert [topic for topic, _, _ in client.seen] == [f"{client.topics.base}/end"]


def test_a_queue_that_is_full_while_a_rollout_reads_again_does_not_end_it(crowded, monkeypatch):
    monkeypatch.setattr("edgeopt.fleet.rollout_driver._REREAD_S", 0.1)
    broker, _ = crowded("")
    retained, events, again = FleetClient.retained, [], []

    async def once_full(client, patterns):
        if events and not again:
            again.append(patterns)
            raise MissingError("The broker drops messages of the fleet.", "")
        return await retained(client, patterns)

    monkeypatch.setattr(FleetClient, "retained", once_full)
    asking = {"broker": broker.url, "to": "*", "waves": "1,rest", "device_timeout": 60.0}
    request = RolloutStartRequest(bundle="https://host/m.edgeopt", digest=GOOD, **asking)
    assert commands.start(request, "r", events.append).counts == {"done": DEVICES}
    assert again


def test_reports_that_the_broker_dropped_are_read_again(crowded, monkeypatch):
    monkeypatch.setattr("edgeopt.fleet.rollout_driver._REREAD_S", 0.5)
    broker, fleet = crowded("max_inflight_messages 5\nmax_queued_messages 40")

    waves = []

    def emit(event):
        """Keeps the client from reading until every device of the last wave has sent its reports."""
        if "begins" in getattr(event, "message", ""):
            waves.append(event)
        elif len(waves) == 2 and getattr(event, "kind", "") in {"rollout-deploying", "rollout-done"}:
            fleet.wait(lambda: set(fleet.serving().values()) == {GOOD[7:19]}, "the devices")

    asking = {"broker": broker.url, "to": "*", "waves": "1,rest", "device_timeout": 60.0}
    request = RolloutStartRequest(bundle="https://host/m.edgeopt", digest=GOOD, **asking)
    assert commands.start(request, "r", emit).counts == {"done": DEVICES}
    assert "being dropped" in broker.log
