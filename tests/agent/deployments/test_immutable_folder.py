"""A data folder in which nothing can be renamed or removed: it does not undo a rollback."""

import os
import signal
import subprocess
from contextlib import ExitStack

import pytest

from edgeopt_agent.releases import release_id
from tests.agent.deployments.soaks import soaking


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
