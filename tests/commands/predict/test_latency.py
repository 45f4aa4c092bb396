from pathlib import Path

import msgspec
import numpy as np
import pytest

from edgeopt.commands.ops.case import BackendRow, CaseRow, MeasuredOperator, OperatorFigures, Report
from edgeopt.commands.predict.latency import Latency, Predictor, kernels_of
from edgeopt.data import demo as samples
from edgeopt.graph.analysis.onnx import analyze_onnx
from tests.commands.predict.conftest import peaks_of
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


@pytest.fixture(scope="module")
def analysis():
    return analyze_onnx(Path(samples.MODEL))


@pytest.fixture(scope="module")
def latency(pi_5_with_peaks, analysis):
    return Predictor(pi_5_with_peaks).latency(analysis, "onnxruntime-cpu")


def with_peaks(device, **changes):
    given = {"threads": 4, "gflops": 4, "gops": 16, "gb_per_s": 2} | changes
    return msgspec.structs.replace(device, peaks=peaks_of(**given))


def test_it_says_what_it_stands_on_and_how_far_it_may_be_off(latency):
    assert latency.low_ms < latency.predicted_ms < latency.high_ms
    assert latency.basis == "the device's measured peaks"
    assert 0 < latency.products_share < 1


def test_without_peaks_nothing_is_predicted(pi_5, analysis):
    assert "probe --deep" in str(Predictor(pi_5).latency(analysis, "onnxruntime-cpu"))


def test_peaks_of_a_processor_say_nothing_of_an_accelerator(pi_5_with_peaks, analysis):
    assert "processor" in str(Predictor(pi_5_with_peaks).latency(analysis, "onnxruntime-tensorrt"))


def test_a_slower_device_takes_longer(pi_5, latency, analysis):
    slow = with_peaks(pi_5, gflops=0.4, gb_per_s=0.2)
    found = Predictor(slow).latency(analysis, "onnxruntime-cpu")
    assert isinstance(found, Latency)
    assert found.predicted_ms > 2 * latency.predicted_ms


def test_the_operator_table_of_the_device_moves_it(pi_5_with_peaks, latency, analysis):
    measured = MeasuredOperator("conforms", 40_000_000, 800_000, time_us=50_000.0, time_low_us=50_000.0)
    case = CaseRow(
        *("convolution", "Conv", "1x1", "medium", "fp32", 17, ("float32 [1, 64, 28, 28]",), {}),
        {"onnxruntime-cpu": OperatorFigures(measured)},
    )
    row = BackendRow("onnxruntime-cpu", "ONNX Runtime, CPU", "1.31.1")
    table = Report((row,), (case,), threads=4, took_s=1.0, measured=1, counts={})
    found = Predictor(pi_5_with_peaks, table).latency(analysis, "onnxruntime-cpu")
    assert isinstance(found, Latency)
    assert "operator table" in found.basis
    assert found.predicted_ms > 1.3 * latency.predicted_ms
