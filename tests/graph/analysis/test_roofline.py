import msgspec
import numpy as np
import pytest

from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.graph.analysis.roofline import HINT, minimum
from edgeopt.hw.device import Cache, ComputePeak, MemoryPeak, Peaks
from edgeopt.hw.probe import probe

KNOWN_PEAKS = Peaks(
    measured_at="2026-01-01T00:00:00+00:00",
    took_s=1.0,
    compute=(
        ComputePeak("onnxruntime", "fp32", 2, 1e11, "MatMul"),
        ComputePeak("openvino", "fp32", 2, 2e11, "MatMul"),
        ComputePeak("openvino", "fp32", 1, 9e11, "MatMul"),
    ),
    memory=(
        MemoryPeak("L2", 2, 1000, copy_bytes_per_s=1e11),
        MemoryPeak("memory", 2, 1000, read_bytes_per_s=1e10),
    ),
)
CACHES = (Cache(1, "instruction", 1 << 30, 2, 1), Cache(2, "unified", 1 << 20, 2, 1))


@pytest.fixture(scope="module")
def device_with():
    return msgspec.structs.replace(probe(), peaks=KNOWN_PEAKS, caches=CACHES)


def test_the_slower_of_memory_and_arithmetic_counts(device_with):
    assert minimum(device_with, "fp32", 2, 2_000_000, 1000).time_s == pytest.approx(10.0e-6)
    assert minimum(device_with, "fp32", 2, 1000, 1_000_000).time_s == pytest.approx(10.0e-6)


def test_what_does_not_fit_a_cache_comes_from_memory(device_with):
    assert minimum(device_with, "fp32", 2, 1000, 10_000_000).time_s == pytest.approx(1000.0e-6)


def test_without_a_peak_of_the_precision_only_memory_can_be_judged(device_with):
    assert minimum(device_with, "fp16", 2, 1000, 1_000_000).time_s == pytest.approx(10.0e-6)
    assert minimum(device_with, "fp16", 2, 10**9, 1000) == "no peak is known for fp16 with 2 threads"


def test_without_peaks_there_is_a_next_step(device_with):
    assert minimum(msgspec.structs.replace(device_with, peaks=None), "fp32", 2, 1, 1) == HINT
    assert "edgeopt probe --deep" in HINT
    assert "memory" in minimum(device_with, "fp32", 3, 1, 1000)


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
    found = analyze_onnx(product, AnalysisOptions(device=device, threads=1))
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
    product = analyze_onnx(path, AnalysisOptions(device=device, threads=1)).nodes[-1]
    assert (product.least_ms, product.bound) == (pytest.approx(0.5), "compute")


def test_without_peaks_the_reason_has_a_next_step(product, device):
    without = msgspec.structs.replace(device, peaks=None)
    work = analyze_onnx(product, AnalysisOptions(device=without)).work
    assert work.least_ms is None
    assert "edgeopt probe --deep" in work.least_reason
    other = analyze_onnx(product, AnalysisOptions(device=device, threads=64)).work
    assert other.least_ms is None
    assert "with 64 threads" in other.least_reason
