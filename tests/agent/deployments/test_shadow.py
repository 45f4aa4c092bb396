"""While a release soaks, some requests are answered by its predecessor too, and the answers compared."""

import contextlib
import json

import numpy as np
import pytest

from tests.agent.deployments.soaks import soaking
from tests.agent.deployments.test_memory import ask

MODEL = "1" * 64


def ask_null(agent, number, binary):
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    if not binary:
        body = json.dumps({"inputs": [{**x, "data": [number, 2, 3, 4]}]}).encode()
        return agent.ask("POST", "/v2/models/null/infer", body)[0]
    data = np.array([number, 2, 3, 4], np.float32).tobytes()
    inputs = [{**x, "parameters": {"binary_data_size": len(data)}}]
    head = json.dumps({"inputs": inputs}).encode()
    return agent.ask(
        "POST", "/v2/models/null/infer", head + data, {"Inference-Header-Content-Length": str(len(head))}
    )[0]


def asked_until(agent, number, done, binary=False):
    """Asks until the deployment says so, and returns it."""
    asked = iter(range(100_000))

    def look():
        assert ask_null(agent, next(asked), binary) == 200
        found = agent.ask("GET", f"/api/v1/deployments/{number}")[2]["deployment"]
        return found if done(found) else None

    return agent.until(look, "the end of the comparison")


@pytest.fixture
def agent(start_agent, make_null_bundle):
    """It serves a release of a model."""
    agent = start_agent()
    assert agent.deploy(make_null_bundle(source=MODEL))["state"] == "COMMITTED"
    return agent


@pytest.mark.parametrize("binary", [True, False])
def test_a_release_of_the_same_model_that_answers_otherwise_is_taken_back(agent, make_null_bundle, binary):
    # Its golden outputs are its own: only its predecessor can tell that it answers wrong.
    number = soaking(agent, make_null_bundle(source=MODEL, model={"noise": 0.25}))
    done = asked_until(agent, number, lambda found: found["state"] == "ROLLED_BACK", binary)
    assert "agrees with that of the release before it" in done["reason"]
    assert "both were made of the same model" in done["reason"]
    assert agent.settled()["serving"]["release"] != done["release"]


def test_a_release_of_the_same_model_that_agrees_is_committed_and_says_how_well(agent, make_null_bundle):
    bundle = make_null_bundle(source=MODEL, model={"noise": 1e-6})
    number = soaking(agent, bundle, soak_s=0, soak_requests=200)
    done = asked_until(agent, number, lambda found: found["state"] == "COMMITTED")
    assert done["detail"]["compared_requests"] >= 1
    assert done["detail"]["agreement_db"] > 60


def test_a_release_of_another_model_may_answer_otherwise(agent, make_null_bundle):
    number = soaking(agent, make_null_bundle(model={"noise": 0.25}))
    enough = lambda found: (found["progress"] or {}).get("compared_requests", 0) > 5  # noqa: E731
    found = asked_until(agent, number, enough)
    assert found["state"] == "SOAKING"
    assert found["progress"]["agreement_db"] < 60


def test_infinity_where_the_predecessor_gave_numbers_takes_the_release_back(start_agent, make_log_bundle):
    agent = start_agent()
    assert agent.deploy(make_log_bundle("Abs"))["state"] == "COMMITTED"
    number = soaking(agent, make_log_bundle("Log"))

    def ended():
        with contextlib.suppress(AssertionError):
            ask(agent, 0, 1, 2, 3)  # without the predecessor's answer, infinity may be meant
        found = agent.ask("GET", f"/api/v1/deployments/{number}")[2]["deployment"]
        return found if found["state"] == "ROLLED_BACK" else None

    assert "the previous release returned numbers" in agent.until(ended, "the way back")["reason"]
