"""A release that answers NaN or infinity where its golden inputs do not show it."""

import contextlib
import http.client
import json

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Run, Source, Tensor
from tests.agent.deployments.soaks import soaking


@pytest.fixture(scope="module")
def make_log_bundle(tmp_path_factory, device_fingerprint):
    """A model that is NaN for negative inputs and minus infinity for zero; `kind` is its operator."""

    def make(kind):
        folder = tmp_path_factory.mktemp("log")
        ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in "xy"]
        graph = helper.make_graph([helper.make_node(kind, ["x"], ["y"])], kind, ports[:1], ports[1:])
        file = folder / "log.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
        feeds = [{"x": np.full((1, 4), 2.0, np.float32)}]
        answers = [backend_named("onnxruntime-cpu").load(file, {}).run(feeds[0])]
        deployment = Deployment(
            *("log", "2026-01-01T00:00:00+00:00", "0", "quick", "a test", Source("log.onnx", "0" * 64, 1)),
            run=Run("onnxruntime-cpu", "model/log.onnx", {"threads": 1}),
            inputs=[Tensor("x", "float32", [1, 4])],
            outputs=[Tensor("y", "float32", [1, 4])],
            device=device_fingerprint,
        )
        out = folder / "log.edgeopt"
        with write.draft(out) as draft:
            write.write_golden(draft, "inputs", feeds)
            for golden in ("outputs", "reference"):
                write.write_golden(draft, golden, answers)
            write.fill(draft, {"log.onnx": file}, deployment, {"ledger.json": []})
            write.publish(draft, out)
        return out

    return make


def ask(agent, *numbers, binary=True):
    """One request; only the binary form can carry NaN."""
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": list(numbers)}
    body = json.dumps({"inputs": [x], "parameters": {"binary_data_output": binary}})
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", agent.port)) as connection:
        connection.request("POST", "/v2/models/log/infer", body)
        assert connection.getresponse().status == (200 if binary else 400)


@pytest.mark.parametrize("binary", [True, False])
def test_a_first_release_that_answers_nan_is_taken_back(start_agent, make_log_bundle, binary):
    agent = start_agent()
    number = soaking(agent, make_log_bundle("Log"))
    ask(agent, 0, 0, 0, 0)  # infinity may be meant
    ask(agent, 1, -1, 1, 1, binary=binary)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "1 of 2 answers to finite inputs held NaN" in done["reason"]


def test_a_release_that_is_less_finite_than_the_old_one_is_taken_back(start_agent, make_log_bundle):
    agent = start_agent()
    old = make_log_bundle("Abs")
    assert agent.deploy(old)["state"] == "COMMITTED"
    for _ in range(20):
        ask(agent, 0, 1, 2, 3)
    number = soaking(agent, make_log_bundle("Log"))
    ask(agent, 0, 1, 2, 3)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "held NaN or infinity" in done["reason"]
    assert "failed before" in agent.deploy(make_log_bundle("Log"))["reason"]


def test_what_the_old_release_answered_too_is_no_fault(start_agent, make_log_bundle):
    agent = start_agent()
    assert agent.deploy(make_log_bundle("Log"))["state"] == "COMMITTED"
    for _ in range(3):
        ask(agent, -1, 1, 2, 3)
    number = soaking(agent, make_log_bundle("Sqrt"), soak_s=0.5)
    ask(agent, -1, 1, 2, 3)
    assert agent.ended(number)["state"] == "COMMITTED"
