"""Runtimes that come with a system or a driver and not as a Python package, and why one is not here."""

from typing import NamedTuple

from edgeopt.errors import pip_install
from edgeopt.hw.device import Runtime
from edgeopt.hw.host import Host

_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib")
_TENSORRT_VERSIONS = ("10", "11", "9", "8")
_NVIDIA_MARKS = ("/proc/driver/nvidia/version", "/etc/nv_tegra_release")
_QUALCOMM = "qcom,"


class Library(NamedTuple):
    version: str
    path: str


def tensorrt_library(host: Host) -> Library | None:
    """TensorRT as NVIDIA's own packages install it; looked for only where there is an NVIDIA driver."""
    if not _nvidia(host):
        return None
    found = (Library(v, f"{folder}/libnvinfer.so.{v}") for folder in _LIBRARY_FOLDERS for v in _TENSORRT_VERSIONS)
    return next((library for library in found if host.call("os.path", "exists", library.path) is True), None)


def absences(host: Host, runtimes: tuple[Runtime, ...]) -> dict[str, str]:
    """Why TensorRT, CoreML, DirectML and QNN are not here, those of them that are not."""
    providers = {provider for runtime in runtimes for provider in runtime.providers}
    names = {runtime.name for runtime in runtimes}
    system = host.call("platform", "system")
    found: dict[str, str] = {}
    if not any(name.startswith("tensorrt") for name in names):
        found["tensorrt"] = (
            "not installed: no Python package and no libnvinfer.so"
            if _nvidia(host) or system == "Windows"
            else "no NVIDIA driver"
        )
    if "CoreMLExecutionProvider" not in providers and "coremltools" not in names:
        found["coreml"] = (
            f"not installed; {pip_install('cpu')}" if system == "Darwin" else "available only on Apple systems"
        )
    if "DmlExecutionProvider" not in providers:
        found["directml"] = (
            f"not installed; {pip_install('directml')}" if system == "Windows" else "available only on Windows"
        )
    if "QNNExecutionProvider" not in providers:
        found["qnn"] = (
            "not installed; pip install onnxruntime-qnn brings it" if _qualcomm(host) else "no Qualcomm chip"
        )
    return found


def _nvidia(host: Host) -> bool:
    return any(host.read(path) is not None for path in _NVIDIA_MARKS)


def _qualcomm(host: Host) -> bool:
    if _QUALCOMM in (host.read("/proc/device-tree/compatible") or ""):
        return True
    return any(name.startswith(("adsprpc", "fastrpc")) for name in host.list("/dev"))
