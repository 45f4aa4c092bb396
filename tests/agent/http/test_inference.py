"""The protocol as `tritonclient.http`, unmodified, speaks it."""

import gzip
import http.client
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from edgeopt.bundle.runtime.session import load
from edgeopt.hw.load import process_memory_bytes


@pytest.fixture(scope="module")
def conv(serving_all, conv_bundle):
    """A server that serves the convolution to all tests here."""
    server = serving_all()
    server.deploy(conv_bundle, "c0ffee000000")
    return server


@pytest.fixture(scope="module")
def tight(serving_all, old_bundle):
    """One that takes no more than 8 MiB at once."""
    server = serving_all(max_body_bytes=8 << 20)
    server.deploy(old_bundle)
    return server


@pytest.fixture
def client(conv):
    with triton.InferenceServerClient(conv.place) as client:
        yield client


def tensor(array, name="x", binary=True):
    given = triton.InferInput(name, list(array.shape), triton.np_to_triton_dtype(array.dtype))
    return given.set_data_from_numpy(array, binary_data=binary)


def pictures(rows=1, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, 3, 16, 16)).astype(np.float32)


def test_server_and_model_say_what_they_are(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("conv")
    assert client.is_model_ready("conv", "c0ffee000000")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    metadata = client.get_model_metadata("conv")
    assert metadata["versions"] == ["c0ffee000000"]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 16, 16]}]
    assert metadata["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 10]}]
    assert client.get_model_config("conv")["input"][0] == {
        "name": "x",
        "data_type": "TYPE_FP32",
        "dims": [-1, 3, 16, 16],
    }
    index = [{"name": "conv", "version": "c0ffee000000", "state": "READY", "reason": ""}]
    assert client.get_model_repository_index() == index


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_answers_are_those_of_the_runtime(client, conv_bundle, binary_in, binary_out):
    with load(conv_bundle) as session:
        expected = session.run({"x": pictures(3)})["y"]
    wanted = [triton.InferRequestedOutput("y", binary_data=binary_out)]
    answer = client.infer("conv", [tensor(pictures(3), binary=binary_in)], outputs=wanted, request_id="seven")
    assert answer.get_response()["id"] == "seven"
    assert answer.get_response()["model_version"] == "c0ffee000000"
    assert ("data" in answer.get_output("y")) is not binary_out
    assert answer.as_numpy("y").dtype == np.float32
    np.testing.assert_array_equal(answer.as_numpy("y"), expected)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_request_may_be_compressed(client, encoding):
    plain = client.infer("conv", [tensor(pictures())]).as_numpy("y")
    answer = client.infer("conv", [tensor(pictures())], request_compression_algorithm=encoding)
    np.testing.assert_array_equal(answer.as_numpy("y"), plain)


def test_one_connection_may_ask_for_a_named_version(client):
    assert client.infer("conv", [tensor(pictures())], model_version="c0ffee000000").as_numpy("y").shape == (1, 10)
    with pytest.raises(InferenceServerException, match="no version '1'") as caught:
        client.infer("conv", [tensor(pictures())], model_version="1")
    assert caught.value.status() == "404"


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        ([tensor(pictures(), "z")], None, "no input 'z'; it takes: x"),
        ([tensor(pictures().astype(np.float64))], None, "'x' must be of the datatype FP32, not FP64"),
        ([tensor(pictures()[0])], None, "'x' must have 4 dimensions"),
        ([tensor(pictures()[:, :2])], None, r"'x' must have the shape \[batch, 3, 16, 16\]"),
        ([tensor(pictures()), tensor(pictures())], None, "'x' is given twice"),
        ([], None, "'x' is missing"),
        ([tensor(pictures())], [triton.InferRequestedOutput("q")], "no output 'q'"),
        ([tensor(pictures())], [triton.InferRequestedOutput("y", class_count=2)], "Classification"),
        ([tensor(pictures())], [triton.InferRequestedOutput("y")] * 2, "asked for twice"),
    ],
)
def test_a_wrong_request_is_refused_with_a_sentence(client, inputs, outputs, words):
    with pytest.raises(InferenceServerException, match=words) as caught:
        client.infer("conv", inputs, outputs=outputs)
    assert caught.value.status() == "400"
    assert client.infer("conv", [tensor(pictures())]).as_numpy("y").shape == (1, 10)


