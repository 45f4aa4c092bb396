"""Wheels that contain an execution provider as a library for the plain ONNX Runtime.

The interface is documented at onnxruntime.ai, "Plugin Execution Provider Libraries" (as of ONNX Runtime 1.31); the
versions needed are those that each wheel's metadata names.
"""

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice


class ProviderWheel(NamedTuple):
    provider: str
    """Name of the provider in the runtime."""
    distribution: str
    module: str
    """Module whose `get_library_path()` returns the library."""
    min_runtime: str
    """Oldest version of ONNX Runtime that the library works with."""


QNN = ProviderWheel("QNNExecutionProvider", "onnxruntime-qnn", "onnxruntime_qnn", "1.24.2")
OPENVINO = ProviderWheel(
    "OpenVINOExecutionProvider", "onnxruntime-ep-openvino", "onnxruntime_ep_openvino", "1.23.0"
)
PROVIDER_WHEELS = (QNN, OPENVINO)

_registered: set[ProviderWheel] = set()
_registering = threading.Lock()


def register(wheel: ProviderWheel) -> None:
    """Registers the library, once for each process, because the runtime refuses a second time."""
    from importlib import import_module

    import onnxruntime

    with _registering:
        if wheel not in _registered:
            library = import_module(wheel.module).get_library_path()
            onnxruntime.register_execution_provider_library(wheel.provider, library)
            _registered.add(wheel)


def devices(wheel: ProviderWheel) -> "dict[str, OrtEpDevice]":
    """Returns the devices of a registered provider, the first of each name: `NPU`, `GPU`, `GPU.1`, `CPU`."""
    import onnxruntime

    found: dict[str, OrtEpDevice] = {}
    for device in onnxruntime.get_ep_devices():
        if device.ep_name == wheel.provider:
            # OpenVINO's plug-in has names of its own, which number the GPUs.
            found.setdefault(device.ep_metadata.get("ov_device") or device.device.type.name, device)
    return found
