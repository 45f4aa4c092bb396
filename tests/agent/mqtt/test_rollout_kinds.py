"""Rollouts in which each kind of device searches for itself: real agents, a real broker, a web server with PUT."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from edgeopt.bundle.sign import new_key
from edgeopt.errors import UsageError, VerificationError
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt.fleet.rollout_bundle import speedup_in
from edgeopt.fleet.rollout_request import RolloutControlRequest, RolloutStartRequest, RolloutStatusRequest
from edgeopt_agent import trusted_keys
from tests.measuring import model  # noqa: F401 - a fixture

SEARCH_S = 1.0


@contextmanager
def held_to(cores):
    """What is started inside may use these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.fixture
def files(store, model, tmp_path):  # noqa: F811 - the fixture
    """The model and the data, each with its digest."""
    return store.add(model), store.add(tmp_path / "d.npz")


@pytest.fixture
def fleet_name(topics):
    """A fleet for each test."""
    return topics.device


@pytest.fixture
def start_one(start_device, store, tmp_path, broker, make_client, fleet_name, monkeypatch):
    """Starts a device, which is online then."""

    def start(name, cores=None, **more):
        monkeypatch.setenv("EDGEOPT_LOCK", str(tmp_path / f"{name}.lock"))
        client = make_client(broker, Topics(fleet_name, name))
        settings = {"trials": True, "fetch_from": [store.prefix], "put_to": [store.prefix]}
        with held_to(cores or os.sched_getaffinity(0)):
            agent = start_device(
                mqtt={"device": name, "fleet": fleet_name}, data_dir=tmp_path / name, **{**settings, **more}
            )
        client.presence("online")
        return agent

    return start


@pytest.fixture
def request_of(broker, store, files, fleet_name):
    def request(**more):
        (url, digest), (data, data_digest) = files
        given = {
            "bundle": url, "digest": digest, "data": f"{data}@{data_digest}", "store": store.prefix, "to": "*",
            "optimize": True, "time_limit": SEARCH_S, "waves": "rest", "soak_seconds": 0.1, "soak_requests": 1,
        }  # fmt: skip
        return RolloutStartRequest(broker=broker.url, fleet=fleet_name, **{**given, **more})

    return request


@pytest.fixture
def status(broker, fleet_name):
    def status(name="r"):
        return commands.status(RolloutStatusRequest(broker=broker.url, fleet=fleet_name, name=name))

    return status


def quiet(_event):
    """Hears nothing."""


def name_of(kind):
    return kind.bundle.rpartition("/")[2]


@pytest.mark.slow
@pytest.mark.cold  # what is forked has the cores of the process that it is forked from
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two kinds need two cores")
def test_each_kind_gets_the_bundle_that_one_of_it_has_proved(
    start_one, request_of, store, tmp_path, files, status, record_property
):
    one, two = sorted(os.sched_getaffinity(0))[:2]
    agents = {
        "narrow": start_one("narrow", {one}),
        "wide-1": start_one("wide-1", {one, two}),
        "wide-2": start_one("wide-2", {one, two}),
    }
    report = commands.start(request_of(), "r", quiet)
    assert (report.phase, report.counts) == ("completed", {"done": 3})
    by_devices = {each.devices: each for each in report.kinds}
    narrow, wide = by_devices[1], by_devices[2]
    assert (narrow.device, wide.device) == ("narrow", "wide-1")
    assert sorted(store.put) == sorted([name_of(narrow), name_of(wide)])
    found = {name: store.deployment(name, tmp_path) for name in store.put}
    own, other = found[name_of(narrow)], found[name_of(wide)]
    assert own.device["limits"] != other.device["limits"]
    assert own.machine["limits"].startswith("1 usable core")
    for kind, deployment in ((narrow, own), (wide, other)):
        assert f"sha256:{deployment.source.sha256}" == files[0][1]
        assert deployment.evidence is not None
        assert (kind.speedup, kind.speedup_low, kind.speedup_high) == speedup_in(deployment)
        facts = (kind.kind, deployment.machine["limits"], deployment.run.options, speedup_in(deployment))
        record_property(kind.device, facts)
    assert not (tmp_path / "wide-2" / "search.json").exists()
    served = {name: agent.settled()["serving"]["release"] for name, agent in agents.items()}
    assert served["wide-1"] == served["wide-2"] != served["narrow"]
    kinds = {each.device: each.kind for each in status().devices}
    assert kinds == {"narrow": narrow.kind, "wide-1": wide.kind, "wide-2": wide.kind}
    assert status().kinds == report.kinds


def test_kind_that_may_not_upload_fails_with_its_reason(start_one, request_of, status, store):
    agent = start_one("device", put_to=[])
    with pytest.raises(VerificationError, match="does not upload to") as stopped:
        commands.start(request_of(), "r", quiet)
    assert stopped.value.code == "rollout-stopped"
    report = status()
    assert report.counts == {"failed": 1}
    assert report.kinds[0].state == "failed"
    assert "refused: The agent does not upload to" in report.devices[0].reason
    assert agent.status()["state"] == "empty"
    assert store.put == []


