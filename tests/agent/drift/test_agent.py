"""Drift in an agent that runs: what it tells of its requests, over a restart too."""

import json
from contextlib import closing
from http.client import HTTPConnection

import numpy as np

DRIFT = {"reference_requests": 60, "window_requests": 50, "golden_s": 0.0}


def send(agent, scale, enough):
    """Sends requests until the status of the drift is such."""
    rng = np.random.default_rng(56)
    with closing(HTTPConnection("127.0.0.1", agent.port)) as connection:

        def ready():
            for _ in range(40):
                row = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
                row["data"] = (scale * rng.uniform(1, 2, 4)).tolist()
                connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [row]}))
                answer = connection.getresponse()
                assert answer.status == 200, answer.read()
                answer.read()
            return enough(agent.status()["drift"])

        agent.until(ready, "the drift", wait_s=0.0)
    return agent.status()["drift"]


def metrics(agent):
    with closing(HTTPConnection("127.0.0.1", agent.port)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return {
        line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith("edgeopt_d")
    }


def test_scaled_requests_are_told_and_the_reference_survives_a_restart(start_agent, old_bundle):
    agent = start_agent(drift=DRIFT)
    assert agent.status()["drift"] is None
    agent.deploy(old_bundle)
    normal = send(agent, 1.0, lambda drift: drift["state"] == "normal")
    assert normal["requests"] == 60
    assert metrics(agent)["edgeopt_drift_alarm"] == 0
    agent.until((agent.data_dir / "drift.json").exists, "the reference on the disk")
    agent.stop()

    again = start_agent(drift=DRIFT)
    again.settled()
    assert again.status()["drift"] == normal
    alarm = send(again, 10.0, lambda drift: drift["state"] == "alarm")
    assert "has changed: its median is" in alarm["sentence"]
    assert alarm["since_s"]
    assert metrics(again)["edgeopt_drift_alarm"] == 1
    assert metrics(again)["edgeopt_drift_score"] > 1
    assert again.status()["state"] == "serving"


def test_nothing_is_watched_by_default(start_serving):
    agent = start_serving()
    assert agent.status()["drift"] is None
    assert "edgeopt_drift_alarm" not in metrics(agent)


def test_golden_answers_that_are_no_longer_those_of_the_bundle_are_told(start_serving):
    agent = start_serving(drift={**DRIFT, "golden_s": 0.1})
    assert agent.status()["drift"]["state"] == "learning"
    for kind in ("outputs", "reference"):  # as if the model answered otherwise than when the bundle was made
        file = agent.data_dir / "current" / "golden" / f"{kind}.npz"
        np.savez(file, **{name: values + 1000 for name, values in dict(np.load(file)).items()})
    agent.until(lambda: agent.status()["drift"]["state"] == "alarm", "the alarm")
    told = agent.status()["drift"]
    assert told["statistic"] == "golden"
    assert told["sentence"].startswith("The answers to the golden inputs differ from the bundle's.")
