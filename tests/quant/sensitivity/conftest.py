"""A small model with every kind of layer, its ranges, and what a switchboard needs."""

import numpy as np
import pytest

from edgeopt.data.samples import Samples
from edgeopt.graph.model import load
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.layers import find_layers
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.schemes import SchemeContext
from edgeopt.quant.write import tensors_wanted
from tests.conftest import seeded, write_onnx

SHAPE = (1, 4, 12, 12)


@pytest.fixture(scope="session")
def samples():
    images = np.random.default_rng(3).standard_normal((6, *SHAPE[1:])).astype(np.float32)
    return Samples({"x": images}, {"x": 4})


@pytest.fixture(scope="session")
def varied_path(tmp_path_factory):
    """Convolutions of all kinds, shared weights, a product of two computed factors, turned weights, a layer that
    is an output and is read on, and layers in a branch."""
    from onnx import TensorProto, helper

    def branch(weight):
        made = helper.make_node("MatMul", ["z1", weight], [f"z_{weight}"], f"in_branch_{weight}")
        return helper.make_graph(
            [made], weight, [], [helper.make_tensor_value_info(f"z_{weight}", TensorProto.FLOAT, None)]
        )

    nodes = [
        ("Conv", ["x", "w1", "b1"], ["c1"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c1"], ["r1"], {}),
        ("Conv", ["r1", "w2"], ["c2"], {"group": 8, "auto_pad": "SAME_UPPER"}),
        ("Add", ["c2", "r1"], ["a1"], {}),
        ("ConvTranspose", ["a1", "w3"], ["t1"], {"strides": [2, 2]}),
        ("ReduceMean", ["t1"], ["m1"], {"axes": [3], "keepdims": 0}),
        ("MatMul", ["m1", "shared"], ["p1"], {}),
        ("Tanh", ["p1"], ["h1"], {}),
        ("MatMul", ["h1", "shared"], ["p2"], {}),
        ("Transpose", ["h1"], ["ht"], {"perm": [0, 2, 1]}),
        ("MatMul", ["p2", "ht"], ["s1"], {}),
        ("ReduceMean", ["s1"], ["m2"], {"axes": [1], "keepdims": 0}),
        ("Gemm", ["m2", "w4", "b4"], ["y"], {"transB": 1}),
        ("Gemm", ["y", "w5"], ["z1"], {}),
        ("ReduceSum", ["z1"], ["total"], {"keepdims": 0}),
        ("Greater", ["total", "zero"], ["positive"], {}),
        ("If", ["positive"], ["z"], {"then_branch": branch("w6"), "else_branch": branch("w7")}),
    ]
    weights = {
        "w1": seeded(8, 4, 3, 3, seed=1),
        "b1": seeded(8, seed=2),
        "w2": seeded(8, 1, 3, 3, seed=3),
        "w3": seeded(8, 6, 2, 2, seed=4),
        "shared": seeded(24, 24, seed=5),
        "w4": seeded(16, 6, seed=6),
        "b4": seeded(16, seed=7),
        "w5": seeded(16, 10, seed=8),
        "w6": seeded(10, 10, seed=9),
        "w7": seeded(10, 10, seed=10),
        "zero": np.float32(0.1),
    }
    path = tmp_path_factory.mktemp("varied") / "varied.onnx"
    return write_onnx(path, nodes, weights, {"x": SHAPE}, {"y": (1, 16), "z": (1, 10)})


@pytest.fixture(scope="session")
def varied(varied_path):
    return load(varied_path).ir


@pytest.fixture(scope="session")
def layers(varied):
    return find_layers(varied, {"x": SHAPE})


@pytest.fixture(scope="session")
def contexts(varied, varied_path, layers, samples):
    """What forms need to know, by backend."""
    settings, found = QuantSettings(), {}
    for backend in ("onnxruntime-cpu", "openvino-cpu", "onnxruntime-qnn"):
        tensors = tensors_wanted(varied, layers, settings, backend)
        ranges = calibrate(varied_path, samples, tensors, settings).ranges
        found[backend] = SchemeContext(backend, settings, ranges)
    return found


@pytest.fixture(scope="session")
def fitting(layers):
    """By layer, those of these forms that fit it."""
    from edgeopt.quant.schemes import scheme_named

    def choose(context, *names):
        forms = {
            layer.name: tuple(n for n in names if not layer.reason and not scheme_named(n).fits(layer, context))
            for layer in layers
        }
        return {name: some for name, some in forms.items() if some}

    return choose
