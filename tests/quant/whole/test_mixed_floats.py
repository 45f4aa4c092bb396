"""bf16 with float32 where it is too coarse, on a processor that computes bf16."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.backends import backend_named
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.quant.libraries import mix

pytestmark = pytest.mark.processes
OPTIONS = {"precision": "bf16", "threads": 1}


def make_model(path, offset):
    """A chain of products; what goes into the second is so large that 16 bits hold little of what counts."""
    rng = np.random.default_rng(0)
    a = rng.normal(0, 0.2, (64, 64)).astype(np.float32)
    held = {
        "offset": np.float32(offset),
        "first": np.eye(64, dtype=np.float32),
        "a": a - a.mean(axis=0),  # takes the offset off again
        "b": rng.normal(0, 0.2, (64, 16)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["product"], "product"),
        helper.make_node("Add", ["product", "offset"], ["far"], "far"),
        helper.make_node("MatMul", ["far", "a"], ["p"], "p"),
        helper.make_node("Relu", ["p"], ["r"], "r"),
    ]
    last = "r"
    for k in range(6):
        held[f"w{k}"] = rng.normal(0, 0.15, (64, 64)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [last, f"w{k}"], [f"m{k}"], f"m{k}"))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"r{k}"], f"r{k}"))
        last = f"r{k}"
    nodes.append(helper.make_node("MatMul", [last, "b"], ["y"], "y"))
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 16]),
    ]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def samples():
    rng = np.random.default_rng(1)
    return [{"x": rng.uniform(-1, 1, (8, 64)).astype(np.float32)} for _ in range(4)]


def accuracy_db(source, path, samples, options=OPTIONS):
    runs = []
    for file, given in ((source, {"precision": "f32", "threads": 1}), (path, options)):
        session = backend_named("openvino-cpu").load(file, given)
        runs.append([session.run(each) for each in samples])
        session.close()
    return compare_outputs(*runs).snr_db


@pytest.fixture
def coarse(tmp_path, samples):
    path = make_model(tmp_path / "coarse.onnx", 64.0)
    if accuracy_db(path, path, samples) > 100:
        pytest.skip("this processor computes no bf16")
    return path


def test_only_the_part_that_needs_it_is_kept_in_float32(coarse, samples, tmp_path):
    assert accuracy_db(coarse, coarse, samples) < 25
    entry = mix(coarse, tmp_path / "model.xml", samples, floor_db=30.0, limit_s=60.0)
    assert accuracy_db(coarse, tmp_path / "model.xml", samples) >= 30
    marked = set(entry.applied[0].nodes)
    assert marked & {"product", "far", "p"}
    assert len(marked) < 12, "of 17"
    assert "instead of" in entry.applied[0].what


def test_where_bf16_is_good_enough_nothing_is_made(tmp_path, samples):
    path = make_model(tmp_path / "fine.onnx", 0.5)
    with pytest.raises(ModelError, match="so no part needs float32"):
        mix(path, tmp_path / "model.xml", samples, floor_db=20.0, limit_s=60.0)


def test_where_all_of_it_is_too_coarse_nothing_is_made(coarse, samples, tmp_path):
    with pytest.raises(ModelError, match=r"No part|only"):
        mix(coarse, tmp_path / "model.xml", samples, floor_db=90.0, limit_s=60.0)
