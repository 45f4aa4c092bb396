"""The memory of a trial, on the CPU and on NVIDIA GPUs."""

import importlib
import os
import time
from collections.abc import Callable, Collection
from typing import Any

from edgeopt.measure.memory import Sizes, added_bytes, exact_sizes
from edgeopt.measure.messages import DeviceMemory, Memory

ON_NVIDIA = ("onnxruntime-cuda", "onnxruntime-tensorrt")
"""The backends that use NVIDIA GPU memory; NVML is not imported for others."""
# An exact count reads all pages of the process, which would slow a large model down if done after every slice.
_STEADY_EVERY_S = 1.0


class DeviceGauge:
    """Gauge of processes' memory on all GPUs, which NVML does not report for processes inside a container."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401 - pynvml has no types
        self._nvml = nvml
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(k) for k in range(nvml.nvmlDeviceGetCount())]

    def held_bytes(self, pids: Collection[int] = ()) -> int | None:
        """Returns the bytes held on all GPUs by these processes; by this process if there are none."""
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
    """Opens a gauge for a backend on NVIDIA GPUs; returns None for others, and if NVML fails."""
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
    """Returns NVML's call for running processes, preferably in version 3, which counts MIG instances correctly."""
    return (
        getattr(nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None) or nvml.nvmlDeviceGetComputeRunningProcesses
    )


class Phases:
    """Memory by phase (start, import, load, first_run and steady), measured at the end of each."""

    def __init__(self, sizes: Callable[[], Sizes] = exact_sizes, gauge: DeviceGauge | None = None) -> None:
        self.sizes, self.gauge = sizes, gauge
        self._resident: dict[str, int | None] = {}
        self._highest: dict[str, int | None] = {}
        self._peak: int | None = None
        self._on_device: dict[str, int | None] = {}
        self._steady_at = -_STEADY_EVERY_S

    def end(self, phase: str) -> None:
        self._resident[phase], self._highest[phase] = self._look()
        if self.gauge is not None:
            self._on_device[phase] = self.gauge.held_bytes()

    def slice_ended(self) -> None:
        now = time.monotonic()
        if now >= self._steady_at + _STEADY_EVERY_S:
            self.end("steady")
            self._steady_at = now

    def record(self) -> Memory:
        return Memory(
            **{f"{phase}_bytes": size for phase, size in self._resident.items()},
            **{f"{phase}_peak_bytes": self._highest.get(phase) for phase in ("import", "load", "first_run")},
            peak_bytes=self._peak,
            device=self._device(),
            added_bytes=added_bytes(self._peak, self._resident.get("start")),
        )

    def _look(self) -> Sizes:
        found = self.sizes()
        if found.peak_bytes is not None:
            self._peak = max(found.peak_bytes, self._peak or 0)
        return found

    def _device(self) -> DeviceMemory | None:
        if self.gauge is None:
            return None
        known = [size for size in self._on_device.values() if size is not None]
        # A process that NVML lists only later held nothing before; one that it never lists is unknown.
        known_sizes = {
            phase: size if size is not None or not known else 0 for phase, size in self._on_device.items()
        }
        phases = {f"{p}_bytes": known_sizes.get(p) for p in ("import", "load", "first_run", "steady")}
        return DeviceMemory(**phases, peak_bytes=max(known, default=None))
