import json
import os
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgeopt_agent.releases import release_id


@pytest.fixture
def agent(start_agent, old_bundle):
    agent = start_agent()
    done = agent.deploy(old_bundle)
    assert done["state"] == "COMMITTED", done["reason"]
    return agent


def kill_worker(agent):
    """Kills the worker that serves; the process id of the next one that does."""
    pid = agent.settled()["serving"]["pid"]
    os.kill(pid, signal.SIGKILL)
    gone = agent.until(
        lambda: (s := agent.status()["serving"]) is None or s["pid"] != pid, "the end of the worker"
    )
    assert gone
    return pid


def test_a_worker_that_dies_is_started_again_and_that_is_told(agent, old_bundle):
    pid = kill_worker(agent)
    agent.serves(old_bundle)
    assert agent.status()["serving"]["pid"] != pid
    told = [e for e in agent.ask("GET", "/api/v1/events")[2]["events"] if e["kind"] == "worker"]
    assert [e["state"] for e in told] == ["CRASHED", "SERVING"]
    assert "SIGKILL" in told[0]["reason"]


def test_a_release_that_keeps_dying_gives_way_to_the_previous_one(agent, old_bundle, new_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    for _ in range(3):
        kill_worker(agent)
    agent.until(lambda: agent.status()["deployment"]["kind"] == "rollback", "the way back")
    agent.until(lambda: agent.status()["state"] == "serving", "its end")
    agent.serves(old_bundle)
    assert (
        f"{release_id(new_bundle)} failed 3 times in a row" in agent.status()["deployment"]["history"][0]["reason"]
    )


def post(agent, *values):
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": values}
    status, _, answer = agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
    return status, answer


def test_a_release_that_keeps_hanging_gives_way_to_the_previous_one(start_agent, old_bundle, make_null_bundle):
    limit_s = 3.0
    agent = start_agent(hang_timeout_s=limit_s, request_timeout_s=60.0, crash_window_s=4.0)
    agent.deploy(old_bundle)
    hanging = make_null_bundle(hang_on=-1)
    assert agent.deploy(hanging)["state"] == "COMMITTED"
    with ThreadPoolExecutor() as pool:
        for number in range(2):
            pid = agent.settled()["serving"]["pid"]
            hung = pool.submit(post, agent, -1, 2, 3, number)
            agent.until(lambda: pending(agent) == 1, "the run that hangs")
            behind = [pool.submit(post, agent, 1, 2, 3, 4) for _ in range(4)]
            status, answer = hung.result()
            assert (status, "hung: no answer within 3 s" in answer["error"]) == (503, True)
            assert [each.result()[0] for each in behind] == [200] * 4
            assert agent.settled()["serving"]["pid"] != pid
    found = agent.status()
    assert (found["hangs"], found["crashes"]) == (2, 0)
    assert f'edgeopt_worker_hangs{{model="null",version="{release_id(hanging)}"}} 2.0' in metrics(agent)
    assert post(agent, -1, 2, 3, 4)[0] == 503
    agent.until(lambda: agent.status()["deployment"]["kind"] == "rollback", "the way back")
    agent.serves(old_bundle)
    told = [e["state"] for e in agent.ask("GET", "/api/v1/events")[2]["events"] if e["kind"] == "worker"]
    assert told == ["HUNG", "SERVING"] * 2 + ["HUNG"]


def metrics(agent):
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics") as answer:
        return answer.read().decode()


def pending(agent):
    lines = metrics(agent).splitlines()
    return float(next(line for line in lines if line.startswith("nv_inference_pending")).split()[-1])


def test_with_nothing_to_go_back_to_it_is_degraded_and_goes_on_trying(agent, old_bundle):
    for _ in range(3):
        kill_worker(agent)
    agent.until(lambda: "No other release to roll back to" in agent.status()["reason"], "the end of its patience")
    agent.serves(old_bundle)
    assert agent.status()["reason"] == ""


def test_a_way_back_that_is_barred_is_told_and_the_agent_goes_on(agent, old_bundle, new_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    (agent.data_dir / "releases" / release_id(old_bundle) / "deployment.toml").write_text("name = ")
    for _ in range(3):
        kill_worker(agent)
    reason = agent.until(
        lambda: (r := agent.status()["reason"]) and "Going back" in r and r, "the end of its patience"
    )
    assert f"Going back to {release_id(old_bundle)} is not possible" in reason
    agent.serves(new_bundle)


def test_a_slow_start_does_not_hide_that_a_release_keeps_dying(start_agent, old_bundle, make_null_bundle):
    agent = start_agent(crash_window_s=1.5)
    agent.deploy(old_bundle)
    assert agent.deploy(make_null_bundle(load_ms=1000.0))["state"] == "COMMITTED"
    for _ in range(3):
        kill_worker(agent)
    agent.until(lambda: agent.status()["deployment"]["kind"] == "rollback", "the way back")
    agent.serves(old_bundle)


def test_a_deployment_that_is_ready_does_not_wait_for_what_it_replaces(start_agent, make_null_bundle, new_bundle):
    agent = start_agent()
    slow = make_null_bundle(load_ms=4000.0)
    agent.deploy(slow)
    os.kill(agent.settled()["serving"]["pid"], signal.SIGKILL)
    done = agent.deploy(new_bundle)
    assert done["state"] == "COMMITTED", done["reason"]
    told = [e["state"] for e in agent.ask("GET", "/api/v1/events")[2]["events"] if e["kind"] == "worker"]
    assert told == ["CRASHED"]
    agent.serves(new_bundle)
