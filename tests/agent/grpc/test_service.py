"""gRPC as part of the agent: what it loads, its port, and deployments while clients ask."""

import queue
import socket
import threading
import time

import grpc
import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.read import Bundle
from edgeopt.bundle.runtime.session import load
from edgeopt_agent.deployments.states import FINAL
from tests.agent.conftest import PATIENT, Running, X, Y
from tests.ports import free_port

CLIENTS = 3
MODEL = "1" * 64
SECONDS_SERVICE = 30


def service_tensor(array):
    given = triton.InferInput("x", list(array.shape), "FP32")
    given.set_data_from_numpy(array)
    return given


def libraries(agent):
    return [m.path.rsplit("/", 1)[-1] for m in psutil.Process(agent.process.pid).memory_maps()]


@pytest.mark.cold
def test_grpc_brings_no_numbers_and_no_runtime_into_the_agent(start_grpc, connect):
    agent = start_grpc(deployed=True)
    connect(agent).infer("null", [service_tensor(np.ones((1, 4), np.float32))])
    found = libraries(agent)
    assert [name for name in found if name.startswith("cygrpc")]
    assert not [name for name in found if name.startswith(("_multiarray_umath", "onnxruntime", "libopenvino"))]


@pytest.mark.cold
def test_without_a_port_grpc_is_not_loaded(start_serving):
    agent = start_serving()
    assert not [name for name in libraries(agent) if name.startswith(("cygrpc", "_message."))]


def test_a_taken_port_is_named(start_agent):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AssertionError, match=rf"Port {port} of 127.0.0.1 is taken by another program"):
            start_agent(grpc_port=port)


def test_requests_by_grpc_are_compared_with_the_predecessor(start_grpc, connect, make_null_bundle):
    agent = start_grpc()
    assert agent.deploy(make_null_bundle(source=MODEL))["state"] == "COMMITTED"
    # Its golden outputs are its own: only its predecessor can tell that it answers wrong.
    status, _, sent = agent.send(make_null_bundle(source=MODEL, model={"noise": 5.0}), soak_s=60)
    assert status == 202, sent
    client = connect(agent)

    def look():
        client.infer("null", [service_tensor(np.ones((1, 4), np.float32))])
        found = agent.ask("GET", f"/api/v1/deployments/{sent['deployment']['id']}")[2]["deployment"]
        return found if found["state"] in FINAL else None

    done = agent.until(look, "the end of the comparison")
    assert done["state"] == "ROLLED_BACK", done
    assert "agrees with that of the release before it" in done["reason"]


class Client(threading.Thread):
    """Asks by calls and on a stream in turns, and checks that each answer is one release's."""

    def __init__(self, agent, feeds, answers, stop):
        super().__init__(daemon=True)
        self.place, self.feeds, self.answers, self.stopped = agent.grpc, feeds, answers, stop
        self.failures, self.served, self.releases = [], 0, set()

    def run(self):
        with triton.InferenceServerClient(self.place) as client:
            found = queue.Queue()
            client.start_stream(lambda result, error: found.put((result, error)))
            while not self.stopped.is_set():
                try:
                    self.ask(client, found)
                except Exception as error:  # noqa: BLE001 - whatever a client raises is what its user would see
                    self.failures.append(f"{type(error).__name__}: {error}")
                self.served += 1
                self.stopped.wait(0.005)

    def ask(self, client, found):
        given = [service_tensor(self.feeds["x"])]
        if self.served % 2:
            answer = client.infer("null", given)
        else:
            client.async_stream_infer("null", given)
            answer, error = found.get(timeout=SECONDS_SERVICE)
            if error is not None:
                raise error
        release = answer.get_response().model_version
        self.releases.add(release)
        np.testing.assert_allclose(answer.as_numpy("y"), self.answers[release], rtol=1e-5)


