import threading
from dataclasses import dataclass, field

import pytest

from edgeopt.hw.device import Runtime, Unavailable
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probes.runtimes import absences, installed_versions, probe, tensorrt_library


@dataclass(frozen=True, slots=True)
class CountingHost(RecordedHost):
    """A recorded machine that counts the child processes."""

    asked: list = field(default_factory=list)
    answers: dict = field(default_factory=dict)

    def call_in_child(self, library, function, timeout_s=30.0):  # noqa: ARG002 - contract
        self.asked.append(function)
        return self.answers[function]


@pytest.fixture
def make(machine, tmp_path):
    def host(cache_folder=tmp_path / "cache", **changes):
        answers = {
            "onnxruntime_providers": {"providers": ["CPUExecutionProvider"]},
            "openvino_devices": {
                "providers": ["CPU: Some CPU"],
                "devices": {"CPU": "Some CPU"},
                "capabilities": {"CPU": ["FP32", "INT8"]},
            },
        }
        versions = {"onnxruntime": "1.31.1", "openvino": "2026.4.1"} | changes.pop("versions", {})
        calls = {"platform.python_version()": "3.12.8"}
        root = machine(changes.pop("files", None), versions=versions, calls=calls).root
        return CountingHost(root, cache_folder, answers=answers | changes)

    return host


def test_versions_and_what_they_run_on(make):
    facts = probe(make())
    assert facts.section == (
        Runtime("onnxruntime", "1.31.1", ("CPUExecutionProvider",)),
        Runtime("openvino", "2026.4.1", ("CPU: Some CPU",), {"CPU": "Some CPU"}, {"CPU": ("FP32", "INT8")}),
    )
    assert facts.sources["runtimes.openvino.capabilities"] == "edgeopt.hw.runtime_facts.openvino_devices()"
    assert facts.unavailable["onnxscript"] == "not installed; pip install onnx onnx-ir onnxscript nncf scipy"


def test_the_second_time_no_process_is_started(make):
    first = probe(make())
    host = make()
    second = probe(host)
    assert host.asked == []
    assert second.section == first.section
    assert second.sources["runtimes.openvino.providers"] == "cached answer of edgeopt.hw.runtime_facts"


@pytest.mark.parametrize(
    "change",
    [
        {"versions": {"onnxruntime": "1.32.0"}},
        {"files": {"/proc/driver/nvidia/version": "NVRM version: 1"}},
        {"files": {"/proc/cpuinfo": "processor : 0\nmodel name : Another CPU\n"}},
        {"files": {"/dev/dri/renderD128": ""}},
    ],
)
def test_what_changes_the_answer_asks_again(make, change):
    probe(make())
    host = make(**change)
    probe(host)
    assert sorted(host.asked) == ["onnxruntime_providers", "openvino_devices"]


def test_a_damaged_cache_is_filled_again(make, tmp_path):
    probe(make())
    (file,) = (tmp_path / "cache").iterdir()
    file.write_text("{broken")
    host = make()
    assert probe(host).section[0].providers == ("CPUExecutionProvider",)
    assert len(host.asked) == 2
    again = make()
    probe(again)
    assert again.asked == []


def test_a_runtime_that_crashes_keeps_its_version_and_gets_a_reason(make):
    facts = probe(make(openvino_devices=Unavailable("it crashed: SIGSEGV")))
    assert facts.section[1] == Runtime("openvino", "2026.4.1", ())
    assert facts.unavailable["openvino.providers"] == "it crashed: SIGSEGV"
    host = make()
    probe(host)
    assert host.asked == ["openvino_devices"]


@pytest.mark.parametrize("answer", [3, None, [1], {"providers": "CPU"}, {"devices": ["CPU"]}])
def test_an_answer_of_another_shape_is_a_reason(make, answer):
    facts = probe(make(openvino_devices=answer))
    assert "cannot be read" in facts.unavailable["openvino.providers"]


def test_runtimes_are_asked_at_the_same_time(make):
    barrier = threading.Barrier(2, timeout=20)

    class Waiting(CountingHost):
        def call_in_child(self, library, function, timeout_s=30.0):
            barrier.wait()
            return super().call_in_child(library, function, timeout_s)

    host = make(cache_folder=None)
    assert len(probe(Waiting(host.root, None, answers=host.answers)).section) == 2


def test_a_tree_of_files_alone_says_nothing_of_packages(machine):
    assert "does not list" in probe(machine({"/proc/cpuinfo": "processor : 0"})).unavailable["onnxruntime"]


