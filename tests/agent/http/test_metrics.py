import http.client
import json

from prometheus_client.parser import text_string_to_metric_families

ROW = {"name": "x", "datatype": "FP32", "shape": [3, 4], "data": list(range(12))}


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
    for body in (json.dumps({"inputs": [ROW]}), json.dumps({"inputs": [ROW]}), "{}"):
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
        connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [ROW]}))
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
    connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [ROW]}))
    assert connection.getresponse().read()
    server.router._waiting = 1
    connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [ROW]}))
    assert connection.getresponse().read()
    server.router._waiting = 0
    found = scrape(connection)
    connection.close()
    failed = {
        reason: found["nv_inference_request_failure", reason, "abc", "null"] for reason in ("BACKEND", "REJECTED")
    }
    assert failed == {"BACKEND": 1, "REJECTED": 1}
