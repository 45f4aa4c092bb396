import os
import signal

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


def test_with_nothing_to_go_back_to_it_is_degraded_and_goes_on_trying(agent, old_bundle):
    for _ in range(3):
        kill_worker(agent)
    agent.until(lambda: "no other release to go back to" in agent.status()["reason"], "the end of its patience")
    agent.serves(old_bundle)
    assert agent.status()["reason"] == ""
