import sys
from types import ModuleType, SimpleNamespace

import pytest

from edgeopt.errors import TrialError
from edgeopt.events import Log, Metric
from edgeopt.measure.instruments.gauges import SAMPLE_S, Gauges
from edgeopt.measure.messages import DeviceMemory, Memory, Time, Timed

MIB = 2**20


@pytest.fixture
def told():
    return []


@pytest.fixture
def gauges(told):
    return Gauges(told.append)


def metrics(told, name):
    return [e for e in told if isinstance(e, Metric) and e.name == name]


def test_while_it_waits_it_tells_more_than_ten_times_a_second(contender, gauges, told):
    one = contender("slow", latency_ms=900)
    answer = gauges.ask(one.child, Time(500), 30, "slow")
    assert isinstance(answer, Timed)
    samples = metrics(told, "process_memory_bytes")
    assert SAMPLE_S < 0.1
    assert len(samples) >= 5  # a busy machine gives it less than its turn
    assert {s.subject for s in samples} == {"slow"}
    assert all(s.value > 10 * MIB for s in samples)
    assert gauges.peak_bytes >= gauges.held_bytes > 10 * MIB


def test_what_the_device_does_not_tell_is_said_once(contender, gauges, told):
    one = contender("model")
    for _ in range(3):
        gauges.sample([one.child], "model")
    logs = [e.message for e in told if isinstance(e, Log)]
    assert len(logs) == len(set(logs))
    assert len(metrics(told, "device_memory_bytes")) == 3


def test_the_memory_of_several_trials_is_added(contender, gauges):
    one, two = contender("one"), contender("two")
    gauges.sample([one.child], "")
    alone = gauges.held_bytes
    gauges.sample([one.child, two.child], "")
    assert gauges.held_bytes == pytest.approx(2 * alone, rel=0.2)


def test_a_trial_that_does_not_answer_is_killed(contender, gauges, ends):
    one = contender("slow", latency_ms=600)
    with pytest.raises(TrialError, match="hung: no answer within 0 s; it was killed"):
        gauges.ask(one.child, Time(5000), 0.2, "slow")
    assert ends(one.child.pid, within_s=60)


def test_memory_on_gpus_is_told_once_a_trial_holds_some(contender, gauges, told, monkeypatch):
    """With a stand-in for NVML: not run on hardware."""
    one = contender("model")
    module = ModuleType("pynvml")
    module.nvmlInit = lambda: None
    module.nvmlDeviceGetCount = lambda: 1
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    rows = [SimpleNamespace(pid=1, usedGpuMemory=MIB), SimpleNamespace(pid=one.child.pid, usedGpuMemory=300 * MIB)]
    module.nvmlDeviceGetComputeRunningProcesses_v3 = lambda _: rows
    monkeypatch.setitem(sys.modules, "pynvml", module)
    gauges.look_at_gpus(Memory())
    gauges.sample([one.child], "model")
    assert not metrics(told, "gpu_memory_bytes")
    gauges.look_at_gpus(Memory(device=DeviceMemory(load_bytes=MIB)))
    gauges.sample([one.child], "model")
    assert [m.value for m in metrics(told, "gpu_memory_bytes")] == [300 * MIB]
