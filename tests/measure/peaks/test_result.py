import pytest

from edgeopt.measure.peaks.measure import best, compute_peaks, memory_peaks, run_overheads
from edgeopt.measure.peaks.tasks import Dispatch, Layers, Stream

ORT = "onnxruntime-cpu"


def test_slow_moments_and_one_wild_run_do_not_count():
    quiet, disturbed = (99.0, 100.0, 100.0, 101.0), (10.0, 20.0, 30.0, 40.0)
    assert best([disturbed, quiet, disturbed]) == pytest.approx(100.25)
    assert best([disturbed, (*quiet, 1e9)]) == pytest.approx(101.0)


def test_nothing_measured_is_nothing():
    assert best([]) is None
    assert best([(), ()]) is None
    assert list(compute_peaks({Layers(ORT, "fp32", 1, "MatMul", (8, 8), 1): []})) == []


def test_the_best_layer_is_the_peak_and_each_operator_has_its_own():
    slices = {
        Layers(ORT, "int8", 1, "MatMul", (8, 8), 1): [(50.0,)],
        Layers(ORT, "fp32", 2, "MatMul", (16, 8), 1): [(18.0,)],
        Layers(ORT, "fp32", 1, "MatMul", (8, 8), 1): [(10.0,), (9.0,)],
        Layers(ORT, "fp32", 1, "MatMul", (4, 16), 1): [(8.0,)],
        Layers(ORT, "fp32", 1, "Conv 3x3", (1, 16, 4), 1): [(12.0,)],
    }
    found = list(compute_peaks(slices))
    assert [(p.precision, p.threads, p.operations_per_s) for p in found] == [
        ("fp32", 1, 12.0),
        ("fp32", 2, 18.0),
        ("int8", 1, 50.0),
    ]
    assert found[0].runtime == "onnxruntime"
    assert found[0].layer == "Conv 3x3 1x16x4"
    assert found[0].operators == {"MatMul": 10.0, "Conv 3x3": 12.0}


def test_memory_by_level_the_faster_way_of_reading():
    slices = {
        Stream("memory", 1, "read", 64): [(3.0,)],
        Stream("memory", 1, "read", 64, "one array"): [(4.0,)],
        Stream("memory", 1, "copy", 64): [(2.0,)],
        Stream("L1", 1, "read", 8): [(9.0,)],
    }
    l1, memory = memory_peaks(slices)
    assert (l1.level, l1.read_bytes_per_s, l1.copy_bytes_per_s, l1.working_set_bytes) == ("L1", 9.0, None, 16)
    assert (memory.level, memory.read_bytes_per_s, memory.copy_bytes_per_s) == ("memory", 4.0, 2.0)


def test_the_cost_of_a_run():
    (found,) = run_overheads({Dispatch(ORT): [(200_000.0, 200_000.0)]})
    assert (found.runtime, found.overhead_us) == ("onnxruntime", pytest.approx(5.0))
