"""Which requests are traced, and the buffer of their spans."""

import asyncio
import http.client
import json
import logging
import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.bundle.manifest import release_id
from edgeopt_agent.telemetry import otlp_traces
from edgeopt_agent.telemetry.tracing import (
    MOST_SENT_AT_ONCE,
    MOST_WAITING,
    SERVER,
    Parent,
    Span,
    Tracer,
    parse_traceparent,
)
from edgeopt_agent.telemetry.window import LatencyWindow
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

TRACE_TRACING, PARENT_TRACING = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE_TRACING}-{PARENT_TRACING}-01"


def span(number):
    return Span(TRACE_TRACING, f"{number:016x}", "test", SERVER, number, number + 1)


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (GOOD, True),
        (f"00-{TRACE_TRACING}-{PARENT_TRACING}-00", False),
        (f"00-{TRACE_TRACING}-{PARENT_TRACING}-02", False),
        (f"00-{TRACE_TRACING}-{PARENT_TRACING}-ff", True),
        (f"01-{TRACE_TRACING}-{PARENT_TRACING}-01", True),
        (f"cc-{TRACE_TRACING}-{PARENT_TRACING}-01-what-the-future-brings", True),
    ],
)
def test_traceparent_carries_the_callers_span(text, sampled):
    assert parse_traceparent(text) == Parent(TRACE_TRACING, PARENT_TRACING, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE_TRACING}-{PARENT_TRACING}-01",
        f"00-{TRACE_TRACING}-{PARENT_TRACING}-01-more",
        f"00-{TRACE_TRACING}-{PARENT_TRACING}-01-",
        f"01-{TRACE_TRACING}-{PARENT_TRACING}-01.more",
        f"00-{TRACE_TRACING.upper()}-{PARENT_TRACING}-01",
        f"00-{'0' * 32}-{PARENT_TRACING}-01",
        f"00-{TRACE_TRACING}-{'0' * 16}-01",
        f"00-{TRACE_TRACING[:-1]}-{PARENT_TRACING}-01",
        f"00-{TRACE_TRACING}-{PARENT_TRACING}-0x",
        f"00-{TRACE_TRACING}-{PARENT_TRACING}-1",
        f"0-{TRACE_TRACING}-{PARENT_TRACING}-01",
        f"00-{TRACE_TRACING}-{PARENT_TRACING}-01\n",
        f"00_{TRACE_TRACING}_{PARENT_TRACING}_01",
    ],
)
def test_malformed_traceparent_is_ignored(text):
    assert parse_traceparent(text) is None


def test_two_traceparents_are_ignored():
    assert Tracer(0.0).begin("test", [GOOD, GOOD]) is None
    assert Tracer(0.0).begin("test", [GOOD]) is not None


def test_ratio_decides_where_the_caller_does_not():
    assert Tracer(0.0).begin("test", []) is None
    assert Tracer(1.0).begin("test", []) is not None
    assert Tracer(1.0).begin("test", [GOOD[:-1] + "0"]) is None
    tracer = Tracer(0.25)
    traced = sum(tracer.begin("test", []) is not None for _ in range(4000))
    assert 700 < traced < 1300


def test_full_buffer_drops_the_oldest_and_counts_them():
    tracer = Tracer(1.0)
    for number in range(MOST_WAITING + 3):
        tracer.add(span(number))
    assert tracer.dropped == 3
    assert tracer.take()[0] == span(3)


def test_batch_that_was_not_sent_goes_back_before_newer_spans():
    tracer = Tracer(1.0)
    for number in range(MOST_WAITING):
        tracer.add(span(number))
    batch = tracer.take()
    assert len(batch) == MOST_SENT_AT_ONCE
    for number in range(10):
        tracer.add(span(MOST_WAITING + number))
    tracer.put_back(batch)
    assert tracer.dropped == 10
    assert tracer.take()[0] == span(10)


def test_collector_that_fails_is_logged_once(caplog):
    async def export(url):
        tracer = Tracer(1.0)
        tracer.add(span(1))
        exporting = asyncio.create_task(otlp_traces.export(url, 0.01, tracer))
        while len(caplog.records) < 2:
            await asyncio.sleep(0.01)
        exporting.cancel()
        await asyncio.gather(exporting, return_exceptions=True)

    with caplog.at_level(logging.INFO), collecting(statuses=[503, 503, 503]) as (received, url):
        asyncio.run(export(url))
        assert [received.get()[0] for _ in range(4)] == [503, 503, 503, 200]
    failed, worked = [record.message for record in caplog.records]
    assert failed.startswith(f"The collector at {url} gets no traces: HTTP Error 503")
    assert worked == f"The collector at {url} gets traces again."


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


LATENCIES = st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=200)
SHARES = (0.5, 0.9, 0.99)


@given(LATENCIES)
def test_percentiles_are_those_of_the_values_within_half_a_percent(latencies):
    window = LatencyWindow(10)
    for latency in latencies:
        window.add(latency)
    window.tick()
    exact = np.quantile(latencies, SHARES, method="inverted_cdf")
    assert window.quantiles(SHARES) == pytest.approx(list(exact), rel=0.006)
    assert window.last() == pytest.approx(exact[0], rel=0.006)


@given(st.lists(st.lists(st.floats(0.01, 100), max_size=5), min_size=1, max_size=12))
def test_what_is_older_than_the_window_is_forgotten(ticks):
    window = LatencyWindow(3)
    for latencies in ticks:
        for latency in latencies:
            window.add(latency)
        window.tick()
    recent = [latency for latencies in ticks[-3:] for latency in latencies]
    found = window.quantiles((0.5,))
    if recent:
        assert found == pytest.approx([np.quantile(recent, 0.5, method="inverted_cdf")], rel=0.006)
    else:
        assert found == []
    assert window.count(2) == sum(map(len, ticks[-2:]))
    assert (window.last() is None) is (not ticks[-1])


def test_nothing_has_no_percentiles():
    window = LatencyWindow(3)
    assert window.last() is None
    assert window.quantiles(SHARES) == []


def test_the_values_of_the_last_tick_are_told_one_by_one():
    window = LatencyWindow(3)
    assert window.last_values() == ()
    for latency_ms in (1.0, 1.0, 40.0):
        window.add(latency_ms)
    window.tick()
    assert sorted(window.last_values()) == pytest.approx([1.0, 1.0, 40.0], rel=0.006)
    window.tick()
    assert window.last_values() == ()
