from pathlib import Path

import msgspec
import pytest

from edgeopt.hw.device import Cache, Runtime
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.measure.peaks.tasks import Dispatch, Layers, Stream, alone, plan

FAKEROOTS = Path(__file__).parents[2] / "fakeroots"
BACKENDS = ("onnxruntime-cpu", "openvino-cpu")
KIB, MIB = 2**10, 2**20


@pytest.fixture
def device():
    return probe(RecordedHost(FAKEROOTS / "amd-zen4"))


def changed(device, section, **values):
    return msgspec.structs.replace(
        device, **{section: msgspec.structs.replace(getattr(device, section), **values)}
    )


def of(kind, device, backends=BACKENDS):
    return [task for task in plan(device, backends)[0] if isinstance(task, kind)]


def test_one_core_and_all_that_are_usable(device):
    assert {task.threads for task in of(Layers, device)} == {1, 12}
    assert {task.threads for task in of(Stream, device)} == {1, 12}
    confined = changed(device, "limits", usable_cores=1)
    assert {task.threads for task in of(Layers, confined)} == {1}


def test_every_task_has_its_one_core_twin(device):
    tasks, _ = plan(device, BACKENDS)
    for task in tasks:
        twin = alone(task, tasks)
        assert twin in tasks
        assert getattr(twin, "threads", 1) == 1


def test_a_runtime_that_is_missing_has_no_tasks(device):
    assert {task.backend for task in of(Layers, device, ("openvino-cpu",))} == {"openvino-cpu"}
    assert of((Layers, Dispatch), device, ()) == []
    assert of(Stream, device, ())


@pytest.mark.parametrize(
    ("told", "more"), [((), set()), (("FP32", "BF16", "INT8"), {"bf16"}), (("FP16", "FP32"), {"fp16"})]
)
def test_other_precisions_only_where_the_runtime_tells_them(device, told, more):
    runtimes = (Runtime("openvino", "1", capabilities={"CPU": told}), Runtime("onnxruntime", "1"))
    found = of(Layers, msgspec.structs.replace(device, runtimes=runtimes))
    assert {t.precision for t in found if t.backend == "openvino-cpu"} == {"fp32", "int8"} | more
    assert {t.precision for t in found if t.backend == "onnxruntime-cpu"} == {"fp32", "int8"}


def test_working_sets_lie_in_their_level_and_past_the_one_below(device):
    caches = (
        Cache(1, "data", 32 * KIB, 6, 2),
        Cache(1, "instruction", 8 * KIB, 6, 2),
        Cache(2, "unified", MIB, 6, 2),
        Cache(3, "unified", 16 * MIB, 1, 12),
    )
    device = msgspec.structs.replace(device, caches=caches)
    sizes = {(t.level, t.threads): 2 * t.array_bytes for t in of(Stream, device) if t.action == "copy"}
    assert sizes["L1", 1] == 16 * KIB
    assert 32 * KIB < sizes["L2", 1] < MIB
    assert MIB < sizes["L3", 1] < 16 * MIB
    assert 512 * KIB < sizes["L3", 12] <= 16 * MIB / 12
    assert sizes["memory", 1] >= 8 * 16 * MIB
    assert 12 * sizes["memory", 12] == pytest.approx(8 * 16 * MIB, rel=1e-3)


def test_a_share_too_small_to_tell_from_the_level_below_is_left_out_with_the_reason(device):
    caches = (Cache(2, "unified", 2 * MIB, 12, 1), Cache(3, "unified", 24 * MIB, 1, 12))
    tasks, unavailable = plan(msgspec.structs.replace(device, caches=caches), ())
    assert {t.threads for t in tasks if t.level == "L3"} == {1}
    assert "L3" in str(unavailable)


def test_unknown_caches_and_little_memory_are_reasons(device):
    tasks, unavailable = plan(msgspec.structs.replace(device, caches=()), ())
    assert {task.level for task in tasks} == {"memory"}
    assert unavailable["peaks.memory.caches"] == "the sizes of the caches are not known"
    tasks, unavailable = plan(changed(device, "memory", usable_bytes=64 * MIB), ())
    assert "memory" not in {task.level for task in tasks}
    assert "too little free memory" in unavailable["peaks.memory.memory"]
