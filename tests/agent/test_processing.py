"""A bundle with pre- and postprocessing: NAME takes raw inputs, NAME.raw is the plain model."""

import json
import queue

import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper
from tritonclient import grpc, http
from tritonclient.utils import InferenceServerException

import edgeopt
from edgeopt.bundle.manifest import release_id
from edgeopt.fleet.monitor import Traffic
from tests.agent.conftest import Running
from tests.agent.deployments.soaks import soaking
from tests.bundle.conftest import (
    camera,
    classes,
    post_model,
    pre_model,
    with_processing,
    write_graph,
)
from tests.ports import free_port

__all__ = ("camera", "classes", "post_model", "pre_model")  # fixtures
SECONDS = 30
LABEL = """
[[steps]]
do = "argmax"
on = "y"
to = "label"
"""


@pytest.fixture(scope="module")
def camera_bundle(tmp_path_factory, conv_bundle, camera, classes):
    return with_processing(conv_bundle, tmp_path_factory.mktemp("camera") / "conv.edgeopt", camera, classes)


@pytest.fixture(scope="module")
def agent(tmp_path_factory, camera_bundle):
    """One that serves the convolution with its processing to all tests here that only ask."""
    port = free_port()
    running = Running(tmp_path_factory.mktemp("agent") / "agent", grpc_port=port)
    running.grpc = f"127.0.0.1:{port}"
    done = running.deploy(camera_bundle)
    assert done["state"] == "COMMITTED", done["reason"]
    yield running
    running.close()


@pytest.fixture
def client(agent):
    with http.InferenceServerClient(f"127.0.0.1:{agent.port}") as client:
        yield client


@pytest.fixture
def grpc_client(agent):
    with grpc.InferenceServerClient(agent.grpc) as client:
        yield client


@pytest.fixture
def label(tmp_path):
    path = tmp_path / "label.toml"
    path.write_text(LABEL)
    return path


def picture(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape or (30, 50, 3), np.uint8)


def tensor(library, array, datatype="UINT8", name="x"):
    given = library.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array)
    return given


def check_same(answer, wanted):
    for name, values in wanted.items():
        np.testing.assert_allclose(answer.as_numpy(name), values, rtol=1e-5, err_msg=name)


def infer(agent, name, x):
    """The status and the document of a request with this row of numbers."""
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": x}
    status, _, answer = agent.ask("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": [given]}))
    return status, answer


def test_pictures_go_in_and_labels_come_out(client, grpc_client, camera_bundle):
    raw = picture()
    with edgeopt.load(camera_bundle) as session:
        wanted = session.process({"x": raw})
    assert set(wanted) == {"chance", "class"}
    answer = client.infer("conv", [tensor(http, raw)])
    check_same(answer, wanted)
    assert answer.get_response()["model_name"] == "conv"
    assert {each["name"]: each["datatype"] for each in answer.get_response()["outputs"]} == {
        "chance": "FP32",
        "class": "INT64",
    }
    check_same(grpc_client.infer("conv", [tensor(grpc, raw)]), wanted)
    answers = queue.Queue()
    grpc_client.start_stream(lambda result, error: answers.put((result, error)))
    grpc_client.async_stream_infer("conv", [tensor(grpc, raw)])
    grpc_client.async_stream_infer("conv", [tensor(grpc, raw.astype(np.float32), "FP32")])
    (result, _), (_, error) = (answers.get(timeout=SECONDS) for _ in range(2))
    grpc_client.stop_stream()
    check_same(result, wanted)
    assert "must be of the datatype UINT8" in str(error)


def test_several_pictures_are_rows_of_the_model(client, camera_bundle):
    before = client.get_inference_statistics("conv")["model_stats"]
    raw = np.stack([picture(24, 24, 3, seed=seed) for seed in range(3)])
    with edgeopt.load(camera_bundle) as session:
        check_same(client.infer("conv", [tensor(http, raw)]), session.process({"x": raw}))
    after = client.get_inference_statistics("conv.raw")["model_stats"]
    counted = [sum(each["inference_count"] for each in stats) for stats in (before, after)]
    assert counted[1] - counted[0] == 3


def test_the_raw_name_is_the_plain_model(client, grpc_client, camera_bundle):
    x = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
    with edgeopt.load(camera_bundle) as session:
        wanted = session.run({"x": x})
    answer = client.infer("conv.raw", [tensor(http, x, "FP32")])
    check_same(answer, wanted)
    assert answer.get_response()["model_name"] == "conv.raw"
    release = release_id(camera_bundle)
    check_same(client.infer("conv.raw", [tensor(http, x, "FP32")], model_version=release), wanted)
    check_same(grpc_client.infer("conv.raw", [tensor(grpc, x, "FP32")]), wanted)


