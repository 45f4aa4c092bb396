"""Workers that clients' requests make take too much memory: restarted with a growing delay, and reported."""

import itertools
import json
import urllib.request

import msgspec
import pytest

from edgeopt_agent.deployments.memory_restarts import MemoryRestarts
from edgeopt_agent.settings import Settings
from tests.agent.deployments.soaks import soaking

MIB = 1 << 20
LIMITS = {"worker_memory_bytes": 700 * MIB}
numbers = itertools.count()


def post(agent):
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [-1, 2, 3, next(numbers) % 10]}
    status, _, answer = agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
    return status, answer


def metrics(agent):
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics") as answer:
        return answer.read().decode()


@pytest.fixture
def leaking(make_null_bundle):
    """A release that leaks when clients ask, not by itself."""
    return make_null_bundle(leak_on=-1)


def test_a_committed_release_that_leaks_is_restarted_reported_and_not_rolled_back(
    start_agent, old_bundle, leaking
):
    agent = start_agent(**LIMITS, soak_s=0.0, soak_requests=0, memory_restarts_allowed=1)
    agent.deploy(old_bundle)
    assert agent.deploy(leaking)["state"] == "COMMITTED"
    assert "memory_restarts" in agent.status()

    def restarted(times):
        post(agent)
        return agent.status()["memory_restarts"] >= times

    agent.until(lambda: restarted(1), "the first restart")
    assert agent.settled()["reason"] == ""
    agent.until(lambda: restarted(2), "the second restart")
    assert "was restarted 2 times within 600 s because it took too much memory" in agent.settled()["reason"]
    events = [each for each in agent.ask("GET", "/api/v1/events")[2]["events"] if each["kind"] == "worker"]
    assert [each["state"] for each in events] == ["OUT OF MEMORY", "SERVING"] * 2
    assert "restarted 2 times" in events[2]["reason"]
    assert "edgeopt_worker_memory_restarts{" in metrics(agent)
    found = agent.status()
    assert (found["deployment"]["kind"], found["crashes"]) == ("deploy", 0)


def test_a_release_that_leaks_under_requests_is_taken_back_while_it_soaks(start_agent, old_bundle, leaking):
    agent = start_agent(**LIMITS, self_request_s=30.0, judged_requests=3)
    agent.deploy(old_bundle)
    number = soaking(agent, leaking)
    agent.until(lambda: post(agent)[0] and agent.status()["deployment"]["state"] == "ROLLED_BACK", "the way back")
    reason = agent.ended(number)["reason"]
    assert "memory" in reason
    agent.serves(old_bundle)


def test_the_delay_grows_and_old_restarts_are_forgotten(tmp_path, monkeypatch):
    now_s = 1000.0
    monkeypatch.setattr("edgeopt_agent.deployments.memory_restarts.time.monotonic", lambda: now_s)
    settings = msgspec.structs.replace(
        Settings(data_dir=tmp_path), restart_delay_s=1.0, restart_delay_most_s=5.0, memory_restarts_allowed=3
    )
    restarts = MemoryRestarts()
    assert [restarts.note("new", settings) for _ in range(3)] == [1.0, 2.0, 4.0]
    assert restarts.warning("new", settings) == ""
    assert restarts.note("new", settings) == 5.0
    assert "restarted 4 times within 600 s" in restarts.warning("new", settings)
    assert restarts.warning("old", settings) == ""
    now_s += settings.memory_window_s
    assert restarts.warning("new", settings) == ""
    assert restarts.note("new", settings) == 1.0
