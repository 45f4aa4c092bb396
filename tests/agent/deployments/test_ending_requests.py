"""Requests that end the worker: one of them judges no release, different ones do."""

import json

import pytest

from tests.agent.deployments.soaks import soaking

LIMITS = {"hang_timeout_s": 1.0, "request_timeout_s": 60.0}


def post(agent, *values):
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": values}
    status, _, answer = agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
    return status, answer.get("error", "")


def restarted(agent):
    """Waits until the worker that serves takes requests."""
    agent.until(lambda: post(agent, 1, 2, 3, 4)[0] == 200 and agent.status()["serving"], "its worker")


FAULTS = pytest.mark.parametrize("fault", ["crash_on", "hang_on"])


@FAULTS
def test_one_request_neither_rolls_back_nor_ends_the_worker_for_ever(
    start_agent, old_bundle, make_null_bundle, fault
):
    agent = start_agent(**LIMITS)
    agent.deploy(old_bundle)
    new = make_null_bundle(**{fault: -1})
    assert agent.deploy(new)["state"] == "COMMITTED"
    answers = []
    for _ in range(5):
        agent.settled()
        answers.append(post(agent, -1, 2, 3, 4))
    assert [status for status, _ in answers] == [503, 503, 422, 422, 422]
    assert "ended the worker of the release" in answers[-1][1]
    agent.serves(new)
    found = agent.status()
    assert found["deployment"]["kind"] == "deploy"
    assert found["hangs"] + found["crashes"] == 2


@FAULTS
@pytest.mark.parametrize("first", [True, False])
def test_a_soak_is_judged_by_different_requests_only(start_agent, old_bundle, make_null_bundle, fault, first):
    agent = start_agent(**LIMITS)
    if not first:
        agent.deploy(old_bundle)
    new = make_null_bundle(**{fault: -1})
    number = soaking(agent, new)
    for _ in range(4):
        restarted(agent)
        post(agent, -1, 2, 3, 4)
    assert agent.status()["deployment"]["state"] == "SOAKING"
    for different in range(2):
        restarted(agent)
        post(agent, -1, 2, 3, 10 + different)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "Different requests ended its worker 3 times while it soaked" in done["reason"]
    assert agent.deploy(new)["state"] == "COMMITTED"  # clients' requests quarantine nothing
