import time
from types import SimpleNamespace

import pytest

from edgeopt.events import Progress
from edgeopt.hw.device import (
    Cpu,
    Device,
    DeviceLimits,
    HostFacts,
    State,
    SystemMemory,
    Unavailable,
)
from edgeopt.measure.peaks import measure as peaks
from edgeopt.measure.peaks.measure import RuntimeTasks, best, compute_peaks, memory_peaks, run_overheads
from edgeopt.measure.peaks.tasks import Dispatch, Layers, Stream
from edgeopt.workers.host import LocalHost

CHILD = """
import os, signal, time
import msgspec
from edgeopt.measure.peaks.tasks import Ran, Repeat
from edgeopt.workers.protocol import Failed
from edgeopt.workers.protocol import serve

def answer(line):
    name = msgspec.json.decode(line, type=Repeat).task.backend
    if name == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "hangs":
        time.sleep(600)
    return msgspec.json.encode(Failed("it cannot") if name == "fails" else Ran((float(os.getpid()),)))

serve(answer)
"""


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    (tmp_path / "planted_peaks_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "planted_peaks_child")
    made = []

    def make(*names):
        made.append(RuntimeTasks("x", LocalHost(), [Dispatch(name) for name in names]))
        return made[-1]

    yield make
    for each in made:
        each.close()


def turn(runtime, name, within_s=60):
    runtime.ask(Dispatch(name), 1.0)
    runtime.answer(time.monotonic() + within_s)


def test_rates_are_kept_by_slice(runtime):
    one = runtime("good")
    turn(one, "good")
    turn(one, "good")
    assert len(one.slices[Dispatch("good")]) == 2


def test_what_a_task_says_is_its_reason(runtime):
    one = runtime("good", "fails")
    turn(one, "fails")
    assert one.failures == {Dispatch("fails"): "it cannot"}
    assert one.tasks == [Dispatch("good")]


@pytest.mark.parametrize(("bad", "reason"), [("crashes", "crashed: SIGSEGV"), ("hangs", "hung")])
def test_the_others_go_on_in_a_new_process(runtime, bad, reason):
    one = runtime("good", bad)
    turn(one, "good")
    turn(one, bad, within_s=60 if bad == "crashes" else 0.5)
    assert reason in one.failures[Dispatch(bad)]
    turn(one, bad)  # is not asked again
    turn(one, "good")
    before, after = one.slices[Dispatch("good")]
    assert before != after


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


DEVICE = Device(
    HostFacts("Linux", "6", "x86_64", "3.11"),
    Cpu(None, None, "baseline", (), 1, 2),
    DeviceLimits(2, None, None, 2),
    SystemMemory(2**33, 2**33, 2**33),
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
    monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "planted_hanging_child")
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
