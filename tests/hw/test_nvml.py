import re
from pathlib import Path

from edgeopt.hw import nvml


def test_without_the_binding_there_is_a_reason():
    answer = nvml.query()
    assert answer["no_binding"] is True
    assert "pynvml" in answer["error"]


def test_slots_are_written_as_the_kernel_does():
    assert nvml.normal_slot("00000000:CA:00.0") == "0000:ca:00.0"
    assert nvml.normal_slot("0:17:00.0") == "0000:17:00.0"
    assert nvml.normal_slot("nonsense") is None
    assert nvml.normal_slot(None) is None


def test_an_unknown_failure_keeps_its_own_words():
    assert nvml.sentence(RuntimeError("boom")) == "NVML failed: boom"
    assert nvml.sentence(RuntimeError()) == "NVML failed: RuntimeError"
    assert "too old" in nvml.sentence(AttributeError("no nvmlX"))


def test_nothing_that_identifies_a_gpu_is_asked():
    source = Path(nvml.__file__).read_text()
    assert not re.search(r"nvmlDeviceGet(UUID|Serial|BoardId|InforomVersion)", source)