def test_search_that_fails_fails_all_devices_of_its_kind(start_one, request_of, status):
    start_one("a")
    start_one("b")
    with pytest.raises(VerificationError, match="the search of a for its kind failed"):
        commands.start(request_of(metric="steal.py:all"), "r", quiet)
    assert status().counts == {"failed": 2}


def test_bundle_that_is_another_one_in_the_store_is_not_ordered(start_one, request_of, store, status):
    agent = start_one("device")
    store.spoils = True
    with pytest.raises(VerificationError, match="is another one: its digest is"):
        commands.start(request_of(), "r", quiet)
    assert status().kinds[0].state == "failed"
    assert agent.status()["state"] == "empty"


def test_another_client_goes_on_with_a_search_after_a_kill(
    start_one, request_of, store, broker, fleet_name, status
):
    start_one("device")
    store.held = "d.npz"
    store.holding.clear()
    asked = request_of()
    words = ["fleet", "rollout", "start", asked.bundle, "--digest", asked.digest, "--to", "*", "--name", "r"]
    words += ["--optimize", "--data", asked.data, "--store", asked.store, "--time-limit", str(SEARCH_S)]
    words += ["--soak-seconds", "0.1", "--soak-requests", "1", "--waves", "rest", "--json"]
    words += ["--broker", broker.url, "--fleet", fleet_name]
    code = "from edgeopt.cli.main import main; main()"
    killed = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    assert store.asked.wait(60)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert [(each.state, each.device) for each in status().kinds] == [("searching", "device")]
    store.holding.set()
    report = commands.go_on(RolloutControlRequest(broker=broker.url, fleet=fleet_name, name="r"), "resume", quiet)
    assert (report.phase, report.counts) == ("completed", {"done": 1})
    assert store.put == [name_of(report.kinds[0])]


@pytest.mark.slow
def test_search_that_a_restart_ended_is_ordered_once_more(start_one, request_of, store):
    agent = start_one("device")
    store.held = "d.npz"
    store.holding.clear()
    ended = []
    running = threading.Thread(target=lambda: ended.append(commands.start(request_of(), "r", quiet)))
    running.start()
    assert store.asked.wait(60)
    agent.close()
    store.holding.set()
    start_one("device")
    running.join(300)
    assert ended[0].counts == {"done": 1}
    assert name_of(ended[0].kinds[0]).endswith(".2.edgeopt")


@pytest.mark.slow
def test_devices_with_a_trusted_key_get_the_bundle_signed(start_one, request_of, store, tmp_path):
    new_key(tmp_path / "key")
    trusted_keys.add(tmp_path / "device", tmp_path / "key.pub")
    start_one("device")
    report = commands.start(request_of(key=tmp_path / "key"), "r", quiet)
    assert report.counts == {"done": 1}
    assert name_of(report.kinds[0]).endswith("-signed.edgeopt")
    assert len(store.put) == 2


def test_cancelled_rollout_ends_its_search(start_one, request_of, store, broker, fleet_name, make_client):
    start_one("device")
    client = make_client(broker, Topics(fleet_name, "device"))
    store.held = "d.npz"
    store.holding.clear()
    ended = []
    running = threading.Thread(target=lambda: ended.append(commands.start(request_of(), "r", quiet)))
    running.start()
    assert store.asked.wait(60)
    request = RolloutControlRequest(broker=broker.url, fleet=fleet_name, name="r")
    assert commands.go_on(request, "cancel", quiet).counts == {"withdrawn": 1}
    running.join(60)
    found = client.reported(lambda each: each.get("search") and each["search"]["state"] == "failed")
    assert found["search"]["code"] == "cancelled"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"store": ""}, "needs the address of a web server"),
        ({"optimize": False}, "is for --optimize only"),
        ({"model": "a", "remove": ("b",)}, "for a single model"),
        ({"digest": "sha256:1"}, "must be 'sha256:'"),
    ],
)
def test_options_that_do_not_fit_are_refused(request_of, changes, said):
    with pytest.raises(UsageError, match=said):
        commands.start(request_of(**changes), "r", quiet)


def test_digests_are_read_where_they_are_not_given(start_one, request_of, files, tmp_path):
    start_one("device")
    (url, digest), (data, _) = files
    report = commands.start(request_of(digest="", data=data, dry_run=True), "r", quiet)
    assert (report.bundle, report.digest) == (url, digest)
    assert [(each.state, each.devices) for each in report.kinds] == [("planned", 1)]
    report = commands.start(request_of(digest="", copy=tmp_path / "m.onnx", dry_run=True), "r", quiet)
    assert report.digest == digest
