import ctypes.util
import dataclasses
import sys

import pytest

from edgeopt.backends.base import Available
from edgeopt.backends.onnxruntime import nvidia
from edgeopt.backends.onnxruntime.provider import available
from edgeopt.backends.onnxruntime.providers import (
    COREML_PROVIDER,
    DIRECTML_PROVIDER,
    OPENVINO_PROVIDER,
    QNN_PROVIDER,
    XNNPACK_PROVIDER,
)
from edgeopt.hw.device import Unavailable

CUDA = dataclasses.replace(nvidia.CUDA_PROVIDER, missing=lambda: None)


@pytest.fixture(autouse=True)
def linux(system, monkeypatch):
    system("Linux")
    # To import the runtime is an error here, unless a test says what it answers.
    monkeypatch.setitem(sys.modules, "onnxruntime", None)


def reason(provider):
    found = available(provider)
    assert isinstance(found, Unavailable)
    return found.reason


@pytest.mark.parametrize(("provider", "where"), [(DIRECTML_PROVIDER, "Windows"), (COREML_PROVIDER, "macOS")])
def test_another_system(distributions, provider, where):
    distributions({"onnxruntime": "1.31.1"})
    assert reason(provider) == f"it exists on {where} only, and this is Linux"


def test_nothing_is_installed(distributions):
    distributions({}, module=False)
    assert reason(CUDA) == "the Python package 'onnxruntime-gpu' is not installed"
    assert available(CUDA).extra == "cuda"


def test_another_flavour_is_told_without_asking_the_runtime(distributions):
    distributions({"onnxruntime": "1.31.1"})
    brings = "onnxruntime 1.31.1 is without {}; {} brings it, installed in its place"
    assert reason(CUDA) == brings.format("CUDAExecutionProvider", "onnxruntime-gpu")
    openvino = brings.format("OpenVINOExecutionProvider", "onnxruntime-openvino")
    assert reason(OPENVINO_PROVIDER) == f"{openvino}, or onnxruntime-ep-openvino in addition to it"
    assert "no published package brings it" in reason(XNNPACK_PROVIDER)


def test_what_the_runtime_has(distributions, providers):
    distributions({"onnxruntime-gpu": "1.31.1"})
    providers("TensorrtExecutionProvider", "CUDAExecutionProvider")
    assert available(CUDA) == Available("1.31.1")


def test_a_flavour_that_another_one_has_overwritten(distributions, providers):
    distributions({"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"})
    providers()
    assert reason(CUDA).startswith("onnxruntime conflicts with onnxruntime-gpu")


def test_a_wheel_that_was_built_here_is_asked(distributions, providers):
    distributions({"onnxruntime": "1.31.1"}, files=("onnxruntime",))
    providers("XnnpackExecutionProvider")
    assert available(XNNPACK_PROVIDER) == Available("1.31.1")
    assert reason(CUDA).startswith("ONNX Runtime 1.31.1 is built without CUDAExecutionProvider")


def test_a_runtime_of_no_known_package_is_asked(distributions, providers):
    distributions({})
    providers("CUDAExecutionProvider")
    assert available(CUDA) == Available("1.31.1")


def test_a_runtime_that_does_not_load(distributions):
    distributions({"onnxruntime-gpu": "1.31.1"})
    assert reason(CUDA).startswith("ONNX Runtime cannot be imported")


def test_a_plug_in_that_is_not_installed(distributions):
    distributions({"onnxruntime": "1.31.1"})
    assert reason(QNN_PROVIDER) == "the Python package 'onnxruntime-qnn' is not installed"


def test_a_driver_that_is_missing_is_said_before_the_runtime_is_asked(distributions):
    distributions({"onnxruntime-gpu": "1.31.1"})
    gone = dataclasses.replace(CUDA, missing=lambda: "NVIDIA's driver sees no GPU")
    assert reason(gone) == "NVIDIA's driver sees no GPU"


class Driver:
    """As much of libcuda as is called."""

    def __init__(self, code=0, count=1):
        self.code, self.count = code, count

    def cuInit(self, _flags):  # noqa: N802 - its name in CUDA
        return self.code

    def cuDeviceGetCount(self, pointer):  # noqa: N802
        pointer._obj.value = self.count
        return 0


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (Driver(), None),
        (Driver(code=999), "NVIDIA's driver cannot be used: CUDA error 999"),
        (Driver(count=0), "NVIDIA's driver sees no GPU"),
    ],
)
def test_what_nvidias_driver_says(monkeypatch, driver, said):
    monkeypatch.setattr(nvidia.ctypes, "CDLL", lambda _name: driver)
    assert nvidia.gpu_missing() == said


def test_no_driver_at_all(monkeypatch):
    monkeypatch.setattr(nvidia.platform, "system", lambda: "Nowhere")
    monkeypatch.setattr(nvidia, "_DRIVERS", {"Nowhere": "libno-such-driver.so.1"})
    assert nvidia.gpu_missing() == "NVIDIA's driver is not installed: libno-such-driver.so.1 is missing"


def test_tensorrt_needs_its_own_libraries(monkeypatch):
    monkeypatch.setattr(nvidia, "gpu_missing", lambda: None)
    monkeypatch.setattr(nvidia, "find_spec", lambda _name: None)
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: None)
    assert "libnvinfer" in nvidia.tensorrt_missing()
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so.10")
    assert nvidia.tensorrt_missing() is None
