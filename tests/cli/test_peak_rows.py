from datetime import UTC, datetime, timedelta

import pytest

from edgeopt.cli.probe_rows import ago, peak_rows
from edgeopt.hw.device import ComputePeak, MemoryPeak, Peaks, RunOverhead


def peaks(**values):
    measured = datetime.now(UTC) - timedelta(days=3, minutes=1)
    return Peaks(
        measured.isoformat(timespec="seconds"),
        8.5,
        (
            ComputePeak("onnxruntime", "fp32", 1, 118.4e9, "Conv 3x3 1x256x14"),
            ComputePeak("onnxruntime", "fp32", 4, 460e9, "MatMul 768x384"),
            ComputePeak("onnxruntime", "int8", 1, 4.25e9, "MatMul 192x384"),
        ),
        (MemoryPeak("L1", 1, 16384, 2.1e11, None), MemoryPeak("memory", 1, 2**28, 3.7e10, 0.9e9)),
        (RunOverhead("onnxruntime", 4.26), RunOverhead("openvino", 9.9)),
        **values,
    )


def test_peaks_as_rows():
    assert dict(peak_rows(peaks())) == {
        "measured": "3 days ago",
        "onnxruntime fp32": "118 GFLOP/s by one core, 460 by 4 cores",
        "onnxruntime int8": "4.2 GOP/s by one core",
        "L1": "read 210 GB/s by one core",
        "memory": "read 37.0 GB/s by one core; copy 0.90 GB/s by one core",
        "cost of a run": "onnxruntime 4.3 µs, openvino 9.9 µs",
    }


def test_that_it_was_disturbed_is_said():
    rows = dict(peak_rows(peaks(disturbed_by=("Other processes keep cores busy.",))))
    assert rows["measured"] == "3 days ago, while the device was busy or throttled"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5, "just now"),
        (60, "1 minute ago"),
        (7300, "2 hours ago"),
        (86400, "1 day ago"),
        (400 * 86400, "400 days ago"),
        (-100, "at an unknown time (a clock was wrong)"),
    ],
)
def test_ages(seconds, words):
    assert ago(seconds) == words
