"""Workers that clients' requests make take too much memory: restarted with a growing delay, and reported."""

import contextlib
import http.client
import itertools
import json
import os
import signal
import subprocess
import urllib.request
from contextlib import ExitStack

import msgspec
import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt_agent.deployments.memory_restarts import MemoryRestarts
from edgeopt_agent.settings import Settings
from tests.agent.deployments.soaks import soaking

MIB = 1 << 20
LIMITS = {"worker_memory_bytes": 300 * MIB}
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


def test_a_release_that_leaks_under_requests_is_taken_back_while_it_soaks(start_serving, old_bundle, leaking):
    agent = start_serving(**LIMITS, self_request_s=30.0, judged_requests=3)
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


BODY_BYTES = 220 * MIB
LIMITS_REQUEST_MEMORY = {"worker_memory_bytes": 200 * MIB, "max_body_bytes": 250 * MIB}


def post_large(agent):
    """A batch of binary rows, sent in pieces."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [BODY_BYTES // 16, 4]}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": BODY_BYTES}}]}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=60)
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Length": str(len(head) + BODY_BYTES)}
    pieces = iter([head, *[bytes(MIB)] * (BODY_BYTES // MIB)])
    connection.request("POST", "/v2/models/null/infer", pieces, headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_a_request_above_the_memory_limit_is_refused_and_the_soak_goes_on(start_agent, old_bundle):
    agent = start_agent(**LIMITS_REQUEST_MEMORY)
    soaking(agent, old_bundle)
    pid = agent.status()["serving"]["pid"]
    status, answer = post_large(agent)
    assert status == 507
    assert "needs too much memory" in answer["error"]
    assert agent.status()["serving"]["pid"] == pid
    asked = agent.status()["deployment"]["progress"]["requests"]
    agent.until(lambda: agent.status()["deployment"]["progress"]["requests"] > asked + 1, "more of the soak")
    assert post(agent)[0] == 200


def change(flag, folder):
    return subprocess.run(["chattr", flag, str(folder)], check=False, capture_output=True).returncode == 0


@pytest.fixture
def immutable(tmp_path):
    """Makes folders immutable until the end of the test."""
    probe = tmp_path / "probe"
    probe.mkdir()
    if not change("+i", probe):
        pytest.skip("this user or file system has no immutable folders")
    change("-i", probe)
    with ExitStack() as stack:

        def make(folder):
            assert change("+i", folder)
            stack.callback(change, "-i", folder)

        yield make


def check_degraded(agent, bundle):
    agent.serves(bundle)
    found = agent.status()
    assert found["deployment"]["state"] == "DEGRADED"
    for reason in (found["deployment"]["reason"], found["reason"]):
        assert "could not be changed: Operation not permitted" in reason
        assert "Make that folder writable" in reason


def test_a_soak_that_goes_back_stays_back_after_a_restart(
    start_agent, agent, immutable, old_bundle, new_bundle, make_null_bundle
):
    number = soaking(agent, new_bundle)
    immutable(agent.data_dir)
    os.kill(agent.status()["serving"]["pid"], signal.SIGSEGV)
    assert agent.ended(number)["state"] == "DEGRADED"
    check_degraded(agent, old_bundle)
    for _ in range(2):
        agent.stop()
        agent = start_agent()
        check_degraded(agent, old_bundle)
    agent.stop()
    change("-i", agent.data_dir)
    agent = start_agent()
    agent.serves(old_bundle)
    assert agent.status()["reason"] == ""
    assert (agent.data_dir / "current").readlink().name == release_id(old_bundle)
    assert agent.deploy(make_null_bundle(model={"noise": 0.5}))["state"] == "COMMITTED"


def test_a_requested_rollback_serves_the_predecessor(start_agent, agent, immutable, old_bundle, new_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    immutable(agent.data_dir)
    assert agent.roll_back()["state"] == "DEGRADED"
    check_degraded(agent, old_bundle)
    agent.process.kill()
    agent.close()
    check_degraded(start_agent(), old_bundle)


def test_a_first_release_that_goes_back_does_not_return_with_a_restart(start_agent, immutable, old_bundle):
    agent = start_agent()
    number = soaking(agent, old_bundle)
    immutable(agent.data_dir)
    os.kill(agent.status()["serving"]["pid"], signal.SIGSEGV)
    assert agent.ended(number)["state"] == "DEGRADED"

    def empty():
        found = agent.status()
        return found["state"] == "empty" and found

    for _ in range(2):
        found = agent.until(empty, "that nothing serves")
        assert found["serving"] is None
        assert "could not be changed: Operation not permitted" in found["reason"]
        status, _, answer = agent.ask("POST", "/v2/models/null/infer", "{}")
        assert (status, "could not be rolled back" in answer["error"]) == (503, True)
        agent.stop()
        agent = start_agent()


def test_immutable_releases_only_refuse_the_next_bundle(start_agent, agent, immutable, old_bundle, new_bundle):
    number = soaking(agent, new_bundle)
    immutable(agent.data_dir / "releases")
    assert agent.ask("POST", "/api/v1/cancel")[0] == 202
    assert agent.ended(number)["state"] == "ROLLED_BACK"
    agent.stop()
    agent = start_agent()
    agent.serves(old_bundle)
    assert agent.deploy(new_bundle)["state"] in {"FAILED", "COMMITTED"}


def ask(agent, *numbers, binary=True):
    """One request; only the binary form can carry NaN."""
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": list(numbers)}
    body = json.dumps({"inputs": [x], "parameters": {"binary_data_output": binary}})
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", agent.port)) as connection:
        connection.request("POST", "/v2/models/log/infer", body)
        assert connection.getresponse().status == (200 if binary else 400)


@pytest.mark.parametrize("binary", [True, False])
def test_a_first_release_that_answers_nan_is_taken_back(start_agent, make_log_bundle, binary):
    agent = start_agent()
    number = soaking(agent, make_log_bundle("Log"))
    ask(agent, 0, 0, 0, 0)  # infinity may be meant
    ask(agent, 1, -1, 1, 1, binary=binary)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "1 of 2 answers to finite inputs held NaN" in done["reason"]


def test_a_release_that_is_less_finite_than_the_old_one_is_taken_back(start_agent, make_log_bundle):
    agent = start_agent()
    old = make_log_bundle("Abs")
    assert agent.deploy(old)["state"] == "COMMITTED"
    for _ in range(20):
        ask(agent, 0, 1, 2, 3)
    number = soaking(agent, make_log_bundle("Log"))
    ask(agent, 0, 1, 2, 3)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "held NaN or infinity" in done["reason"]
    assert "failed before" in agent.deploy(make_log_bundle("Log"))["reason"]


def test_what_the_old_release_answered_too_is_no_fault(start_agent, make_log_bundle):
    agent = start_agent()
    assert agent.deploy(make_log_bundle("Log"))["state"] == "COMMITTED"
    for _ in range(3):
        ask(agent, -1, 1, 2, 3)
    number = soaking(agent, make_log_bundle("Sqrt"), soak_s=0.5)
    ask(agent, -1, 1, 2, 3)
    assert agent.ended(number)["state"] == "COMMITTED"
