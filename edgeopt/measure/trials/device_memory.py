"""What this process holds on NVIDIA GPUs, as NVML counts it. Tested with a stand-in; not run on hardware."""

import importlib
import os
from collections.abc import Collection
from typing import Any

ON_NVIDIA = ("onnxruntime-cuda", "onnxruntime-tensorrt")
"""The backends that hold memory there; NVML is not even imported for others."""


class DeviceGauge:
    """Asks all GPUs for some processes; None where NVML does not tell, as of processes inside a container."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401 - pynvml has no types
        self._nvml = nvml
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(k) for k in range(nvml.nvmlDeviceGetCount())]

    def held_bytes(self, pids: Collection[int] = ()) -> int | None:
        """By these processes; none: by this one."""
        pids = pids or (os.getpid(),)
        own: list[int | None] = []
        for handle in self._handles:
            try:
                processes = _running(self._nvml)(handle)
            except Exception as error:  # noqa: BLE001 - a foreign library; the reason goes to the trial's log
                _warn(error)
                continue
            own += [process.usedGpuMemory for process in processes if process.pid in pids]
        known = [size for size in own if size is not None]  # Windows names the process but not its memory
        return sum(known) if known else None


def open_gauge(backend: str) -> DeviceGauge | None:
    """For a backend that runs on NVIDIA's GPUs; None for others, and where NVML does not answer."""
    if backend not in ON_NVIDIA:
        return None
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        return DeviceGauge(nvml)
    except Exception as error:  # noqa: BLE001 - as above
        _warn(error)
        return None


def _warn(error: Exception) -> None:
    import logging

    from edgeopt.hw.nvml import sentence

    logging.getLogger(__name__).warning("%s", sentence(error))


def _running(nvml: Any) -> Any:  # noqa: ANN401 - as above
    """The call's third version counts MIG instances right; the bindings' plain name is the latest one."""
    return (
        getattr(nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None) or nvml.nvmlDeviceGetComputeRunningProcesses
    )
