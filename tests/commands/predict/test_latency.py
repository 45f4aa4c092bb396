from pathlib import Path

import msgspec
import pytest

from edgeopt.commands.ops.case import BackendRow, CaseRow, Figures, Measured, Report
from edgeopt.commands.predict.latency import Latency, Predictor
from edgeopt.data import demo as samples
from edgeopt.graph.analysis.onnx import analyze_onnx
from tests.commands.predict.conftest import peaks_of


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
    measured = Measured("conforms", 40_000_000, 800_000, time_us=50_000.0, time_low_us=50_000.0)
    case = CaseRow(
        *("convolution", "Conv", "1x1", "medium", "fp32", 17, ("float32 [1, 64, 28, 28]",), {}),
        {"onnxruntime-cpu": Figures(measured)},
    )
    row = BackendRow("onnxruntime-cpu", "ONNX Runtime, CPU", "1.31.1")
    table = Report((row,), (case,), threads=4, took_s=1.0, measured=1, counts={})
    found = Predictor(pi_5_with_peaks, table).latency(analysis, "onnxruntime-cpu")
    assert isinstance(found, Latency)
    assert "operator table" in found.basis
    assert found.predicted_ms > 1.3 * latency.predicted_ms
