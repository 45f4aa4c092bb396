"""Traces as a collector of OpenTelemetry receives them, from agents that serve by HTTP."""

import http.client
import json
import re
import time

import pytest

from edgeopt_agent.releases import release_id
from tests.agent.telemetry.collector import (
    PARENT,
    SAMPLED,
    SECONDS,
    TRACE,
    TRACES,
    UNSAMPLED,
    collecting,
    receive,
    spans_of,
    values,
)

X = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
BODY = json.dumps({"inputs": [X]})


@pytest.fixture
def start(start_agent, old_bundle):
    """Starts an agent that serves the null model and traces to `url`."""

    def start(url, **settings):
        quick = {"otlp_interval_s": 0.05, "soak_s": 0.0, "soak_requests": 0}
        agent = start_agent(otlp_endpoint=url, **{**quick, **settings})
        agent.deploy(old_bundle)
        return agent

    return start


def test_request_continues_the_trace_of_its_caller(start, old_bundle):
    with collecting(path=TRACES) as (received, url):
        agent = start(url)
        began_ns = time.time_ns()
        assert agent.ask("POST", "/v2/models/null/infer", BODY, UNSAMPLED)[0] == 200
        assert agent.ask("POST", "/v2/models/null/infer", BODY)[0] == 200
        status, headers, _ = agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)
        assert status == 200
        found = receive(received, 3)
    assert found.keys() == {"POST /v2/models/{model}/infer", "queue", "compute"}
    server, queue, compute = found["POST /v2/models/{model}/infer"], found["queue"], found["compute"]
    assert {span["traceId"] for span in found.values()} == {TRACE}
    assert server["parentSpanId"] == PARENT
    assert queue["parentSpanId"] == compute["parentSpanId"] == server["spanId"]
    assert (server["kind"], queue["kind"], compute["kind"]) == (2, 1, 1)
    assert (server["flags"], queue["flags"]) == (0x301, 0x101)
    assert values(server["attributes"]) == {
        "http.request.method": "POST",
        "http.route": "/v2/models/{model}/infer",
        "http.response.status_code": 200,
        "edgeopt.model.name": "null",
        "edgeopt.model.version": release_id(old_bundle),
        "edgeopt.request.bytes": len(BODY),
        "edgeopt.response.bytes": int(headers["content-length"]),
    }
    times = [
        *(server["startTimeUnixNano"], queue["startTimeUnixNano"], queue["endTimeUnixNano"]),
        *(compute["startTimeUnixNano"], compute["endTimeUnixNano"], server["endTimeUnixNano"]),
    ]
    assert times == sorted(times, key=int)
    assert queue["endTimeUnixNano"] == compute["startTimeUnixNano"]
    assert began_ns <= int(times[0]) <= int(times[-1]) <= time.time_ns()


def test_compute_span_is_as_long_as_the_statistics_say(start):
    with collecting(path=TRACES) as (received, url):
        agent = start(url)
        agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)
        compute = receive(received, 3)["compute"]
        (stats,) = agent.ask("GET", "/v2/models/null/stats")[2]["model_stats"]
    measured_ns = int(compute["endTimeUnixNano"]) - int(compute["startTimeUnixNano"])
    assert abs(measured_ns - stats["inference_stats"]["compute_infer"]["ns"]) < 1000


def test_failed_request_says_why(start):
    with collecting(path=TRACES) as (received, url):
        agent = start(url)
        agent.ask("POST", "/v2/models/other/versions/7/infer", BODY, SAMPLED)
        wrong = receive(received, 1)["POST /v2/models/{model}/versions/{version}/infer"]
        agent.ask("POST", "/v2/models/null/infer", BODY[:-1], SAMPLED)
        unreadable = receive(received, 1)["POST /v2/models/{model}/infer"]
    found = values(wrong["attributes"])
    assert (found["http.response.status_code"], found["edgeopt.model.version"]) == (404, "7")
    assert found["edgeopt.error"] == "There is no model 'other'; the one deployed here is 'null'."
    assert "status" not in wrong  # the fault of the caller, by the semantic conventions
    assert values(unreadable["attributes"])["http.response.status_code"] == 400
    assert "not a v2 inference request" in values(unreadable["attributes"])["edgeopt.error"]


