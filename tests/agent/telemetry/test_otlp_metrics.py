"""Figures as a collector of OpenTelemetry receives them."""

import json

from tests.agent.telemetry.collector import SECONDS, collecting


def metrics(document):
    (resource,) = document["resourceMetrics"]
    names = {each["key"]: each["value"]["stringValue"] for each in resource["resource"]["attributes"]}
    assert names["service.name"] == "edgeopt-agent"
    (scope,) = resource["scopeMetrics"]
    return {metric["name"]: metric for metric in scope["metrics"]}


def test_a_collector_receives_the_figures(start_agent, old_bundle):
    with collecting() as (received, url):
        agent = start_agent(otlp_endpoint=url, otlp_interval_s=0.1, soak_s=0.0, soak_requests=0)
        agent.deploy(old_bundle)
        x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        for _ in range(3):
            assert agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))[0] == 200
        count = 0
        while count < 3:
            _, path, kind, document = received.get(timeout=SECONDS)
            found = metrics(document)
            points = found.get("nv_inference_request_success", {}).get("sum", {"dataPoints": []})["dataPoints"]
            count = sum(point["asDouble"] for point in points)
    assert (path, kind) == ("/v1/metrics", "application/json")
    (point,) = points
    labels = {each["key"]: each["value"]["stringValue"] for each in point["attributes"]}
    assert (labels["model"], count) == ("null", 3)
    assert int(point["startTimeUnixNano"]) < int(point["timeUnixNano"])
    (latencies,) = found["nv_inference_first_response_histogram_ms"]["histogram"]["dataPoints"]
    assert sum(map(int, latencies["bucketCounts"])) == int(latencies["count"]) == 3
    assert len(latencies["bucketCounts"]) == len(latencies["explicitBounds"]) + 1
    assert found["edgeopt_device_memory_total_bytes"]["gauge"]["dataPoints"][0]["asDouble"] > 0


def test_a_collector_that_fails_is_asked_again(start_agent):
    with collecting(statuses=[503, 503]) as (received, url):
        agent = start_agent(otlp_endpoint=url, otlp_interval_s=0.05)
        assert [received.get(timeout=SECONDS)[0] for _ in range(3)] == [503, 503, 200]
        assert agent.stop() < 5
