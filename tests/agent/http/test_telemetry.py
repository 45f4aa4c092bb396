import asyncio
import http.client
import json
import re
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from edgeopt.events import Log, Metric, Progress, decode
from edgeopt_agent.http import telemetry
from tests.agent.infer_request import infer_request

ROW = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
REQUEST = json.dumps({"inputs": [ROW]}).encode()


def watch(server, **options):
    return connect(f"ws://{server.place}{telemetry.PATH}", **options)


def events(viewer, until):
    """All events up to one for which `until` holds."""
    found = []
    while True:
        for line in viewer.recv(10).splitlines():
            found.append(decode(line))
            if until(found[-1]):
                return found


def is_metric(name):
    return lambda event: isinstance(event, Metric) and event.name == name


def test_a_viewer_sees_latency_memory_and_load_move(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(latency_ms=5))
    with watch(server) as viewer:
        events(viewer, is_metric("throughput_per_s"))
        for _ in range(3):
            server.do(server.router.infer(infer_request(REQUEST)))
        found = events(viewer, is_metric("latency_p99_ms"))
        found += events(viewer, is_metric("load_percent"))
        latest = {event.name: event for event in found if isinstance(event, Metric)}
        assert 4.9 < latest["latency_p50_ms"].value <= latest["latency_p99_ms"].value < 500
        assert latest["process_memory_bytes"].value > 10 << 20
        assert latest["agent_memory_bytes"].value > 10 << 20
        assert latest["device_memory_bytes"].value > 10 << 20
        assert 0 <= latest["load_percent"].value <= 100
        assert all(event.time_s > 1.7e9 for event in latest.values())
        told = {event.message.split()[4].rstrip(":") for event in found if isinstance(event, Log)}
        assert told.isdisjoint(latest)


def test_deployments_are_told_as_they_happen_and_the_present_one_to_late_viewers(serving):
    server = serving()
    first = Progress("probing", "digits", subject="deployment 1", time_s=1.0)
    second = Progress("committed", "digits", subject="deployment 1", time_s=2.0)
    server.loop.call_soon_threadsafe(server.hub.publish, first)
    with watch(server) as early:
        assert events(early, lambda event: isinstance(event, Progress))[-1] == first
        server.loop.call_soon_threadsafe(server.hub.publish, second)
        assert events(early, lambda event: isinstance(event, Progress))[-1] == second
        with watch(server) as late:
            assert events(late, lambda event: isinstance(event, Progress)) == [second]


def test_nobody_watching_costs_nothing_and_many_share_one_sampler(serving):
    server = serving()
    assert not server.hub.sampling
    with watch(server) as one, watch(server) as other:
        events(one, is_metric("throughput_per_s"))
        events(other, is_metric("throughput_per_s"))
        assert server.hub.viewers == 2
        assert len(server.router.watchers) == 1
    gone(server)


def gone(server):
    async def left():
        async with asyncio.timeout(60):
            while server.hub.viewers:
                await asyncio.sleep(0.01)

    server.do(left())
    assert not server.hub.sampling
    assert server.router.watchers == []


def test_the_lease_ends_unless_it_is_renewed(serving, monkeypatch):
    monkeypatch.setattr(telemetry.routes, "__defaults__", (0.6,))
    server = serving()
    with watch(server) as renewing, watch(server) as silent:
        for _ in range(4):
            events(renewing, is_metric("throughput_per_s"))
            renewing.send("more")
        with pytest.raises(ConnectionClosed) as caught:
            read_on(silent, lambda: renewing.send("more"))
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4000, "lease ended")
        renewing.send("still here")
        events(renewing, is_metric("throughput_per_s"))
    gone(server)


def read_on(viewer, after_each):
    while True:
        viewer.recv(10)
        after_each()


def test_a_viewer_that_does_not_read_is_dropped(serving):
    server = serving(drain_s=0.2)
    with watch(server, max_queue=1, close_timeout=0.1) as stuck:
        events(stuck, is_metric("throughput_per_s"))

        async def flood():
            async with asyncio.timeout(60):
                while server.hub.viewers:
                    server.hub.publish(Log("info", "x" * 100_000))
                    await asyncio.sleep(0)

        server.do(flood())
    gone(server)


def test_a_page_in_a_browser_may_not_watch(serving):
    with pytest.raises(InvalidStatus) as caught:
        watch(serving(), origin="http://somewhere.example")
    assert caught.value.response.status_code == 403


def test_a_query_is_refused_as_it_would_not_be_followed(serving):
    with pytest.raises(InvalidStatus), connect(f"ws://{serving().place}{telemetry.PATH}?lease_s=5"):
        pass


ROW_METRICS = {"name": "x", "datatype": "FP32", "shape": [3, 4], "data": list(range(12))}


def scrape(connection):
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.getheader("content-type").startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.read().decode())
    # The parser knows counters by this end of their names, and adds it.
    return {
        (s.name.removesuffix("_total"), *sorted(s.labels.values())): s.value
        for family in families
        for s in family.samples
    }


