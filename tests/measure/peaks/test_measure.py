import time
from types import SimpleNamespace

import pytest

from edgeopt.events import Progress
from edgeopt.hw.device import Cpu, Device, HostFacts, Limits, Memory, State, Unavailable
from edgeopt.measure.peaks import measure as peaks
from edgeopt.measure.peaks.tasks import Dispatch, Layers, Stream

DEVICE = Device(
    HostFacts("Linux", "6", "x86_64", "3.11"),
    Cpu(None, None, "baseline", (), 1, 2),
    Limits(2, None, None, 2),
    Memory(2**33, 2**33, 2**33),
    state=State(False, ("Other processes keep cores busy: python3 97 %.",)),
)
SMALL = Layers("onnxruntime-cpu", "fp32", 1, "MatMul", (8, 16), 1)
NOTHING = Dispatch("onnxruntime-cpu")
STREAM = Stream("L1", 1, "copy", 8192)


@pytest.fixture
def measure(monkeypatch):
    """Measures only these tasks; gives what was measured and what was told."""

    def run(*tasks, absent=None, limit_s=20.0):
        monkeypatch.setattr(peaks, "plan", lambda *_: (list(tasks), absent or {}))
        told = []
        return peaks.measure(DEVICE, told.append, limit_s), told

    return run


def test_each_kind_of_task_gives_its_peak(measure):
    measured, told = measure(SMALL, NOTHING, STREAM)
    found = measured.peaks
    assert [(p.runtime, p.precision, p.threads, p.layer) for p in found.compute] == [
        ("onnxruntime", "fp32", 1, "MatMul 8x16")
    ]
    assert [(p.level, p.read_bytes_per_s) for p in found.memory] == [("L1", None)]
    assert 0.1 < found.overheads[0].overhead_us < 1e5
    assert found.disturbed_by == DEVICE.state.reasons
    assert {event.phase for event in told if isinstance(event, Progress)} == {"loading", "measuring"}


def test_it_ends_before_its_time_when_nothing_new_is_to_be_learnt(measure):
    measured, _ = measure(SMALL, limit_s=60.0)
    assert measured.peaks.took_s < 30


def test_it_ends_in_time_when_something_hangs(measure, monkeypatch, tmp_path):
    (tmp_path / "planted_hanging_child.py").write_text("import time; time.sleep(600)")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("edgeopt.measure.peaks.measure.CHILD_MODULE", "planted_hanging_child")
    begin = time.monotonic()
    measured, _ = measure(SMALL, STREAM, limit_s=2.0)
    assert time.monotonic() - begin < 60
    assert measured.peaks.compute == ()
    assert "hung" in measured.unavailable["peaks.onnxruntime.fp32"]
    assert "hung" in measured.unavailable["peaks.memory.L1"]


def test_what_failed_is_absent_with_the_reason_and_the_rest_is_there(measure):
    too_much = Stream("memory", 1, "read", 1 << 60)
    measured, _ = measure(STREAM, too_much, absent={"peaks.memory.L3": "planned so"})
    assert [p.level for p in measured.peaks.memory] == ["L1"]
    assert measured.unavailable == {
        "peaks.memory.L3": "planned so",
        "peaks.memory.memory": "There is not enough memory.",
    }


def test_a_runtime_that_is_not_installed_is_told_and_not_tried(monkeypatch):
    gone = SimpleNamespace(available=lambda: Unavailable("the Python package is not installed"))
    tried = []
    monkeypatch.setattr(peaks, "backend_named", lambda _: gone)
    monkeypatch.setattr(peaks, "plan", lambda _, backends: (tried.extend(backends) or [], {}))
    measured = peaks.measure(DEVICE, lambda _: None, limit_s=1.0)
    assert tried == []
    assert measured.unavailable == {
        "peaks.onnxruntime": "the Python package is not installed",
        "peaks.openvino": "the Python package is not installed",
    }


def test_nothing_is_left_behind(measure, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measure(SMALL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timing
def test_the_whole_plan_fits_its_time():
    begin = time.monotonic()
    measured = peaks.measure(DEVICE, lambda _: None)
    assert time.monotonic() - begin < 10
    found = {(p.runtime, p.precision) for p in measured.peaks.compute}
    assert {("onnxruntime", "fp32"), ("onnxruntime", "int8")} <= found
