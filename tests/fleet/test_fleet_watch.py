"""Following a fleet: what changed, told once, over a real Mosquitto."""

import os
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest

from edgeopt import events
from edgeopt.errors import MissingError
from edgeopt.fleet import rollout_commands
from edgeopt.fleet.devices import FleetView, described
from edgeopt.fleet.fleet_watch import FleetUpdate, follow
from edgeopt.fleet.mqtt_documents import TelemetryReport
from edgeopt.fleet.mqtt_topics import FleetTopics
from edgeopt.fleet.rollout_request import DevicesRequest, RolloutStartRequest
from tests.fleet.light_agents import LightFleet


class Ended(Exception):  # noqa: N818 - no error: the test has seen enough
    """Ends a watch from its `emit`."""


@pytest.fixture
def fleet(broker, request):
    running = LightFleet(broker.port, request.node.name)
    yield running
    running.close()


def updates_of(request, *steps):
    """Takes each step after an update, and returns all updates once there are as many as steps and one more."""
    found, left = [], list(steps)

    def emit(event):
        if isinstance(event, events.Update):
            found.append(msgspec.convert(event.data, FleetUpdate))
            if not left:
                raise Ended
            threading.Thread(target=left.pop(0)).start()  # the watch has this thread's event loop

    with pytest.raises(Ended):
        follow(request, emit)
    return found


def test_only_what_changed_is_told(broker, fleet):
    name = fleet._fleet
    fleet.add(["a", "b"])
    request = DevicesRequest(broker=broker.url, fleet=name)
    start = RolloutStartRequest(
        broker=broker.url,
        fleet=name,
        bundle="https://host/m.edgeopt",
        digest="sha256:" + "a" * 64,
        to="a",
        waves="1",
    )
    before_s = time.time()
    first, gone, after = updates_of(
        request,
        lambda: fleet.do(fleet.agents["b"].vanish()),
        lambda: rollout_commands.start(start, "r", events.ignore),
    )
    assert [(each.device, each.online) for each in first.devices] == [("a", True), ("b", True)]
    assert [(each.device, each.online) for each in gone.devices] == [("b", False)]
    assert gone.devices[0].since_s >= before_s - 1  # not in its last will, which was written before
    assert {each.device for each in after.devices} <= {"a"}
    assert [each.name for each in after.rollouts] == ["r"]
    assert first.rollouts == gone.rollouts == ()


def test_devices_are_unknown_and_not_offline_while_the_broker_is_away(make_broker):
    broker = make_broker()
    fleet = LightFleet(broker.port)
    fleet.add(["a", "b"])
    fleet.add(["off"], online=False)

    def restart():
        broker.start()
        fleet.connect_again()

    _, away, back = updates_of(DevicesRequest(broker=broker.url), broker.stop, restart)
    fleet.close()
    assert {each.device: each.online for each in away.devices} == {"a": True, "b": True, "off": False}
    assert all(each.unknown_since_s for each in away.devices)
    assert all(each.unknown_since_s is None and each.online == (each.device != "off") for each in back.devices)


def test_a_selection_follows_only_its_devices(broker, fleet):
    fleet.add(["a"], labels={"site": "north"})
    fleet.add(["b"], labels={"site": "south"})
    request = DevicesRequest(broker=broker.url, fleet=fleet._fleet, to="site=north")
    (first,) = updates_of(request)
    assert [each.device for each in first.devices] == ["a"]


def test_a_broker_that_is_not_there_at_first_is_an_error():
    with pytest.raises(MissingError, match="Connection refused"):
        follow(DevicesRequest(broker="mqtt://127.0.0.1:1"), events.ignore)


def test_the_command_tells_in_words_until_ctrl_c(broker, fleet):
    fleet.add(["a"])
    code = "from edgeopt.cli.main import main; main()"
    words = ["fleet", "devices", "--follow", "--broker", broker.url, "--fleet", fleet._fleet]
    begun = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert any("Connected to the broker" in line for line in begun.stderr)
    fleet.stop(["a"])
    assert any("a is offline." in line for line in begun.stderr)
    begun.send_signal(signal.SIGINT)
    begun.communicate(timeout=60)
    assert begun.returncode == 130


def test_latency_is_that_of_the_serving_model_in_the_last_telemetry():
    topics = FleetTopics()
    view = FleetView(topics)
    status = {"state": "serving", "serving": {"release": "1", "name": "m"}, "drift": {"state": "alarm"}}
    view.take(topics.device("a").reported, msgspec.json.encode({"session": 1, "time_s": 1.0, "status": status}))
    assert described("a", view.devices["a"]).latency_p50_ms is None
    report = TelemetryReport(1, 1, 2.0, 60.0, {}, {"m": {"latency_p50_ms": 4.5}, "other": {"latency_p50_ms": 9.0}})
    view.take(topics.device("a").telemetry, msgspec.json.encode(report))
    found = described("a", view.devices["a"])
    assert (found.latency_p50_ms, found.latency_ms, found.drift) == (4.5, None, "alarm")