def test_requests_are_counted_under_the_names_that_triton_gives_them(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(latency_ms=2), "abc")
    connection = http.client.HTTPConnection(server.place)
    for body in (json.dumps({"inputs": [ROW_METRICS]}), json.dumps({"inputs": [ROW_METRICS]}), "{}"):
        connection.request("POST", "/v2/models/null/infer", body)
        connection.getresponse().read()
    found = scrape(connection)
    labels = ("abc", "null")
    assert found["nv_inference_request_success", *labels] == 2
    assert found["nv_inference_request_failure", "OTHER", *labels] == 1
    assert found["nv_inference_request_failure", "BACKEND", *labels] == 0
    assert found["nv_inference_pending_request_count", *labels] == 0
    assert found["nv_inference_count", *labels] == 6
    assert found["nv_inference_exec_count", *labels] == 2
    total, queue, compute = (
        found[f"nv_inference_{part}_duration_us", *labels] for part in ("request", "queue", "compute_infer")
    )
    assert 4000 <= compute <= total
    assert abs(total - queue - compute) < 1
    assert found["edgeopt_deployment_state", "COMMITTED", "abc", "null"] == 1
    assert found["edgeopt_process_memory_bytes", "agent"] > 1 << 20
    assert found["edgeopt_process_memory_bytes", "null", "worker"] > 1 << 20
    assert found["edgeopt_device_memory_used_bytes",] > 1 << 20
    connection.close()


def test_without_a_release_there_are_figures_of_the_device_alone(serving):
    connection = http.client.HTTPConnection(serving().place)
    found = scrape(connection)
    assert not [name for name, *_ in found if name.startswith("nv_inference_request")]
    assert [key for key in found if key[0] == "edgeopt_process_memory_bytes"] == [
        ("edgeopt_process_memory_bytes", "agent")
    ]
    connection.close()


def test_counters_and_histograms_are_zero_before_the_first_request(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(), "abc")
    connection = http.client.HTTPConnection(server.place)
    found = scrape(connection)
    connection.close()
    labels = ("abc", "null")
    assert found["nv_inference_request_success", *labels] == 0
    assert found["nv_inference_request_failure", "BACKEND", *labels] == 0
    assert found["nv_inference_first_response_histogram_ms_count", *labels] == 0
    assert found["nv_inference_first_response_histogram_ms_bucket", "+Inf", *labels] == 0


def test_each_figure_has_its_type_under_the_name_that_triton_gives_it(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(), "abc")
    connection = http.client.HTTPConnection(server.place)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    for name, kind in (
        ("nv_inference_request_success", "counter"),
        ("nv_inference_request_failure", "counter"),
        ("nv_inference_request_duration_us", "counter"),
        ("nv_inference_pending_request_count", "gauge"),
        ("nv_inference_first_response_histogram_ms", "histogram"),
    ):
        assert f"# TYPE {name} {kind}" in lines
    assert 'nv_inference_pending_request_count{model="null",version="abc"} 0.0' in lines


def test_latencies_are_a_histogram(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(latency_ms=12), "abc")
    connection = http.client.HTTPConnection(server.place)
    for _ in range(3):
        connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [ROW_METRICS]}))
        connection.getresponse().read()
    connection.request("GET", "/metrics")
    families = {f.name: f for f in text_string_to_metric_families(connection.getresponse().read().decode())}
    connection.close()
    samples = families["nv_inference_first_response_histogram_ms"].samples
    buckets = {float(s.labels["le"]): s.value for s in samples if s.name.endswith("_bucket")}
    assert list(buckets.values()) == sorted(buckets.values())
    assert (buckets[10.0], buckets[float("inf")]) == (0, 3)
    assert next(s.value for s in samples if s.name.endswith("_count")) == 3
    assert next(s.value for s in samples if s.name.endswith("_sum")) >= 36


def test_failures_are_counted_by_reason(serving, null_bundle):
    server = serving(queue_length=1)
    server.deploy(null_bundle(fail="run", name="null"), "abc")
    connection = http.client.HTTPConnection(server.place)
    connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [ROW_METRICS]}))
    assert connection.getresponse().read()
    server.router._waiting = 1
    connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [ROW_METRICS]}))
    assert connection.getresponse().read()
    server.router._waiting = 0
    found = scrape(connection)
    connection.close()
    failed = {
        reason: found["nv_inference_request_failure", reason, "abc", "null"] for reason in ("BACKEND", "REJECTED")
    }
    assert failed == {"BACKEND": 1, "REJECTED": 1}


def test_a_release_has_one_name_in_all_labels(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(), "abc")
    with closing(http.client.HTTPConnection(server.place)) as connection:
        connection.request("GET", "/metrics")
        said = connection.getresponse().read().decode()
    labels = {found[1] for found in re.finditer(r'(\w+)="abc"', said)}
    assert labels == {"version"}
    assert 'edgeopt_deployment_state{model="null",version="abc",state="COMMITTED"} 1.0' in said
