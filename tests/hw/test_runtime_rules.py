import pytest

from edgeopt.hw.device import Runtime
from edgeopt.hw.probes.runtimes import absences, tensorrt_library

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
