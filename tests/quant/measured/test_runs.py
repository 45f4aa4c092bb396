import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.errors import ModelError, VerificationError
from edgeopt.quant.measured.given import Runs

X = {"x": np.ones((1, 4), np.float32)}


def test_a_model_that_does_not_answer_twice_alike_cannot_be_judged(tmp_path):
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("Add", ["x", "noise"], ["y"]),
    ]
    ports = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4])] for name in "xy"]
    graph = helper.make_graph(nodes, "random", *ports)
    path = tmp_path / "random.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    with Runs() as runs:
        runs.inputs(path)
        with pytest.raises(VerificationError, match="Two runs on the same inputs differ"):
            runs.source_outputs(path, [X, X])


def test_what_no_runtime_loads_is_a_reason(tmp_path, relu_model):
    path = tmp_path / "foreign.onnx"
    model = onnx.load(relu_model)
    model.graph.node[0].domain = "nowhere"
    model.opset_import.add(domain="nowhere", version=1)
    onnx.save(model, path)

    with Runs() as runs, pytest.raises(ModelError, match="No installed runtime can load the model"):
        runs.inputs(path)


def test_the_judge_is_onnx_runtime_where_it_loads_the_model(relu_model):
    with Runs() as runs:
        (info,) = runs.inputs(relu_model)
        (answer,) = runs.source_outputs(relu_model, [X])

    assert info.name == "x"
    assert runs.judge == "onnxruntime-cpu"
    assert answer["y"].tolist() == [[1, 1, 1, 1]]