def test_fault_of_the_server_is_an_error(start):
    with collecting(path=TRACES) as (received, url):
        agent = start(url, queue_length=0)
        assert agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)[0] == 503
        full = receive(received, 1)["POST /v2/models/{model}/infer"]
    assert values(full["attributes"])["http.response.status_code"] == 503
    assert full["status"]["code"] == 2
    assert full["status"]["message"].endswith("try again in a moment.")


def test_refused_body_is_traced(start):
    with collecting(path=TRACES) as (received, url):
        agent = start(url, max_body_bytes=10)
        assert agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)[0] == 413
        long = receive(received, 1)["POST /v2/models/{model}/infer"]
    assert values(long["attributes"])["http.response.status_code"] == 413


def test_ratio_traces_requests_without_a_traceparent_and_deployments(start, old_bundle):
    with collecting(path=TRACES) as (received, url):
        agent = start(url, otlp_trace_ratio=1.0)
        agent.ask("POST", "/v2/models/null/infer", BODY, {"traceparent": "00-nonsense"})
        found = receive(received, 4)
        agent.ask("POST", "/v2/models/null/infer", BODY, UNSAMPLED)
        agent.ask("POST", "/v2/models/null/infer", BODY)
        assert receive(received, 3)["queue"]["traceId"] != TRACE
    server = found["POST /v2/models/{model}/infer"]
    assert "parentSpanId" not in server
    assert server["traceId"] not in {TRACE, found["deploy"]["traceId"]}
    deployed = found["deploy"]
    told = values(deployed["attributes"])
    assert (told["edgeopt.deployment.id"], told["edgeopt.deployment.state"]) == (1, "committed")
    assert told["edgeopt.model.version"] == release_id(old_bundle)
    states = [event["name"] for event in deployed["events"]]
    assert states == [
        *("accepted", "receiving", "verifying", "staged", "probing", "switching", "soaking", "committed")
    ]
    assert deployed["startTimeUnixNano"] == deployed["events"][0]["timeUnixNano"]
    assert deployed["endTimeUnixNano"] == deployed["events"][-1]["timeUnixNano"]
    assert "status" not in deployed


def test_refused_deployment_is_an_error_with_its_reason(start, make_null_bundle):
    with collecting(path=TRACES) as (received, url):
        agent = start(url, otlp_trace_ratio=1.0)
        receive(received, 1)
        assert agent.deploy(make_null_bundle(noise=10.0))["state"] == "FAILED"
        refused = receive(received, 1)["deploy"]
    assert refused["status"]["code"] == 2
    assert "dB" in refused["status"]["message"]
    assert values(refused["events"][-1]["attributes"])["reason"] == refused["status"]["message"]


def test_spans_wait_for_a_collector_that_is_away_for_a_moment(start):
    with collecting(statuses=[503, 503], path=TRACES) as (received, url):
        agent = start(url)
        agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)
        batches = [received.get(timeout=SECONDS) for _ in range(3)]
    assert [status for status, *_ in batches] == [503, 503, 200]
    assert spans_of(batches[0][3]) == spans_of(batches[2][3])


def test_spans_that_the_collector_refuses_are_counted_and_requests_are_answered(start):
    with collecting(statuses=[400], path=TRACES) as (received, url):
        agent = start(url)
        assert agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)[0] == 200
        assert received.get(timeout=SECONDS)[0] == 400
        assert agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)[0] == 200
        assert received.get(timeout=SECONDS)[0] == 200
        assert dropped(agent) == 3


def test_clean_stop_sends_what_is_left(start):
    with collecting(path=TRACES) as (received, url):
        agent = start(url, otlp_interval_s=3600.0)
        agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)
        agent.stop()
        assert len(receive(received, 3)) == 3


def test_agent_without_collector_has_no_counter_of_spans(start):
    agent = start("")
    assert agent.ask("POST", "/v2/models/null/infer", BODY, SAMPLED)[0] == 200
    assert dropped(agent) is None


def dropped(agent):
    connection = http.client.HTTPConnection("127.0.0.1", agent.port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = re.search(r"^edgeopt_trace_spans_dropped\{\} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None
