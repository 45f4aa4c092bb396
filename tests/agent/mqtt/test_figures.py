"""Requests in the telemetry of a fleet are those of the agent's metrics."""

import json


def infer(agent, values):
    x = {"name": "x", "datatype": "FP32", "shape": [1, len(values)], "data": values}
    return agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))[0]


def test_requests_with_errors_are_failures(start_device, client, topics, old_bundle):
    agent = start_device(mqtt={"telemetry_s": 0.2})
    assert agent.deploy(old_bundle)["state"] == "COMMITTED"
    assert [infer(agent, values) for values in ([1, 2, 3, 4], [1, 2, 3], [5, 6, 7, 8])] == [200, 400, 200]

    def counted(name):
        return sum(each["models"].get("null", {}).get(name, 0) for each in client.of(topics.telemetry))

    client.until(lambda: counted("requests") >= 3, "telemetry of three requests")
    assert (counted("requests"), counted("failures")) == (3, 1)