def test_metadata_and_configuration_are_those_of_an_ensemble(client, grpc_client):
    for name in ("conv", "conv.raw"):
        assert client.is_model_ready(name)
        assert grpc_client.is_model_ready(name)
    assert [each["name"] for each in client.get_model_repository_index()] == ["conv", "conv.raw"]
    metadata = client.get_model_metadata("conv")
    assert metadata["platform"] == "ensemble"
    assert metadata["inputs"] == [{"name": "x", "datatype": "UINT8", "shape": [-1, -1, -1]}]
    assert metadata["outputs"] == [
        {"name": "chance", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "class", "datatype": "INT64", "shape": [-1, 2]},
    ]
    plain = client.get_model_metadata("conv.raw")
    assert plain["platform"] == "onnxruntime-cpu"
    assert plain["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 16, 16]}]
    (step,) = client.get_model_config("conv")["ensemble_scheduling"]["step"]
    assert step["model_name"] == "conv.raw"
    assert "ensemble_scheduling" not in client.get_model_config("conv.raw")
    config = grpc_client.get_model_config("conv").config
    assert config.platform == "ensemble"
    (step,) = config.ensemble_scheduling.step
    assert (step.model_name, dict(step.input_map), dict(step.output_map)) == ("conv.raw", {"x": "x"}, {"y": "y"})


@pytest.mark.parametrize(
    ("array", "datatype", "words"),
    [
        (picture(2, 2, 2, 24, 3), "UINT8", "must be a picture as bytes"),
        (picture(0, 8, 3), "UINT8", "must be a picture as bytes"),
        (np.zeros((8, 8, 3), np.float32), "FP32", "must be of the datatype UINT8, not FP32"),
    ],
)
def test_wrong_pictures_are_the_fault_of_the_request(agent, client, array, datatype, words):
    def failures():
        (stats,) = client.get_inference_statistics("conv")["model_stats"]
        return stats["inference_stats"]["fail"]["count"]

    client.infer("conv", [tensor(http, picture())])
    pid, before = agent.status()["serving"]["pid"], failures()
    with pytest.raises(InferenceServerException, match=words) as caught:
        client.infer("conv", [tensor(http, array, datatype)])
    assert caught.value.status() == "400"
    assert agent.status()["serving"]["pid"] == pid
    assert failures() == before + 1


def test_status_tells_that_processing_is_served(agent):
    assert agent.status()["serving"]["processing"] is True


def test_traffic_is_sent_to_the_plain_model(agent):
    with Traffic(agent.address, clients=1) as traffic:
        agent.until(lambda: traffic.sent().requests, "a request")
    assert (traffic.sent().failures, traffic.sent().first_failure) == (0, "")


def test_processing_as_onnx_files(start_agent, conv_bundle, pre_model, post_model, tmp_path):
    bundle = with_processing(conv_bundle, tmp_path / "conv.edgeopt", pre_model, post_model)
    agent = start_agent()
    assert agent.deploy(bundle)["state"] == "COMMITTED"
    raw = picture(2, 16, 16, 3)
    with edgeopt.load(bundle) as session, http.InferenceServerClient(f"127.0.0.1:{agent.port}") as client:
        metadata = client.get_model_metadata("conv")
        assert metadata["inputs"] == [{"name": "image", "datatype": "UINT8", "shape": [-1, 16, 16, 3]}]
        check_same(client.infer("conv", [tensor(http, raw, name="image")]), session.process({"image": raw}))


def test_text_goes_in_as_bytes(start_agent, old_bundle, tmp_path):
    nodes = [helper.make_node("Cast", ["text"], ["x"], to=TensorProto.FLOAT)]
    pre = write_graph(tmp_path / "pre.onnx", nodes, [("text", "STRING", ["n", 4])], [("x", "FLOAT", ["n", 4])])
    unchecked = "The preprocessing has no golden samples.*"
    bundle = with_processing(old_bundle, tmp_path / "null.edgeopt", pre, unchecked=unchecked)
    agent = start_agent()
    assert agent.deploy(bundle)["state"] == "COMMITTED"

    def ask(*words):
        given = {"name": "text", "datatype": "BYTES", "shape": [1, 4], "data": words}
        return agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [given]}))

    status, _, answer = ask("1", "2", "3", "4")
    assert status == 200, answer
    with edgeopt.load(bundle) as session:
        np.testing.assert_allclose(
            answer["outputs"][0]["data"], session.run({"x": np.array([[1, 2, 3, 4]], np.float32)})["y"].ravel()
        )
    status, _, answer = ask("1", "2", "three", "4")
    assert status == 400
    assert answer["error"].startswith("The preprocessing failed: ")
    assert agent.status()["serving"]["processing"] is True


