"""Whether OpenVINO is here, and whether it sees a device."""

import sys
from pathlib import Path

from edgeopt.backends.base import Available, installed
from edgeopt.backends.openvino.model import core
from edgeopt.errors import said_by
from edgeopt.hw.device import Unavailable

DEV = Path("/dev")

# What a program opens to reach the device on Linux; `dxg` is Windows' own device inside its Linux.
NODES = {"GPU": ("dri/renderD*", "dxg"), "NPU": ("accel/accel*",)}
DRIVERS = {
    "GPU": "Intel's compute runtime (OpenCL driver)",
    "NPU": "Intel's NPU driver",
}


def package_available() -> Available | Unavailable:
    return installed("openvino", ("openvino", "openvino-nightly"), "openvino")


def device_available(kind: str) -> Available | Unavailable:
    """Asking OpenVINO takes a third of a second, so only where it is installed and there is something to see."""
    package = package_available()
    if isinstance(package, Unavailable):
        return package
    if sys.platform == "linux" and not any(any(DEV.glob(pattern)) for pattern in NODES[kind]):
        return Unavailable(f"this system shows no {kind}: there is no {DEV}/{NODES[kind][0]}")
    try:
        devices = core().available_devices
    except RuntimeError as error:
        return Unavailable(f"OpenVINO cannot list its devices: {said_by(error)}")
    if not any(device_kind(device) == kind for device in devices):
        return Unavailable(f"OpenVINO sees no {kind}; it works with Intel's, and needs {DRIVERS[kind]}")
    return package


def device_kind(device: str) -> str:
    """`GPU` for `GPU.1`; and `CPU` for `(CPU)`, which bridges the time until another device is ready."""
    return device.strip("()").split(".", 1)[0]
