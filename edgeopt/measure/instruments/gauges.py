"""Samples of trials and the device, emitted as metrics more than ten times a second."""

import time
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from edgeopt.errors import TrialError
from edgeopt.events import Emit, Log, Metric
from edgeopt.hw.load import LoadSample, LoadSampler, process_memory_bytes
from edgeopt.measure.contender import read_answer
from edgeopt.measure.messages import Answer, Memory
from edgeopt.measure.trials.memory import ON_NVIDIA, DeviceGauge, open_gauge
from edgeopt.workers.host import Child, LocalChild

SAMPLE_S = 0.08


class Gauges:
    """Sampler that emits metrics when one is due, and logs each missing metric once; not thread-safe."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.latest: LoadSample | None = None
        self.held_bytes: int | None = None
        """Memory of all sampled trials at the latest sample, in bytes."""
        self.peak_bytes: int | None = None
        self._device = LoadSampler()
        self._sampled = time.monotonic()
        self._gpus: DeviceGauge | None = None
        self._absent: set[str] = set()
        # Curves need a clock that never steps back, and readers the time of day.
        self._wall_s = time.time() - time.monotonic()

    def ask(self, child: Child, request: msgspec.Struct, timeout_s: float, subject: str) -> Answer:
        """Sends one request and returns its answer, with metrics emitted while it waits."""
        child.send(msgspec.json.encode(request))
        return self.receive(child, timeout_s, subject)

    def receive(self, child: Child, timeout_s: float, subject: str) -> Answer:
        """Returns the answer to the previous request; raises TrialError if none can be read."""
        if not self.wait([child], timeout_s, subject):
            child.close()
            raise TrialError(f"hung: no answer within {timeout_s:.0f} s; it was killed", ending="hung")
        answer = read_answer(child, timeout_s)
        self.look_at_gpus(getattr(answer, "memory", None))
        return answer

    def look_at_gpus(self, memory: Memory | None) -> None:
        """Starts GPU memory metrics if the trial reports GPU memory, which shows that NVML works."""
        if memory is not None and memory.device is not None and self._gpus is None:
            self._gpus = open_gauge(ON_NVIDIA[0])

    def wait(self, children: Sequence[Child], timeout_s: float, subject: str) -> bool:
        """Waits for the first child's answer, emitting metrics; returns False if `timeout_s` passes first."""
        deadline = time.monotonic() + timeout_s
        first = children[0]
        if not isinstance(first, LocalChild):
            return True  # only what runs here can be looked at while it runs
        while not first.ready(min(self.next_in_s(), deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                return False
            self.sample_if_due(children, subject)
        return True

    def next_in_s(self) -> float:
        """Returns the seconds until the next sample is due."""
        return max(0.0, self._sampled + SAMPLE_S - time.monotonic())

    def sample_if_due(self, children: Sequence[Child], subject: str) -> None:
        if time.monotonic() >= self._sampled + SAMPLE_S:
            self.sample(children, subject)

    def sample(self, children: Sequence[Child], subject: str) -> None:
        """Emits the memory of these trials and the state of the device."""
        now = self._sampled = time.monotonic()
        sample = self.latest = self._device.sample()
        pids = [child.pid for child in children if isinstance(child, LocalChild)]
        sizes = [process_memory_bytes(pid) for pid in pids]
        held = sum(size or 0 for size in sizes) or None
        self.held_bytes = held
        if held is not None:
            self.peak_bytes = max(held, self.peak_bytes or 0)
        values = {
            "process_memory_bytes": (held, "the system does not report the memory of other processes"),
            "device_memory_bytes": (sample.memory_used_bytes, sample.unavailable.get("memory_used_bytes", "")),
            "load_percent": (sample.load_percent, sample.unavailable.get("load_percent", "")),
            "temperature_c": (sample.temperature_c, sample.unavailable.get("temperature_c", "")),
            "clock_hz": (sample.clock_hz, sample.unavailable.get("clock_hz", "")),
        }
        on_gpus = self._gpus.held_bytes(pids) if self._gpus is not None and pids else None
        if on_gpus is not None:
            self.emit_metric("gpu_memory_bytes", on_gpus, subject, now)
        for name, (value, why) in values.items():
            if value is not None:
                self.emit_metric(name, value, subject, now)
            elif name not in self._absent:
                self._absent.add(name)
                self.emit(Log("info", f"No {name}: {why}.", kind="no-metric", subject=name, reason=why))

    def emit_metric(
        self,
        name: str,
        value: float,
        subject: str,
        now: float | None = None,
        samples: tuple[float, ...] | UnsetType = UNSET,
    ) -> None:
        """Emits one metric, with a moment of the monotonic clock converted to the time of day."""
        time_s = self._wall_s + (time.monotonic() if now is None else now)
        self.emit(Metric(name, float(value), subject, time_s, samples=samples))
