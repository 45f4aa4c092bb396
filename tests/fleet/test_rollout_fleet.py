"""Rollouts over a real Mosquitto, to light agents that speak the real protocol."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from edgeopt.bundle.sign import new_key
from edgeopt.cli.main import run
from edgeopt.errors import InputError, MissingError, UsageError, VerificationError
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.mqtt_topics import FleetTopics, Topics
from edgeopt.fleet.rollout_request import (
    DevicesRequest,
    RolloutControlRequest,
    RolloutPauseRequest,
    RolloutStartRequest,
    RolloutStatusRequest,
)
from tests.broker import DEADLINE_S, Client
from tests.fleet.light_agents import LightFleet

GOOD, BAD = "sha256:" + "a" * 64, "sha256:" + "b" * 64
URL = "https://host/model.edgeopt"
NEW, OLD = GOOD[7:19], "release-0"


@pytest.fixture
def fleet_name(request):
    """A fleet for each test: the broker is shared, and keeps what is retained."""
    return f"fleet-{abs(hash(request.node.nodeid))}"


@pytest.fixture
def fleet(broker, fleet_name):
    running = LightFleet(broker.port, fleet_name)
    yield running
    running.close()


@pytest.fixture
def asking(broker, fleet_name):
    """Makes requests to the fleet of the test."""

    def make(kind=RolloutControlRequest, **more):
        return kind(broker=broker.url, fleet=fleet_name, **more)

    return make


@pytest.fixture
def start(asking):
    def begin(name="r", digest=GOOD, emit=lambda _: None, **more):
        options = {"to": "*", "waves": "1,50%,rest"} | more
        return commands.start(asking(RolloutStartRequest, bundle=URL, digest=digest, **options), name, emit)

    return begin


def behaves(digest):
    return "roll back" if digest == BAD else "commit"


def names(count):
    return [f"d{k}" for k in range(count)]


def test_a_good_bundle_reaches_all_devices_in_waves_and_those_offline_later(fleet, start, asking):
    fleet.add(names(6), behaves)
    fleet.add(["off"], behaves, online=False)
    events = []
    report = start(emit=events.append)
    assert (report.phase, report.counts) == ("completed", {"done": 6, "ordered": 1})
    assert report.waves == (1, 4, 2)
    assert report.reason == "1 device is offline and follows when it is back"
    said = [each.message for each in events if getattr(each, "kind", "") == "rollout"]
    assert [each.split(" begins")[0] for each in said] == ["Wave 1 of 3", "Wave 2 of 3", "Wave 3 of 3", said[-1]]
    fleet.start(["off"])
    fleet.wait(lambda: set(fleet.serving().values()) == {NEW}, "the device that was offline")
    assert {len(each.orders) for each in fleet.agents.values()} == {1}
    after = commands.status(asking(RolloutStatusRequest, name="r"))
    assert (after.counts, after.phase, after.reason) == ({"done": 7}, "completed", "")


def test_a_bad_bundle_stops_in_wave_one_and_does_not_reach_devices_that_come_later(fleet, start):
    fleet.add(names(5), behaves)
    with pytest.raises(VerificationError) as stopped:
        start(digest=BAD)
    assert stopped.value.code == "rollout-stopped"
    assert "wave 1 of 3" in stopped.value.message
    assert "agrees to 3.1 dB" in stopped.value.message
    assert "fleet rollout rollback r" in stopped.value.hint
    assert sum(len(each.orders) for each in fleet.agents.values()) == 1


def test_a_slow_bundle_stops_where_latencies_are_limited(fleet, start):
    fleet.add(names(2), lambda digest: {"latency_ms": 10.0 if digest == GOOD else 15.0})
    start(name="first")
    with pytest.raises(VerificationError, match=r"50\.0 % slower"):
        start(name="second", digest=BAD, max_slowdown="20%")


@pytest.mark.parametrize("more", [{}, {"dry_run": True}])
def test_name_of_an_ended_rollout_is_refused_and_its_record_stays(fleet, start, asking, more):
    fleet.add(["d0", "d1"])
    start()
    before = commands.status(asking(RolloutStatusRequest, name="r"))
    with pytest.raises(UsageError, match="There is a rollout 'r' already; it is completed") as refused:
        start(digest="sha256:" + "c" * 64, **more)
    assert "another --name" in refused.value.hint
    assert commands.status(asking(RolloutStatusRequest, name="r")) == before
    back = commands.go_on(asking(name="r"), "rollback", lambda _: None)
    assert back.counts == {"rolled-back": 2}


def test_name_of_a_rollout_whose_state_cannot_be_read_is_refused(broker, fleet, fleet_name, start):
    fleet.add(["d0"])
    with contextlib.closing(Client(broker, Topics(fleet_name, "d0"))) as client:
        client.publish(FleetTopics(fleet_name).rollout("r"), b"{}", retain=True)
    with pytest.raises(UsageError, match="There is a rollout 'r' already; its state cannot be read"):
        start()


def test_another_client_goes_on_after_a_kill(broker, fleet, fleet_name, start, asking):
    held = threading.Event()
    fleet.add(names(6), lambda _: "commit" if held.is_set() else "hang")
    code = "from edgeopt.cli.main import main; main()"
    words = ["fleet", "rollout", "start", URL, "--digest", GOOD, "--to", "*", "--name", "r", "--json"]
    words += ["--broker", broker.url, "--fleet", fleet_name, "--waves", "1,rest"]
    killed = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    assert any('"subject":"d0"' in line and "soaking" in line for line in killed.stdout)
    killed.send_signal(signal.SIGKILL)
    killed.wait(DEADLINE_S)
    killed.stdout.close()
    held.set()
    fleet.stop(["d0"])
    fleet.agents["d0"]._following = None  # the device starts its deployment again
    fleet.start(["d0"])
    report = commands.go_on(asking(name="r"), "resume", lambda _: None)
    assert (report.phase, report.counts) == ("completed", {"done": 6})
    assert {len(fleet.agents[each].orders) for each in names(6)[1:]} == {1}


@pytest.mark.parametrize("kill", [False, True])
def test_a_client_goes_on_when_the_broker_is_back(make_broker, monkeypatch, kill):
    """A broker that is killed has lost the state of the rollout."""
    monkeypatch.setattr("edgeopt.fleet.rollout_driver._PAUSE_S", 0.05)
    broker, gate, away = make_broker(), threading.Event(), threading.Event()
    fleet = LightFleet(broker.port)
    fleet.add(names(3), behaves, gate=gate)

    def restart():
        broker.stop(kill)
        broker.start()
        fleet.connect_again()
        gate.set()

    restarting = threading.Thread(target=restart)

    def emit(event):
        if getattr(event, "subject", "") == "d0" and "soaking" in event.message and not restarting.ident:
            restarting.start()
        if "Connecting again" in getattr(event, "message", ""):
            away.set()

    try:
        request = RolloutStartRequest(broker=broker.url, bundle=URL, digest=GOOD, to="*", waves="1,rest")
        assert commands.start(request, "r", emit).counts == {"done": 3}
        assert away.is_set()
        assert commands.status(RolloutStatusRequest(broker=broker.url, name="r")).phase == "completed"
    finally:
        restarting.join(DEADLINE_S)
        fleet.close()


def test_two_clients_at_once_order_each_device_once(fleet, start, asking):
    both = threading.Event()
    fleet.add(names(8), behaves, gate=both)
    reports = []
    second = threading.Thread(
        target=lambda: reports.append(commands.go_on(asking(name="r"), "resume", lambda _: both.set()))
    )

    def emit(event):
        if getattr(event, "kind", "") == "rollout" and not second.ident:
            second.start()

    reports.append(start(emit=emit, waves="2,2,rest"))
    second.join(DEADLINE_S)
    assert [each.counts for each in reports] == [{"done": 8}] * 2
    assert {len(each.orders) for each in fleet.agents.values()} == {1}


def test_pause_ends_the_client_and_resume_goes_on(fleet, start, asking):
    paused = threading.Event()
    fleet.add(names(3), behaves, gate=paused)

    def pause():
        commands.pause(asking(RolloutPauseRequest, name="r"))
        paused.set()

    pausing = threading.Thread(target=pause)

    def emit(event):
        if getattr(event, "subject", "") == "d0" and not pausing.ident:
            pausing.start()

    report = start(emit=emit)
    pausing.join(DEADLINE_S)
    assert (report.phase, report.wave) == ("paused", 1)
    with pytest.raises(InputError, match="cannot be paused"):
        commands.pause(asking(RolloutPauseRequest, name="r"))
    assert commands.go_on(asking(name="r"), "resume", lambda _: None).counts == {"done": 3}


def test_rollback_returns_devices_to_what_they_served(fleet, start, asking):
    fleet.add(names(2), behaves)
    start(name="first")
    fleet.add(["new"], behaves)
    start(name="second", digest="sha256:" + "c" * 64)
    report = commands.go_on(asking(name="second"), "rollback", lambda _: None)
    assert (report.phase, report.counts) == ("rolled-back", {"rolled-back": 3})
    assert fleet.serving() == {"d0": NEW, "d1": NEW, "new": OLD}


def test_all_views_name_what_a_device_does_by_one_word(broker, fleet, fleet_name, start, asking, capfd):
    fleet.add(names(1), lambda _: "hang")
    said = []
    pausing = threading.Thread(target=lambda: commands.pause(asking(RolloutPauseRequest, name="r")))

    def emit(event):
        said.append(event.message)
        if getattr(event, "subject", "") == "d0" and "soaking" in event.message and not pausing.ident:
            pausing.start()

    assert start(emit=emit, waves="rest").phase == "paused"
    pausing.join(DEADLINE_S)
    for words in (["devices"], ["rollout", "status", "r"], ["rollout", "status"]):
        assert run(["fleet", *words, "--broker", broker.url, "--fleet", fleet_name]) == 0
    shown = capfd.readouterr().out
    assert "deploying" not in shown + "".join(said)
    assert shown.count("1 soaking") == 2
    assert "0 failed, 1 at work; waiting for d0 (soaking), at most 3600 s in one state" in said


def test_cancel_withdraws_the_order_of_a_device_that_is_offline(fleet, start, asking):
    fleet.add(names(1), lambda _: "hang")
    fleet.add(["off"], behaves, online=False)
    pausing = threading.Thread(target=lambda: commands.pause(asking(RolloutPauseRequest, name="r")))

    def emit(event):
        if getattr(event, "subject", "") == "d0" and "soaking" in event.message and not pausing.ident:
            pausing.start()

    assert start(emit=emit, waves="rest").phase == "paused"
    pausing.join(DEADLINE_S)
    report = commands.go_on(asking(name="r"), "cancel", lambda _: None)
    assert report.counts == {"withdrawn": 1, "deploying": 1}
    fleet.start(["off"])
    found = commands.devices(asking(DevicesRequest, to="off")).devices[0]
    assert (found.online, found.release, found.desired) == (True, OLD, "")


def test_devices_that_trust_a_key_need_a_signed_rollout(fleet, start, asking, tmp_path):
    new_key(tmp_path / "key")
    new_key(tmp_path / "other")
    fleet.add(names(2), behaves, key=tmp_path / "key.pub")
    with pytest.raises(VerificationError, match="not signed"):
        start(name="plain")
    assert start(name="signed", key=tmp_path / "key").counts == {"done": 2}
    assert start(name="next", digest="sha256:" + "c" * 64, key=tmp_path / "key").counts == {"done": 2}
    back = commands.go_on(asking(name="next", key=tmp_path / "key"), "rollback", lambda _: None)
    assert (back.counts, set(fleet.serving().values())) == ({"rolled-back": 2}, {NEW})
    with pytest.raises(UsageError, match="is signed"):
        commands.go_on(asking(name="signed"), "rollback", lambda _: None)
    with pytest.raises(InputError, match="not trusted"):
        commands.go_on(asking(name="signed", key=tmp_path / "other"), "rollback", lambda _: None)


def test_devices_are_listed_and_selected_by_label(broker, fleet, fleet_name, capfd, monkeypatch):
    fleet.add(["a", "b"], labels={"site": "north"})
    fleet.add(["c"], labels={"site": "south"}, online=False)
    monkeypatch.setenv("EDGEOPT_BROKER", broker.url)
    assert run(["fleet", "devices", "--fleet", fleet_name]) == 0
    shown = capfd.readouterr().out
    assert "3 devices, 2 online." in shown
    assert "site=south" in shown
    assert run(["fleet", "devices", "--fleet", fleet_name, "--to", "site=n*", "--json"]) == 0
    found = json.loads(capfd.readouterr().out.splitlines()[-1])["data"]["devices"]
    assert [(each["device"], each["online"]) for each in found] == [("a", True), ("b", True)]


def test_exit_codes_and_the_table_of_the_command(broker, fleet, fleet_name, capfd):
    fleet.add(names(2), behaves)
    words = ["fleet", "rollout", "start", URL, "--to", "d?", "--broker", broker.url, "--fleet", fleet_name]
    assert run([*words, "--digest", GOOD, "--dry-run"]) == 0
    assert "nothing was ordered" in capfd.readouterr().out
    assert run([*words, "--digest", BAD, "--name", "r"]) == 6
    err = capfd.readouterr().err
    assert "d0: failed: rolled back: Its output 'scores' agrees to 3.1 dB." in err
    assert run(["fleet", "rollout", "status", "r", "--broker", broker.url, "--fleet", fleet_name]) == 0
    assert "Rollout r: stopped" in capfd.readouterr().out
    assert run(["fleet", "rollout", "status", "--broker", broker.url, "--fleet", fleet_name]) == 0
    assert "1 of 2" in capfd.readouterr().out
    assert run([*words, "--digest", "sha256:1"]) == 2
    assert run(["fleet", "rollout", "resume", "q", "--broker", broker.url, "--fleet", fleet_name]) == 2


def test_a_client_that_is_interrupted_says_how_to_go_on(broker, fleet, fleet_name):
    fleet.add(names(2), lambda _: "hang")
    code = "from edgeopt.cli.main import main; main()"
    words = ["fleet", "rollout", "start", URL, "--digest", GOOD, "--to", "*", "--name", "r"]
    begun = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--broker", broker.url, "--fleet", fleet_name],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert any("soaking" in line for line in begun.stderr)
    begun.send_signal(signal.SIGINT)
    _, err = begun.communicate(timeout=DEADLINE_S)
    assert begun.returncode == 130
    assert "fleet rollout resume r" in err


def test_without_a_broker_or_its_extra_the_command_says_what_to_do(monkeypatch):
    with pytest.raises(MissingError, match="Connection refused"):
        commands.devices(DevicesRequest(broker="mqtt://127.0.0.1:1"))
    with pytest.raises(UsageError, match="without TLS"):
        commands.devices(DevicesRequest(broker="mqtt://broker.example.com"))
    monkeypatch.setattr("edgeopt.fleet.mqtt_client.find_spec", lambda _: None)
    with pytest.raises(MissingError) as missing:
        commands.devices(DevicesRequest(broker="mqtt://127.0.0.1:1"))
    assert missing.value.exit_code == 5
    assert "pip install" in missing.value.hint
