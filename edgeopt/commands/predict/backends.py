"""The backends of another device, from its record, and the local backends that replace them."""

from dataclasses import dataclass

from edgeopt.backends import NAMES, backend_named
from edgeopt.backends.base import Available
from edgeopt.hw.device import Device
from edgeopt.profiles import TargetProfile

PROCESSOR = ("onnxruntime-cpu", "openvino-cpu")
_PROVIDERS = {
    "onnxruntime-cuda": "CUDAExecutionProvider",
    "onnxruntime-tensorrt": "TensorrtExecutionProvider",
    "onnxruntime-directml": "DmlExecutionProvider",
    "onnxruntime-coreml": "CoreMLExecutionProvider",
    "onnxruntime-openvino": "OpenVINOExecutionProvider",
    "onnxruntime-qnn": "QNNExecutionProvider",
    "onnxruntime-xnnpack": "XnnpackExecutionProvider",
}
_DEVICES = {"openvino-gpu": "GPU", "openvino-npu": "NPU"}


@dataclass(frozen=True, slots=True)
class OnDevice:
    order: tuple[str, ...]
    """Those of the profile that the record has, in the profile's order."""
    absent: dict[str, str]
    """Those that it has not, and why."""
    assumed: bool = False
    """The record names no runtime at all: the first of the processor's is taken for one to install."""


def on_device(profile: TargetProfile, device: Device) -> OnDevice:
    known = tuple(name for name in profile.backends.order if name in NAMES)
    absent = {name: why for name in known if (why := _why_absent(name, device))}
    order = tuple(name for name in known if name not in absent)
    if order:
        return OnDevice(order, absent)
    first = next((name for name in known if name in PROCESSOR), PROCESSOR[0])
    return OnDevice((first,), {name: why for name, why in absent.items() if name != first}, assumed=True)


def stand_in(backend: str) -> str:
    """The backend here that tells what a model answers: the same, or ONNX Runtime on the processor."""
    here = isinstance(backend_named(backend).available(), Available)
    return backend if here and backend in PROCESSOR else PROCESSOR[0]


def _why_absent(backend: str, device: Device) -> str:
    """As the end of a sentence; empty where the record has it."""
    family = backend.partition("-")[0]
    found = [one for one in device.runtimes if one.name == family or one.name.startswith(f"{family}-")]
    if not found:
        return f"the record has no {family}"
    provider, kind = _PROVIDERS.get(backend), _DEVICES.get(backend)
    if provider and not any(provider in one.providers for one in found):
        return f"the record's {found[0].name} is without {provider}"
    if kind and not any(name.partition(".")[0] == kind for one in found for name in one.devices):
        return f"the record's {found[0].name} sees no {kind}"
    return ""