def test_tensorrt_as_a_package_and_as_a_library(machine):
    facts = probe(machine(versions={"tensorrt-cu12": "10.3.0"}))
    assert facts.section == (Runtime("tensorrt-cu12", "10.3.0"),)
    assert "tensorrt" not in facts.unavailable
    path = "/usr/lib/x86_64-linux-gnu/libnvinfer.so.10"
    driver = {"/proc/driver/nvidia/version": "NVRM version: 560"}
    facts = probe(machine(driver, calls={f'os.path.exists("{path}")': True}))
    assert facts.section == (Runtime("tensorrt", "10"),)
    assert facts.sources["runtimes.tensorrt"] == path


def test_a_cache_that_cannot_be_written_is_told(make, tmp_path):
    (tmp_path / "file").write_text("")
    facts = probe(make(cache_folder=tmp_path / "file"))
    assert "asks the runtimes again" in facts.unavailable["runtimes.cache"]
    assert facts.section[0].providers


def test_a_provider_wheel_is_a_runtime_with_its_own_devices(board, make):
    runtimes = {runtime.name: runtime for runtime in probe(board("qualcomm-qcs6490")).section}
    assert runtimes["onnxruntime"].providers == ("CPUExecutionProvider",)
    assert runtimes["onnxruntime-qnn"].devices == {"NPU": "Qualcomm NPU"}
    why = "onnxruntime_openvino_devices() failed: cannot load the library"
    versions = {"onnxruntime-ep-openvino": "1.8.1"}
    facts = probe(make(versions=versions, onnxruntime_openvino_devices=Unavailable(why)))
    assert facts.unavailable["onnxruntime-ep-openvino.providers"] == why
    assert facts.section[0].providers == ("CPUExecutionProvider",)


def test_a_bare_device_starts_no_process(machine):
    host = CountingHost(machine().root)
    assert probe(host).section == ()
    assert host.asked == []


def test_the_gpu_build_counts_as_onnxruntime(machine):
    host = CountingHost(
        machine(versions={"onnxruntime-gpu": "1.30"}).root,
        answers={"onnxruntime_providers": ["CUDAExecutionProvider"]},
    )
    facts = probe(host)
    assert facts.section == (Runtime("onnxruntime-gpu", "1.30", ("CUDAExecutionProvider",)),)
    assert "onnxruntime" not in facts.unavailable
    assert installed_versions(host) == (("onnxruntime-gpu", "1.30"),)


DRIVER = {"/proc/driver/nvidia/version": "NVRM version: 560.35"}


def test_tensorrt_of_nvidias_own_packages(machine):
    path = "/usr/lib/aarch64-linux-gnu/libnvinfer.so.10"
    calls = {f'os.path.exists("{path}")': True}
    assert tensorrt_library(machine({"/etc/nv_tegra_release": "# R36"}, calls=calls)) == ("10", path)


def test_without_a_driver_tensorrt_is_of_no_use(machine):
    assert tensorrt_library(machine(calls={'os.path.exists("/usr/lib64/libnvinfer.so.10")': True})) is None


@pytest.mark.parametrize(
    ("files", "calls", "name", "words"),
    [
        (DRIVER, {}, "tensorrt", "no Python package and no libnvinfer.so"),
        ({}, {}, "tensorrt", "no NVIDIA driver"),
        ({}, {"platform.system()": "Darwin"}, "coreml", "pip install onnxruntime"),
        ({}, {"platform.system()": "Linux"}, "coreml", "Apple"),
        ({}, {"platform.system()": "Windows"}, "directml", "pip install onnxruntime-directml"),
        ({}, {"platform.system()": "Linux"}, "directml", "only on Windows"),
        ({"/proc/device-tree/compatible": "qcom,qcs6490\0"}, {}, "qnn", "onnxruntime-qnn"),
        ({}, {}, "qnn", "no Qualcomm"),
    ],
)
def test_each_absence_has_its_reason(machine, files, calls, name, words):
    assert words in absences(machine(files, calls=calls), ())[name]


def test_what_is_here_is_not_absent(machine):
    providers = ("CoreMLExecutionProvider", "DmlExecutionProvider", "QNNExecutionProvider")
    here = (Runtime("onnxruntime", "1", providers), Runtime("tensorrt-cu12", "10.3"))
    assert absences(machine(), here) == {}
