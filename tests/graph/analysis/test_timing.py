import msgspec
import numpy as np
import pytest

from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import Given
from edgeopt.hw.device import ComputePeak, MemoryPeak, Peaks
from edgeopt.hw.probe import probe

PEAKS = Peaks(
    measured_at="2026-01-01T00:00:00+00:00",
    took_s=1.0,
    compute=(
        ComputePeak("onnxruntime", "fp32", 1, 1e9, "MatMul"),
        ComputePeak("openvino", "int8", 1, 4e9, "MatMul"),
    ),
    memory=(MemoryPeak("memory", 1, 1000, read_bytes_per_s=1e9),),
)


@pytest.fixture(scope="module")
def device():
    return msgspec.structs.replace(probe(), peaks=PEAKS, caches=())


@pytest.fixture
def product(write_model):
    return write_model(
        "g (float[100, 200] x) => (float[100, 50] y) { m = MatMul(x, w)  y = Relu(m) }",
        w=np.ones((200, 50), np.float32),
    )


def test_each_node_has_the_time_that_peaks_allow_and_what_it_is_spent_on(product, device):
    found = analyze_onnx(product, Given(device=device, threads=1))
    assert [(node.least_ms, node.bound) for node in found.nodes] == [
        (pytest.approx(2.0), "compute"),  # 2 * 100 * 50 * 200 operations at 1e9 a second
        (pytest.approx(0.04), "memory"),  # 40,000 bytes
    ]
    assert found.work.least_ms == pytest.approx(2.04)
    assert found.work.least_reason == ""
    assert {row.category: row.least_ms for row in found.categories} == {
        "matrix product": pytest.approx(2.0),
        "activation": pytest.approx(0.04),
    }


def test_between_dequantize_and_quantize_the_peak_of_int8_counts(write_model, device):
    text = """g (uint8[100, 200] x) => (float[100, 50] y) {
        a = DequantizeLinear(x, s)  b = DequantizeLinear(w, s)  y = MatMul(a, b) }"""
    path = write_model(text, w=np.ones((200, 50), np.int8), s=np.float32(0.1))
    product = analyze_onnx(path, Given(device=device, threads=1)).nodes[-1]
    assert (product.least_ms, product.bound) == (pytest.approx(0.5), "compute")


def test_without_peaks_the_reason_has_a_next_step(product, device):
    without = msgspec.structs.replace(device, peaks=None)
    work = analyze_onnx(product, Given(device=without)).work
    assert work.least_ms is None
    assert "edgeopt probe --deep" in work.least_reason
    other = analyze_onnx(product, Given(device=device, threads=64)).work
    assert other.least_ms is None
    assert "with 64 threads" in other.least_reason
