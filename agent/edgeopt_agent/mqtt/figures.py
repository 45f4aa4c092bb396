"""Figures for a telemetry report: activity of requests, processes and the device since the last report."""

import os
import time

from edgeopt.fleet.mqtt_documents import TelemetryReport
from edgeopt.hw.load import LoadSampler, process_memory_bytes
from edgeopt_agent.deployments.slots import Slot, Slots
from edgeopt_agent.telemetry.window import LatencyWindow
from edgeopt_agent.workers.router import Router

_SHARES = {"latency_p50_ms": 0.5, "latency_p90_ms": 0.9, "latency_p99_ms": 0.99}


class _Meter:
    """The requests to one model."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._counted: dict[str, tuple[int, int]] = {}
        """Successes and failures of each release up to the last call."""
        self._window = LatencyWindow(1)
        router.watchers.append(self._saw)

    def taken(self) -> dict[str, float]:
        """Returns the figures since the last call; requests include texts and refused ones, as in the metrics."""
        counted = {name: (each.successes, each.failures) for name, each in self._router.totals.items()}
        new = [
            (successes - before[0], failures - before[1])
            for name, (successes, failures) in counted.items()
            for before in [self._counted.get(name, (0, 0))]
        ]
        self._counted = counted
        found: dict[str, float] = {
            "requests": sum(successes + failures for successes, failures in new),
            "failures": sum(failures for _, failures in new),
        }
        self._window.tick()
        found |= {
            name: round(value, 4)
            for name, value in zip(_SHARES, self._window.quantiles(_SHARES.values()), strict=False)
        }
        return found

    def _saw(self, _release: str, ok: bool, latency_ms: float, _reason: str, _request: int) -> None:
        if ok:
            self._window.add(latency_ms)


class FleetFigures:
    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._load = LoadSampler()
        self._load.sample()  # load is a difference between two
        self._meters: dict[Slot, _Meter] = {}
        self._since = time.monotonic()
        self._meter_all()

    def report(self, session: int) -> TelemetryReport:
        now = time.monotonic()
        interval_s, self._since = round(now - self._since, 3), now
        self._meter_all()
        return TelemetryReport(session, 0, time.time(), interval_s, self._device(), self._models())

    def _meter_all(self) -> None:
        """Models come and go."""
        self._meters = {slot: self._meters.get(slot) or _Meter(slot.site.router) for slot in self._slots.all}

    def _models(self) -> dict[str, dict[str, float]]:
        found = {}
        for slot, meter in self._meters.items():
            figures = meter.taken()
            worker = slot.site.router.serving
            if worker is not None:
                if (watch := slot.site.router.drift) is not None:
                    watch.follow(worker.release_id)
                    drift = {"drift_alarm": float(watch.alarm is not None), "drift_score": round(watch.score, 4)}
                    figures |= drift
                memory = process_memory_bytes(worker.pid)
                found[slot.name] = figures if memory is None else {**figures, "process_memory_bytes": memory}
        return found

    def _device(self) -> dict[str, float]:
        sample = self._load.sample()
        found = {
            "agent_memory_bytes": process_memory_bytes(os.getpid()),
            "device_memory_bytes": sample.memory_used_bytes,
            "load_percent": sample.load_percent,
            "temperature_c": sample.temperature_c,
            "clock_hz": sample.clock_hz,
        }
        return {name: value for name, value in found.items() if value is not None}