def test_what_the_server_does_not_do_is_said(client):
    with pytest.raises(InferenceServerException, match="deploy a bundle"):
        client.load_model("conv")
    with pytest.raises(InferenceServerException, match="deploy a bundle"):
        client.unload_model("conv")
    with pytest.raises(InferenceServerException, match="the one deployed here is 'conv'"):
        client.infer("other", [tensor(pictures())])
    with pytest.raises(InferenceServerException, match="keeps no state"):
        client.infer("conv", [tensor(pictures())], sequence_id=3)
    region = triton.InferInput("x", [1, 3, 16, 16], "FP32")
    region.set_shared_memory("region", 3072)
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.infer("conv", [region])


def test_without_a_release_the_server_lives_but_is_not_ready(serving):
    with triton.InferenceServerClient(serving().place) as client:
        assert client.is_server_live()
        assert not client.is_server_ready()
        assert client.get_model_repository_index() == []
        with pytest.raises(InferenceServerException, match="no release is deployed"):
            client.infer("conv", [tensor(pictures())])


def test_every_kind_of_tensor_goes_both_ways(serving, null_bundle):
    kinds = ("float16", "float32", "float64", "bool", "str", "int8", "int64", "uint8", "uint64")
    ports = [{"name": kind, "dtype": kind, "shape": ["batch", 3]} for kind in kinds]
    server = serving()
    server.deploy(null_bundle(inputs=ports, outputs=[{**port, "name": f"to {port['name']}"} for port in ports]))
    arrays = {kind: np.arange(6).reshape(2, 3).astype(object if kind == "str" else kind) for kind in kinds}
    arrays["str"] = np.array([["", "ä", "\0"], ["long " * 50, "b", "c"]], object)
    with triton.InferenceServerClient(server.place) as client:
        answers = []
        for binary in (True, False):
            outputs = [triton.InferRequestedOutput(f"to {kind}", binary_data=binary) for kind in kinds]
            inputs = [tensor(array, kind, binary) for kind, array in arrays.items()]
            answers.append(client.infer("null", inputs, outputs=outputs))
        for kind in kinds:
            by_bytes, by_json = (answer.as_numpy(f"to {kind}") for answer in answers)
            assert by_bytes.shape == (2, 3)
            texts = [t.decode() if isinstance(t, bytes) else t for t in by_bytes.flat]
            assert texts == list(by_json.flat)


def test_many_clients_get_their_own_answers(serving, conv_bundle):
    conv = serving()
    conv.deploy(conv_bundle)
    with load(conv_bundle) as session:
        expected = [session.run({"x": pictures(1, seed)})["y"] for seed in range(4)]
    wrong = []

    def ask(seed):
        with triton.InferenceServerClient(conv.place) as client:
            for _ in range(50):
                answer = client.infer("conv", [tensor(pictures(1, seed))]).as_numpy("y")
                if not np.array_equal(answer, expected[seed]):
                    wrong.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with triton.InferenceServerClient(conv.place) as client:
        stats = client.get_inference_statistics("conv")["model_stats"][0]
    assert stats["inference_stats"]["success"]["count"] == 200
    assert stats["inference_stats"]["fail"]["count"] == 0
    assert stats["inference_stats"]["compute_infer"]["ns"] > 0


def test_a_thousand_requests_leave_no_memory_behind(conv, client):
    pid = conv.router.serving.pid
    large = tensor(pictures(300))

    def ask(times):
        for _ in range(times):
            client.infer("conv", [tensor(pictures())])
        client.infer("conv", [large])

    ask(100)
    before = process_memory_bytes(pid)
    ask(1000)
    assert process_memory_bytes(pid) - before < 4 << 20


def test_json_has_no_infinity_so_it_is_asked_for_as_bytes(conv):
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3, 16, 16], "data": [3e38] * 768}]}
    status, answer = post(conv, "/v2/models/conv/infer", json.dumps(body))
    assert status == 400
    assert "'y' holds NaN or infinity" in answer["error"]


