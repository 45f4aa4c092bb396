from pathlib import Path

import msgspec
import pytest

from edgeopt.hw.device import ComputePeak, MemoryPeak, Peaks, RunOverhead
from edgeopt.hw.probe import probe
from edgeopt.hw.recording import open_recording

FAKEROOTS = Path(__file__).parents[2] / "fakeroots"
PI_5, ORIN = FAKEROOTS / "raspberry-pi-5", FAKEROOTS / "jetson-orin"


def peaks_of(threads, gflops, gops, gb_per_s):
    """As `edgeopt probe --deep` would have measured them: two precisions, one speed of memory."""
    compute = tuple(
        ComputePeak("onnxruntime", precision, threads, rate * 1e9, "MatMul", {"Conv 3x3": 0.9 * rate * 1e9})
        for precision, rate in (("fp32", gflops), ("int8", gops))
    )
    memory = tuple(
        MemoryPeak(level, threads, 1024, gb_per_s * times * 1e9, gb_per_s * times * 1e9)
        for level, times in (("L1", 16), ("L2", 8), ("L3", 4), ("memory", 1))
    )
    return Peaks("2026-05-04T10:00:00+00:00", 8.0, compute, memory, (RunOverhead("onnxruntime", 20.0),))


@pytest.fixture(scope="session")
def pi_5():
    return probe(open_recording(PI_5))


@pytest.fixture(scope="session")
def pi_5_with_peaks(pi_5):
    return msgspec.structs.replace(pi_5, peaks=peaks_of(4, gflops=4, gops=16, gb_per_s=2))