def test_a_bundle_without_processing_has_one_name(start_serving, null_bundle):
    agent = start_serving()
    said = "There is no model 'null.raw': 'null' has no processing and is the plain model itself."

    def check():
        assert infer(agent, "null", [1, 2, 3, 4])[0] == 200
        status, answer = infer(agent, "null.raw", [1, 2, 3, 4])
        assert (status, answer["error"]) == (404, said)

    check()
    agent.deploy(null_bundle("other"), add=1)
    check()


def test_a_killed_worker_serves_both_names_again(start_agent, old_bundle, label, tmp_path):
    agent = start_agent()
    agent.deploy(with_processing(old_bundle, tmp_path / "null.edgeopt", post=label))
    killed = agent.settled()["serving"]["pid"]
    psutil.Process(killed).kill()
    agent.until(lambda: (agent.status()["serving"] or {}).get("pid", killed) != killed, "another worker")
    agent.settled()
    assert [infer(agent, name, [1, 2, 3, 4])[0] for name in ("null", "null.raw")] == [200, 200]


def test_a_release_with_processing_comes_and_goes(start_serving, old_bundle, label, tmp_path):
    agent = start_serving()
    plain = infer(agent, "null", [1, 2, 3, 4])[1]["outputs"]
    number = soaking(agent, with_processing(old_bundle, tmp_path / "null.edgeopt", post=label))
    deployed = f"/api/v1/deployments/{number}"

    def compared():
        status, answer = infer(agent, "null", [1, 2, 3, 4])
        assert (status, answer["outputs"][0]["name"]) == (200, "label")
        status, answer = infer(agent, "null.raw", [1, 2, 3, 4])
        assert (status, answer["outputs"]) == (200, plain)
        return agent.ask("GET", deployed)[2]["deployment"]["progress"].get("compared_requests", 0) > 1

    # Only the plain requests, which both releases answer alike.
    agent.until(compared, "the comparison")
    assert agent.ask("GET", deployed)[2]["deployment"]["progress"]["agreement_db"] == 200.0
    assert agent.roll_back()["state"] in {"ROLLED_BACK", "COMMITTED"}
    assert infer(agent, "null", [1, 2, 3, 4])[1]["outputs"] == plain
    assert infer(agent, "null.raw", [1, 2, 3, 4])[0] == 404


def test_labels_that_rounding_changes_are_not_compared(start_agent, make_null_bundle, label, tmp_path):
    source = "1" * 64
    folders = [tmp_path / "old.edgeopt", tmp_path / "new.edgeopt"]
    models = [make_null_bundle(source=source, model=model) for model in ({}, {"noise": 3.0})]
    old, new = (with_processing(*pair, post=label) for pair in zip(models, folders, strict=True))
    agent = start_agent()
    agent.deploy(old)
    number = soaking(agent, new)

    def compared():
        assert infer(agent, "null", [1, 2, 3, 4])[0] == 200
        found = agent.ask("GET", f"/api/v1/deployments/{number}")[2]["deployment"]
        assert found["state"] == "SOAKING", found["reason"]
        return found["progress"].get("compared_requests", 0) > 5 and found["progress"]

    assert "agreement_db" not in agent.until(compared, "the comparison")


def test_broken_processing_fails_its_probe(start_agent, old_bundle, label, tmp_path, change_deployment):
    bundle = with_processing(old_bundle, tmp_path / "null.edgeopt", post=label)
    text = (bundle / "deployment.toml").read_text()
    (bundle / "deployment.toml").write_text(text.replace('do = "argmax"', 'do = "threshold"'))
    change_deployment(bundle)
    done = start_agent().deploy(bundle)
    assert done["state"] == "FAILED"
    assert "The postprocessing of the bundle 'null'" in done["reason"]


@pytest.mark.parametrize(("first", "second"), [("other", "other.raw"), ("other.raw", "other")])
def test_names_that_would_clash_are_refused(start_agent, null_bundle, first, second):
    agent = start_agent()
    assert agent.deploy(null_bundle(first))["state"] == "COMMITTED"
    said = f"The models '{second}' and '{first}' cannot be on one agent: 'other.raw' is the name of 'other'"
    status, _, answer = agent.send(null_bundle(second), add=1)
    assert status == 409
    assert answer["error"]["message"].startswith(said)
    assert agent.deploy(null_bundle("third"), add=1)["state"] == "COMMITTED"
    status, _, answer = agent.send(null_bundle(second), add=1)
    assert status == 409, answer
    # In the place of the first one it may be served.
    assert agent.deploy(null_bundle(second), rename=1)["state"] == "COMMITTED"