@pytest.mark.timeout(150)
def test_no_call_fails_while_releases_come_and_go(start_grpc, make_null_bundle):
    bundles = [make_null_bundle(model={"noise": noise}) for noise in (0.0, 0.125, 0.25)]
    opened = [Bundle(bundle, None) for bundle in bundles]
    feeds = opened[0].golden("inputs")[0]
    answers = {
        release_id(bundle): each.golden("outputs")[0]["y"] for bundle, each in zip(bundles, opened, strict=True)
    }
    agent = start_grpc(soak_s=0.3, soak_requests=30)
    assert agent.deploy(bundles[0])["state"] == "COMMITTED"
    stop = threading.Event()
    clients = [Client(agent, feeds, answers, stop) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    ends = []
    for bundle in bundles[1:]:
        ends.append(agent.deploy(bundle)["state"])
        ends.append(agent.roll_back()["state"])
    begin = time.monotonic()
    while min(client.served for client in clients) < 50 and time.monotonic() < begin + SECONDS_SERVICE:
        stop.wait(0.05)
    stop.set()
    for client in clients:
        client.join(60)
        assert client.failures == []
    assert ends == ["COMMITTED"] * 4
    assert set().union(*(client.releases for client in clients)) == set(answers)


SECONDS = 30


@pytest.fixture(scope="module")
def agent(tmp_path_factory, old_bundle):
    """One that serves the null model to all tests here."""
    port = free_port()
    running = Running(
        tmp_path_factory.mktemp("grpc") / "agent", grpc_port=port, soak_s=0.0, soak_requests=0, **PATIENT
    )
    running.grpc = f"127.0.0.1:{port}"
    try:
        assert running.deploy(old_bundle)["state"] == "COMMITTED"
        yield running
    finally:
        running.close()


@pytest.fixture
def client(agent, connect):
    return connect(agent)


@pytest.fixture
def stub(agent):
    with grpc.insecure_channel(agent.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def tensor(array, name="x"):
    given = triton.InferInput(name, list(array.shape), triton.np_to_triton_dtype(array.dtype))
    given.set_data_from_numpy(array)
    return given


def rows(count=1):
    return np.arange(count * 4, dtype=np.float32).reshape(count, 4)


def test_server_and_model_say_what_they_are(client, old_bundle):
    release = release_id(old_bundle)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("null")
    assert client.is_model_ready("null", release)
    assert not client.is_model_ready("other")
    assert client.get_server_metadata().name == "edgeopt-agent"
    metadata = client.get_model_metadata("null", as_json=True)
    assert metadata["versions"] == [release]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "4"]}]
    index = client.get_model_repository_index(as_json=True)
    assert index == {"models": [{"name": "null", "version": release, "state": "READY"}]}


def test_answers_are_those_over_http(agent, client, old_bundle):
    x = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": rows(2).ravel().tolist()}
    _, _, http = agent.ask("POST", "/v2/models/null/infer", f'{{"inputs": [{x}]}}'.replace("'", '"'))
    wanted = [triton.InferRequestedOutput("y")]
    answer = client.infer("null", [tensor(rows(2))], outputs=wanted, request_id="seven", parameters={"own": 1})
    np.testing.assert_allclose(answer.as_numpy("y").ravel(), http["outputs"][0]["data"], rtol=1e-6)
    response = answer.get_response()
    assert (response.id, response.model_name) == ("seven", "null")
    assert response.model_version == release_id(old_bundle)


def test_typed_contents_are_taken(stub):
    contents = service_pb2.InferTensorContents(fp32_contents=rows(2).ravel())
    x = service_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[2, 4], contents=contents)
    typed = stub.ModelInfer(service_pb2.ModelInferRequest(model_name="null", inputs=[x]))
    x.ClearField("contents")
    raw = stub.ModelInfer(
        service_pb2.ModelInferRequest(model_name="null", inputs=[x], raw_input_contents=[rows(2).tobytes()])
    )
    assert typed == raw


def test_a_stream_is_answered_in_order_and_goes_on_after_an_error(client):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number in range(5):
        client.async_stream_infer("null", [tensor(rows(number + 1))], request_id=str(number))
    client.async_stream_infer("other", [tensor(rows())], request_id="wrong")
    client.async_stream_infer("null", [tensor(rows())], request_id="last")
    found = [answers.get(timeout=SECONDS) for _ in range(7)]
    client.stop_stream()
    good = [result for result, error in found if error is None]
    assert [each.get_response().id for each in good] == ["0", "1", "2", "3", "4", "last"]
    assert [len(each.as_numpy("y")) for each in good] == [1, 2, 3, 4, 5, 1]
    assert "There is no model 'other'" in str(found[5][1])


def test_calls_are_counted_like_requests_over_http(agent, client):
    def counted():
        (stats,) = client.get_inference_statistics("null").model_stats
        return stats.inference_stats.success.count, stats.inference_count, stats.inference_stats.fail.count

    before = counted()
    client.infer("null", [tensor(rows(3))])
    with pytest.raises(InferenceServerException):
        client.infer("null", [tensor(rows().astype(np.int32))])
    after = counted()
    assert [a - b for a, b in zip(after, before, strict=True)] == [1, 3, 1]
    assert agent.ask("GET", "/v2/models/null/stats")[2]["model_stats"][0]["inference_count"] == after[1]


WRONG_SHAPE = tensor(np.zeros((1, 5), np.float32))
WRONG_OUTPUT = triton.InferRequestedOutput("z")
WRONG_TYPE = tensor(rows().astype(np.float64))


