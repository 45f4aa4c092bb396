"""A release that answers NaN or infinity where its golden inputs do not show it."""

import contextlib
import http.client
import json

import pytest

from tests.agent.deployments.soaks import soaking


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