def post(server, path, body, **headers):
    connection = http.client.HTTPConnection(server.place)
    connection.request("POST", path, body, {key.replace("_", "-"): value for key, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        ("", {}, 400, "not a v2 inference request"),
        ("[" * 100_000, {}, 400, "nested too deeply|not a v2"),
        ("{}", {"Inference_Header_Content_Length": "NaN"}, 400, "must be a number"),
        ("{}", {"Inference_Header_Content_Length": "-1"}, 400, "must be a number"),
        ("{}", {"Inference_Header_Content_Length": "3"}, 400, "more than the body's 2 bytes"),
        ("{}", {"Content_Encoding": "br"}, 415, "gzip or deflate"),
        ("{}", {"Content_Encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(b" " * (9 << 20), mtime=0), {"Content_Encoding": "gzip"}, 413, "inflates to more"),
        (gzip.compress(b"{}", mtime=0)[:-4], {"Content_Encoding": "gzip"}, 400, "not one complete piece"),
    ],
)
def test_a_malformed_body_is_refused(tight, body, headers, status, words):
    got, answer = post(tight, "/v2/models/null/infer", body, **headers)
    assert got == status
    assert any(word in answer["error"] for word in words.split("|"))


def test_wrong_paths_and_methods_are_told_apart(serving):
    server = serving()
    connection = http.client.HTTPConnection(server.place)
    for method, path, status in (
        ("GET", "/v2/nothing", 404),
        ("POST", "/v2", 405),
        ("GET", "/v2/models/conv/infer", 405),
        ("GET", "/v2/repository/index", 405),
        ("OPTIONS", "/v2/models/conv/infer", 405),
        ("HEAD", "/v2/health/live", 200),
    ):
        connection.request(method, path)
        answer = connection.getresponse()
        answer.read()
        assert (method, path, answer.status) == (method, path, status)
        assert answer.getheader("access-control-allow-origin") is None
        assert answer.getheader("edgeopt-trust") == "unsigned"
    connection.close()


def test_a_worker_that_hangs_is_not_ready(serving, null_bundle):
    server = serving(ready_timeout_s=0.25)
    worker = server.deploy(null_bundle())
    with triton.InferenceServerClient(server.place) as client:
        while not client.is_server_ready():  # a busy machine may let it wait; the test's own limit ends it
            assert psutil.pid_exists(worker.pid)
        os.kill(worker.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
        assert client.is_server_live()
        assert not client.is_server_ready()
        assert not client.is_model_ready("null")
    os.kill(worker.pid, signal.SIGKILL)  # a clean stop would wait for it


def test_a_worker_whose_run_hangs_with_the_lock_free_is_not_ready(serving, null_bundle):
    server = serving(ready_timeout_s=1.0)
    worker = server.deploy(null_bundle(hang_on=-1))
    server.do(worker.golden(30.0))
    row = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [-1, 2, 3, 4]}
    with ThreadPoolExecutor() as pool, triton.InferenceServerClient(server.place) as client:
        while not client.is_server_ready():
            assert worker.alive
        asked = pool.submit(post, server, "/v2/models/null/infer", json.dumps({"inputs": [row]}))
        while client.is_server_ready():  # the test's own limit ends it
            assert not asked.done()
        assert server.do(worker.heartbeat_answers(30.0)), "its heartbeat alone would call it ready"
        assert not client.is_model_ready("null")
        worker.kill("the test is over")
        assert asked.result()[0] == 503


@pytest.mark.slow  # shorter limits would judge how busy the machine is
def test_a_worker_that_computes_for_long_is_ready_and_left_alone(serving, null_bundle):
    server = serving(ready_timeout_s=20.0, hang_timeout_s=8.0, heartbeat_s=0.05)
    server.deploy(null_bundle(latency_ms=12_000))
    row = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    with ThreadPoolExecutor() as pool, triton.InferenceServerClient(server.place) as client:
        asked = pool.submit(post, server, "/v2/models/null/infer", json.dumps({"inputs": [row]}))
        while not server.router.waiting:
            assert not asked.done()
            time.sleep(0.01)
        assert client.is_server_ready()
        assert not asked.done()
        assert asked.result()[0] == 200


def test_requests_of_several_clients_share_runs(serving, null_bundle):
    server = serving(batch_max_size=4, batch_max_delay_us=1_000_000)
    server.deploy(null_bundle(latency_ms=5.0))
    array = np.ones((1, 4), np.float32)

    def ask(_number):
        with triton.InferenceServerClient(server.place) as client:
            return client.infer("null", [tensor(array)]).as_numpy("y").tolist()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert found == [found[0]] * 4
    with triton.InferenceServerClient(server.place) as client:
        (stats,) = client.get_inference_statistics("null")["model_stats"]
        config = client.get_model_config("null")
    assert stats["inference_count"] == 4
    assert stats["execution_count"] < 4
    assert (config["max_batch_size"], config["input"][0]["dims"]) == (4, [4])
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 1_000_000}