@pytest.mark.parametrize(
    ("code", "sentence", "name", "inputs", "more"),
    [
        ("NOT_FOUND", "There is no model 'other'", "other", [tensor(rows())], {}),
        ("NOT_FOUND", "There is no version '1'", "null", [tensor(rows())], {"model_version": "1"}),
        ("INVALID_ARGUMENT", "must have the shape", "null", [WRONG_SHAPE], {}),
        ("INVALID_ARGUMENT", "must be of the datatype FP32, not FP64", "null", [WRONG_TYPE], {}),
        ("INVALID_ARGUMENT", "has no input 'z'", "null", [tensor(rows(), "z")], {}),
        ("INVALID_ARGUMENT", "is missing", "null", [], {}),
        ("INVALID_ARGUMENT", "given twice", "null", [tensor(rows()), tensor(rows())], {}),
        ("INVALID_ARGUMENT", "has no output 'z'", "null", [tensor(rows())], {"outputs": [WRONG_OUTPUT]}),
        ("INVALID_ARGUMENT", "belongs to a sequence", "null", [tensor(rows())], {"sequence_id": 3}),
    ],
)  # fmt: skip
def test_wrong_requests_get_their_code_and_a_sentence(client, code, sentence, name, inputs, more):
    with pytest.raises(InferenceServerException, match=sentence) as caught:
        client.infer(name, inputs, **more)
    assert caught.value.status() == f"StatusCode.{code}"


def test_shared_memory_is_refused(client):
    region = triton.InferInput("x", [1, 4], "FP32")
    region.set_shared_memory("region", 16)
    with pytest.raises(InferenceServerException, match="lies in shared memory"):
        client.infer("null", [region])


@pytest.mark.parametrize("method", ["ModelInfer", "ModelMetadata"])
def test_what_is_no_message_is_a_bad_request(agent, method):
    with grpc.insecure_channel(agent.grpc) as channel:
        call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff")
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_the_configuration_is_that_over_http(agent, client, old_bundle):
    config = client.get_model_config("null", as_json=True)["config"]
    shown = {"name": "x", "data_type": "TYPE_FP32", "dims": ["-1", "4"]}
    assert config["input"] == [shown]
    assert config["output"] == [{"name": "y", "data_type": "TYPE_FP32", "dims": ["-1", "2"]}]
    assert (config["platform"], config["version_policy"]) == ("null", {"latest": {"num_versions": 1}})
    over_http = agent.ask("GET", f"/v2/models/null/versions/{release_id(old_bundle)}/config")[2]
    assert over_http["max_batch_size"] == 0
    assert over_http["input"] == [{**shown, "dims": [-1, 4]}]
    assert not over_http.keys() & {"dynamic_batching", "sequence_batching"}
    with pytest.raises(InferenceServerException, match="no model 'other'"):
        client.get_model_config("other")


def test_unknown_methods_are_named(client):
    with pytest.raises(
        InferenceServerException, match=r"no method '/inference\..*/RepositoryModelLoad'"
    ) as caught:
        client.load_model("null")
    assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


def test_every_answer_tells_the_trust(stub):
    _, call = stub.ServerLive.with_call(service_pb2.ServerLiveRequest())
    assert ("edgeopt-trust", "unsigned") in [(each.key, each.value) for each in call.trailing_metadata()]


H = {"name": "h", "dtype": "float32", "shape": ["batch", 2]}
HN = {"name": "hn", "dtype": "float32", "shape": ["batch", 2]}


def test_a_stream_carries_the_state_of_its_sequences(start_grpc, connect, null_bundle):
    agent = start_grpc(soak_s=0.0, soak_requests=0)
    bundle = null_bundle(inputs=(X, H), outputs=(Y, HN))
    assert agent.deploy(bundle)["state"] == "COMMITTED"
    client = connect(agent)
    config = client.get_model_config("null").config
    assert [each.name for each in config.input] == ["x"]
    assert [each.name for each in config.output] == ["y"]
    assert config.sequence_batching.max_sequence_idle_microseconds == 60_000_000
    (state,) = config.sequence_batching.state
    assert (state.input_name, state.output_name, list(state.dims)) == ("h", "hn", [-1, 2])
    assert model_config_pb2.DataType.Name(state.data_type) == "TYPE_FP32"
    xs = np.random.default_rng(0).standard_normal((3, 1, 4)).astype(np.float32)
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number, x in enumerate(xs):
        for key in (5, "five"):
            client.async_stream_infer(
                *("null", [tensor(x)]), sequence_id=key, sequence_start=number == 0, sequence_end=number == 2
            )
    client.async_stream_infer("null", [tensor(xs[0])], sequence_id=5)
    found = [answers.get(timeout=SECONDS) for _ in range(7)]
    client.stop_stream()
    with load(bundle) as session:
        stream = session.stream()
        wanted = [stream.step({"x": x})["y"] for x in xs]
    for offset in (0, 1):
        np.testing.assert_allclose([r.as_numpy("y") for r, _ in found[offset:6:2]], wanted, rtol=1e-6)
    assert "There is no sequence 5 here" in str(found[6][1])
