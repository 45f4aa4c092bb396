"""A trial's memory at the end of each of its phases."""

import time
from collections.abc import Callable

from edgeopt.measure.memory import Sizes, exact_sizes
from edgeopt.measure.messages import DeviceMemory, Memory
from edgeopt.measure.trials.device_memory import DeviceGauge

# An exact count walks all pages of the process; after every slice would cost a large model much of its time.
_STEADY_EVERY_S = 1.0


class Phases:
    """The phases are start, import, load, first_run and steady; each is reported once it has ended."""

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
        # A process that NVML names later held nothing before; one that it never names is not known.
        told = {phase: size if size is not None or not known else 0 for phase, size in self._on_device.items()}
        phases = {f"{p}_bytes": told.get(p) for p in ("import", "load", "first_run", "steady")}
        return DeviceMemory(**phases, peak_bytes=max(known, default=None))
