import numpy as np
import pytest

from edgeopt.commands.predict.latency import kernels_of
from edgeopt.graph.analysis.onnx import analyze_onnx
from tests.conftest import seeded, write_onnx


def kinds(path, backend="onnxruntime-cpu"):
    return [(kernel.kind, kernel.precision) for kernel in kernels_of(analyze_onnx(path), backend)[0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def conv_net(path, *rest):
    weights = {"w": seeded(8, 8, 3, 3), "one": np.ones(8, np.float32), "zero": np.zeros(8, np.float32)}
    nodes = [("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1]}), *rest]
    return write_onnx(path, nodes, weights, {"x": [1, 8, 14, 14]}, {"y": [1, 8, 14, 14]})


def test_what_a_runtime_computes_within_a_convolution_is_no_kernel_of_its_own(folder):
    path = conv_net(
        folder / "fused.onnx",
        ("BatchNormalization", ["c", "one", "zero", "zero", "one"], ["b"], {}),
        ("Relu", ["b"], ["y"], {}),
    )
    assert kinds(path) == [("Conv 3x3", "fp32")]


def test_what_another_node_reads_too_is_not_computed_within(folder):
    path = conv_net(folder / "read.onnx", ("Relu", ["c"], ["r"], {}), ("Add", ["c", "r"], ["y"], {}))
    assert len(kinds(path)) == 3


def test_a_gated_activation_is_one_kernel_and_none_in_openvino(folder):
    path = conv_net(folder / "swish.onnx", ("Sigmoid", ["c"], ["s"], {}), ("Mul", ["c", "s"], ["y"], {}))
    assert [kind for kind, _ in kinds(path)] == ["Conv 3x3", "activation"]
    assert [kind for kind, _ in kinds(path, "openvino-cpu")] == ["Conv 3x3"]


def test_what_depends_on_constants_alone_costs_nothing(folder):
    path = conv_net(folder / "folded.onnx", ("Exp", ["one"], ["e"], {}), ("Identity", ["c"], ["y"], {}))
    assert kinds(path) == [("Conv 3x3", "fp32")]


def test_between_roundings_a_product_is_one_of_bytes(folder):
    weights = {"w": np.ones((16, 16), np.int8), "s": np.float32(0.1), "z": np.uint8(128), "wz": np.int8(0)}
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        ("DequantizeLinear", ["w", "s", "wz"], ["dw"], {}),
        ("MatMul", ["d", "dw"], ["m"], {}),
        ("QuantizeLinear", ["m", "s", "z"], ["mq"], {}),
        ("DequantizeLinear", ["mq", "s", "z"], ["y"], {}),
    ]
    path = write_onnx(folder / "rounded.onnx", nodes, weights, {"x": [4, 16]}, {"y": [4, 16]})
    found = kernels_of(analyze_onnx(path), "onnxruntime-cpu")[0]
    # The rounding of the input is work; what is rounded behind the product is part of it.
    assert [(kernel.operator, kernel.precision) for kernel in found] == [
        ("QuantizeLinear", "fp32"),
        ("MatMul", "int8"),
    ]
    assert found[1].rounded
    assert found[1].weights_bytes == 16 * 16


def test_weights_in_bytes_make_products_of_bytes_where_activations_are_rounded_by_groups(folder):
    weights = {"w": np.ones((16, 16), np.int8), "s": np.float32(0.1)}
    nodes = [("DequantizeLinear", ["w", "s"], ["d"], {}), ("MatMul", ["x", "d"], ["y"], {})]
    path = write_onnx(folder / "stored.onnx", nodes, weights, {"x": [4, 16]}, {"y": [4, 16]})
    analysis = analyze_onnx(path)
    found = [kernels_of(analysis, "openvino-cpu", grouped)[0][0].precision for grouped in (False, True)]
    assert found == ["fp32", "int8"]
