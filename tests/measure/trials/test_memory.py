"""With a stand-in for pynvml: a real GPU is nowhere to be had here."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from edgeopt.measure.memory import Sizes
from edgeopt.measure.trials.memory import Phases, open_gauge

MIB = 2**20


class Nvml(ModuleType):
    """Two GPUs; this process and another one on them."""

    def __init__(self, *own):
        super().__init__("pynvml")
        self.own, self.asked = list(own), 0

    def nvmlInit(self):  # noqa: N802 - NVML's names
        self.asked += 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.own)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle):  # noqa: N802
        if isinstance(self.own[handle], Exception):
            raise self.own[handle]
        rows = [SimpleNamespace(pid=1, usedGpuMemory=900 * MIB)]
        if self.own[handle] != 0:
            rows.append(SimpleNamespace(pid=os.getpid(), usedGpuMemory=self.own[handle]))
        return rows


@pytest.fixture
def nvml(monkeypatch):
    def plant(*own):
        module = Nvml(*own)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return plant


def test_what_this_process_holds_on_all_gpus_is_added_up(nvml):
    nvml(300 * MIB, 20 * MIB)
    assert open_gauge("onnxruntime-cuda").held_bytes() == 320 * MIB


def test_a_gpu_that_fails_hides_no_other(nvml, caplog):
    nvml(RuntimeError("lost"), 20 * MIB)
    assert open_gauge("onnxruntime-tensorrt").held_bytes() == 20 * MIB
    assert "NVML failed: lost" in caplog.text


@pytest.mark.parametrize("own", [0, None])
def test_a_process_that_nvml_does_not_tell_of_holds_an_unknown_size(nvml, own):
    nvml(own)
    assert open_gauge("onnxruntime-cuda").held_bytes() is None


def test_a_backend_without_a_gpu_does_not_even_ask(nvml):
    module = nvml(300 * MIB)
    assert open_gauge("onnxruntime-cpu") is None
    assert module.asked == 0


def test_without_nvml_there_is_no_gauge(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_gauge("onnxruntime-cuda") is None


def test_phases_tell_the_gpu_memory_from_nothing_to_the_peak(nvml):
    module = nvml(0)
    phases = Phases(lambda: Sizes(1, 1), open_gauge("onnxruntime-cuda"))
    for phase, size in (("import", 0), ("load", 400 * MIB), ("first_run", 700 * MIB)):
        module.own[0] = size
        phases.end(phase)
    module.own[0] = 600 * MIB
    phases.slice_ended()
    device = phases.record().device
    assert (device.import_bytes, device.load_bytes, device.first_run_bytes) == (0, 400 * MIB, 700 * MIB)
    assert (device.steady_bytes, device.peak_bytes) == (600 * MIB, 700 * MIB)


def test_phases_of_a_process_that_is_never_named_are_unknown(nvml):
    nvml(0)
    phases = Phases(lambda: Sizes(1, 1), open_gauge("onnxruntime-cuda"))
    phases.end("import")
    phases.end("load")
    assert phases.record().device.load_bytes is None
    assert phases.record().device.import_bytes is None
