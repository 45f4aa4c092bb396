import msgspec
import pytest

from edgeopt.commands.ops import ops as ops_module
from edgeopt.commands.ops.case import MeasuredOperator
from edgeopt.commands.ops.ops import OperatorChoice, assess, cache_file, load_cache, store_cache
from edgeopt.events import ignore
from edgeopt.hw.device import ComputePeak, MemoryPeak, Peaks, State
from tests.conftest import this_device

HERE = "onnxruntime-cpu"
RELU = OperatorChoice((HERE,), ("Relu",), ("fp32",), quick=True)

SHORT_OF_MEMORY = """
from edgeopt.workers.protocol import serve
from edgeopt.commands.ops import tasks
from edgeopt.errors import MissingError
from edgeopt.workers.tasks import TaskRunner

def refuse(*_, **__):
    raise {error}

tasks.backend_named = lambda name: type("B", (), {{"load": refuse}})
serve(TaskRunner().answer)
"""


@pytest.fixture
def device(monkeypatch, tmp_path, make_cache):
    make_cache(tmp_path / "cache/edgeopt")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return msgspec.structs.replace(this_device(), state=State(True))


def only(report):
    (case,) = report.cases
    (figures,) = case.results.values()
    return figures


@pytest.mark.parametrize(
    "error", ["MemoryError", "MissingError('The device is away.')", "OSError('busy')", "SystemExit(3)"]
)
@pytest.mark.processes
def test_a_failure_of_the_moment_is_tried_again_the_next_time(device, tmp_path, monkeypatch, error):
    (tmp_path / "planted_short.py").write_text(SHORT_OF_MEMORY.format(error=error))
    with monkeypatch.context() as planted:
        planted.syspath_prepend(str(tmp_path))
        planted.setattr("edgeopt.workers.host.WORKER_MODULE", "planted_short")
        first = only(assess(device, RELU, ignore)).measured
    assert first.status == "failed"
    assert first.message
    again = assess(device, RELU, ignore)
    assert (again.measured, only(again).measured.status) == (1, "conforms")
    assert assess(device, RELU, ignore).measured == 0


def test_what_a_runtime_refuses_is_kept(device):
    wrap = OperatorChoice(("openvino-cpu",), ("Pad",), ("fp32",), quick=True)
    first = assess(device, wrap, ignore)
    assert first.counts["openvino-cpu"]["not supported"] == 1
    assert assess(device, wrap, ignore).measured == 0


def test_what_was_kept_from_a_busy_device_is_said(device):
    busy = msgspec.structs.replace(device, state=State(False, ("It is busy.",)))
    assert assess(busy, RELU, ignore).doubtful == 0  # a warning says so at once
    kept = assess(device, RELU, ignore)
    assert (kept.measured, kept.doubtful) == (0, 1)
    again = assess(device, msgspec.structs.replace(RELU, again=True), ignore)
    assert (again.measured, again.doubtful) == (1, 0)


def test_only_backends_on_the_processor_have_a_share_of_its_roofline(device):
    threads = device.limits.usable_cores
    peaks = Peaks(
        measured_at="2026-01-01T00:00:00+00:00",
        took_s=1.0,
        compute=(ComputePeak("onnxruntime", "fp32", threads, 1e11, "MatMul"),),
        memory=(MemoryPeak("memory", threads, 1000, copy_bytes_per_s=1e10),),
    )
    known = msgspec.structs.replace(device, peaks=peaks)
    (case,) = (case for _, case in ops_module._chosen(RELU))
    measured = MeasuredOperator("conforms", 1000, 10_000, time_us=10.0)
    assert ops_module._figures(known, "openvino-cpu", case, measured).roofline_share == pytest.approx(0.1)
    for name in ("onnxruntime-cuda", "openvino-gpu", "openvino-npu"):
        figures = ops_module._figures(known, name, case, measured)
        assert figures.roofline_share is None
        assert name in figures.roofline_reason


def test_what_was_stored_is_found_again(tmp_path):
    file = tmp_path / "new" / "ops.json"
    kept = {
        "a": MeasuredOperator("conforms", 1, 2, time_us=3.5),
        "b": MeasuredOperator("failed", 1, 2, "It crashed."),
    }
    assert store_cache(file, kept) is None
    assert load_cache(file) == kept
    assert [path.name for path in file.parent.iterdir()] == ["ops.json"]


def test_a_missing_or_damaged_file_holds_nothing(tmp_path):
    file = tmp_path / "ops.json"
    assert load_cache(None) == load_cache(file) == {}
    for content in (b"", b"{}}", b"\xff\xfe", b'{"a": {"status": "fine"}}', b"[" * 100_000):
        file.write_bytes(content)
        assert load_cache(file) == {}


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write to" in store_cache(tmp_path / "file" / "ops.json", {})


def test_another_runtime_or_device_has_another_file(tmp_path):
    device = this_device()
    fewer = msgspec.structs.replace(device, limits=msgspec.structs.replace(device.limits, usable_cores=99))
    paths = [
        cache_file(tmp_path, device, "onnxruntime-cpu", "1.0"),
        cache_file(tmp_path, device, "onnxruntime-cpu", "1.1"),
        cache_file(tmp_path, device, "openvino-cpu", "1.0"),
        cache_file(tmp_path, fewer, "onnxruntime-cpu", "1.0"),
    ]
    assert len(set(paths)) == len(paths)
    assert cache_file(tmp_path, this_device(), "onnxruntime-cpu", "1.0") == paths[0]
