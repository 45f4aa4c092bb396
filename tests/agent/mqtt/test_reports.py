"""Reports of a device follow what it serves: after a start, a crash, and in a rollout that begins meanwhile."""

import psutil
import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.rollout_request import RolloutControlRequest, RolloutStartRequest

AT_ONCE = {"labels": {"target": "none"}}
"""With this label the agent connects before its worker is up, because it need not look for its target profile."""


@pytest.fixture
def restarted(start_device, start_agent, make_null_bundle):
    """Starts an agent whose release takes a moment to load; returns the agent and its bundle."""

    def start(**more):
        bundle = make_null_bundle(model={"load_ms": 3000.0})
        agent = start_agent()
        assert agent.deploy(bundle)["state"] == "COMMITTED"
        agent.stop()
        return start_device(mqtt=AT_ONCE, **more), bundle

    return start


def test_a_restarted_device_is_starting_and_then_reports_that_it_serves(restarted, client):
    _, bundle = restarted()
    report = client.reported(lambda each: each["status"]["state"] == "serving")
    assert report["status"]["serving"]["release"] == release_id(bundle)
    first, *_ = client.of(client.topics.reported)
    assert (first["status"]["state"], first["status"]["current"]) == ("starting", release_id(bundle))
    assert "degraded" not in {each["status"]["state"] for each in client.of(client.topics.reported)}


def test_a_crash_of_the_worker_and_its_restart_are_reported(start_device, client):
    agent = start_device(deployed=True, mqtt=AT_ONCE, restart_delay_s=1.0)
    first = client.reported(lambda each: each["status"]["serving"])
    pid = first["status"]["serving"]["pid"]
    psutil.Process(pid).kill()
    client.reported(lambda each: each["status"]["serving"] and each["status"]["serving"]["pid"] != pid)
    states = [each["status"]["state"] for each in client.of(client.topics.reported)]
    assert states[-2:] == ["degraded", "serving"]
    assert agent.status()["crashes"] == 1


def test_a_rollout_that_begins_while_a_device_starts_can_be_rolled_back(
    restarted, client, serve_bundle, new_bundle, broker
):
    server, digest = serve_bundle(new_bundle)
    agent, bundle = restarted(server=server)
    client.reported(lambda each: each["status"]["state"] == "starting")
    start = RolloutStartRequest(
        broker=broker.url, bundle=server.url, digest=digest, to=client.topics.device, soak_seconds=0.1,
        soak_requests=1,
    )  # fmt: skip
    assert commands.start(start, "early", lambda _: None).counts == {"done": 1}
    agent.serves(new_bundle)
    back = commands.go_on(RolloutControlRequest(broker=broker.url, name="early"), "rollback", lambda _: None)
    assert back.counts == {"rolled-back": 1}
    agent.serves(bundle)
