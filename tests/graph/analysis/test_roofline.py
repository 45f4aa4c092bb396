import msgspec
import pytest

from edgeopt.graph.analysis.roofline import HINT, least
from edgeopt.hw.device import Cache, ComputePeak, MemoryPeak, Peaks
from edgeopt.hw.probe import probe

PEAKS = Peaks(
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
def device():
    return msgspec.structs.replace(probe(), peaks=PEAKS, caches=CACHES)


def test_the_slower_of_memory_and_arithmetic_counts(device):
    assert least(device, "fp32", 2, 2_000_000, 1000).time_s == pytest.approx(10.0e-6)
    assert least(device, "fp32", 2, 1000, 1_000_000).time_s == pytest.approx(10.0e-6)


def test_what_does_not_fit_a_cache_comes_from_memory(device):
    assert least(device, "fp32", 2, 1000, 10_000_000).time_s == pytest.approx(1000.0e-6)


def test_without_a_peak_of_the_precision_only_memory_can_be_judged(device):
    assert least(device, "fp16", 2, 1000, 1_000_000).time_s == pytest.approx(10.0e-6)
    assert least(device, "fp16", 2, 10**9, 1000) == "no peak is known for fp16 with 2 threads"


def test_without_peaks_there_is_a_next_step(device):
    assert least(msgspec.structs.replace(device, peaks=None), "fp32", 2, 1, 1) == HINT
    assert "edgeopt probe --deep" in HINT
    assert "memory" in least(device, "fp32", 3, 1, 1000)
