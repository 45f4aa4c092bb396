"""What the providers for NVIDIA's GPUs need besides the runtime."""

import ctypes
import platform
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec

_DRIVERS = {"Linux": "libcuda.so.1", "Windows": "nvcuda.dll"}
_TENSORRT = (
    "libnvinfer.so.10",
    "nvinfer_10.dll",
    "libnvinfer.so.11",
    "nvinfer_11.dll",
    "libnvinfer.so.8",
    "nvinfer.dll",
)
"""The one that ONNX Runtime 1.31 is built with first."""


def gpu_missing() -> str | None:
    """Why CUDA has no device here, as the driver itself says."""
    name = _DRIVERS.get(platform.system(), "libcuda.so.1")
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return f"NVIDIA's driver is not installed: {name} is missing"
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code:
        return f"NVIDIA's driver cannot be used: CUDA error {code}"
    return None if count.value else "NVIDIA's driver sees no GPU"


def gpu_name(number: int) -> str:
    """As CUDA counts them, which NVML does not; `unknown` where the driver does not tell."""
    try:
        driver = ctypes.CDLL(_DRIVERS.get(platform.system(), "libcuda.so.1"))
    except OSError:
        return "unknown"
    device, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
    code = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), number)
        or driver.cuDeviceGetName(name, len(name), device)
    )
    return "unknown" if code else name.value.decode(errors="replace")


def tensorrt_version() -> str:
    """Of the library that is found, which may not come from a Python package; `unknown` if there is none."""
    for name in _TENSORRT:
        try:
            return str(ctypes.CDLL(name).getInferLibVersion())
        except (OSError, AttributeError):
            continue
    return "unknown"


def load_libraries() -> None:
    """CUDA and cuDNN out of Python packages, where they are: the runtime looks on the system's path only."""
    import onnxruntime

    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is not None:
        # It prints what it does not find; a trial's stdout is for its answers.
        with redirect_stdout(sys.stderr):
            preload()


def load_tensorrt() -> None:
    """The same for TensorRT, whose package loads its libraries when it is imported."""
    load_libraries()
    if find_spec("tensorrt_libs") is not None:
        from importlib import import_module

        import_module("tensorrt_libs")
