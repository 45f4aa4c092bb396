"""Wheels of execution providers, on a module that answers as onnxruntime 1.31 does, and on the real one."""

import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from edgeopt.hw import provider_wheels, runtime_facts
from edgeopt.hw.provider_wheels import OPENVINO, QNN, devices, register


def ep_device(provider, kind, vendor="", metadata=(), hardware=()):
    """A device with the attributes of `onnxruntime.OrtEpDevice`."""
    part = SimpleNamespace(
        type=SimpleNamespace(name=kind), vendor=vendor, vendor_id=0, device_id=0, metadata=dict(hardware)
    )
    return SimpleNamespace(ep_name=provider, ep_vendor="", ep_metadata=dict(metadata), ep_options={}, device=part)


@pytest.fixture
def runtime(monkeypatch):
    """A fake onnxruntime: a wheel's devices are listed once its library is registered, which works once."""
    fake = SimpleNamespace(found=[], registered=[])

    def register_library(name, path):
        if any(name == other for other, _ in fake.registered):
            raise RuntimeError(f"EP library is already registered under {name}")
        fake.registered.append((name, path))

    def get_ep_devices():
        names = {name for name, _ in fake.registered}
        return [device for device in fake.found if device.ep_name.partition(".")[0] in names]

    fake.register_execution_provider_library = register_library
    fake.get_ep_devices = get_ep_devices
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    monkeypatch.setattr(provider_wheels, "_registered", set())
    for wheel in (QNN, OPENVINO):
        module = ModuleType(wheel.module)
        module.get_library_path = lambda wheel=wheel: f"lib/{wheel.module}.so"
        monkeypatch.setitem(sys.modules, wheel.module, module)
    return fake


def test_a_library_is_registered_once_by_all_threads(runtime):
    threads = [threading.Thread(target=register, args=(QNN,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runtime.registered == [("QNNExecutionProvider", "lib/onnxruntime_qnn.so")]


def test_a_library_that_failed_is_tried_again(runtime, monkeypatch):
    works = runtime.register_execution_provider_library
    monkeypatch.setattr(runtime, "register_execution_provider_library", lambda _name, _path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        register(QNN)
    monkeypatch.setattr(runtime, "register_execution_provider_library", works)
    register(QNN)
    assert len(runtime.registered) == 1


def test_devices_have_openvinos_names_and_those_of_its_automatic_mode_are_left_out(runtime):
    key = OPENVINO.provider
    runtime.found = [
        ep_device(key, "CPU", metadata={"ov_device": "CPU"}),
        ep_device(key, "GPU", metadata={"ov_device": "GPU.0"}),
        ep_device(key, "GPU", metadata={"ov_device": "GPU.1"}),
        ep_device(f"{key}.AUTO", "NPU", metadata={"ov_device": "NPU", "ov_meta_device": "AUTO"}),
        ep_device("CPUExecutionProvider", "CPU"),
    ]
    register(OPENVINO)
    assert list(devices(OPENVINO)) == ["CPU", "GPU.0", "GPU.1"]


def test_probe_names_the_devices_of_each_wheel(runtime):
    runtime.found = [
        ep_device(QNN.provider, "NPU", "Qualcomm", hardware={"Description": "Snapdragon X Elite NPU"}),
        ep_device(QNN.provider, "GPU", "Qualcomm"),
        ep_device(
            OPENVINO.provider, "NPU", "Intel", {"ov_device": "NPU", "FULL_DEVICE_NAME": "Intel(R) AI Boost"}
        ),
    ]
    assert runtime_facts.onnxruntime_qnn_devices() == {
        "providers": ["QNNExecutionProvider"],
        "devices": {"NPU": "Snapdragon X Elite NPU", "GPU": "Qualcomm GPU"},
    }
    assert runtime_facts.onnxruntime_openvino_devices()["devices"] == {"NPU": "Intel(R) AI Boost"}


def test_the_fake_has_the_attributes_of_the_real_interface():
    onnxruntime = pytest.importorskip("onnxruntime")
    real = onnxruntime.get_ep_devices()[0]
    fake = ep_device("", "CPU")
    for name in vars(fake):
        assert hasattr(real, name), name
    for name in vars(fake.device):
        assert hasattr(real.device, name), name
    assert real.device.type.name == "CPU"
    assert onnxruntime.OrtHardwareDeviceType.NPU.name == "NPU"
