import http.client
import json

from prometheus_client.parser import text_string_to_metric_families

ROW = {"name": "x", "datatype": "FP32", "shape": [3, 4], "data": list(range(12))}


def scrape(connection):
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.getheader("content-type").startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.read().decode())
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


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
    assert found["nv_inference_request_failure", *labels] == 1
    assert found["nv_inference_count", *labels] == 6
    assert found["nv_inference_exec_count", *labels] == 2
    total, queue, compute = (
        found[f"nv_inference_{part}_duration_us", *labels] for part in ("request", "queue", "compute_infer")
    )
    assert 4000 <= compute <= total
    assert abs(total - queue - compute) < 1
    assert found["edgeopt_deployment_state", "COMMITTED", "abc"] == 1
    assert found["edgeopt_process_memory_bytes", "agent"] > 1 << 20
    assert found["edgeopt_process_memory_bytes", "worker"] > 1 << 20
    assert found["edgeopt_device_memory_used_bytes",] > 1 << 20
    connection.close()


def test_without_a_release_there_are_figures_of_the_device_alone(serving):
    connection = http.client.HTTPConnection(serving().place)
    found = scrape(connection)
    assert not [name for name, *_ in found if name.startswith("nv_inference_request")]
    assert ("edgeopt_process_memory_bytes", "worker") not in found
    assert found["nv_inference_pending_request_count",] == 0
    connection.close()
