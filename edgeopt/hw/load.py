"""Current load, memory use, clock and temperature of the device; each is None, with a reason, if unknown.

The paths are looked up once; a sample only reads a few small files (well under a millisecond).
"""

import os

import msgspec

from edgeopt.hw import cgroup, kernel_text, sensors
from edgeopt.hw.host import Host, LocalHost

_PSUTIL_MEMORY = ("total", "available")


class LoadSample(msgspec.Struct, frozen=True):
    load_percent: float | None
    """All cores together, since the sample before."""
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    """Memory of the container if it is limited to less than the machine has."""
    clock_hz: float | None
    """The mean over the cores, of this moment."""
    temperature_c: float | None
    """The hottest of the CPU's or the chip's own sensors."""
    unavailable: dict[str, str] = {}
    """Names of the fields that are None, each with its reason."""


class LoadSampler:
    """Keeps the counters of the last sample, because load is a difference. Not for several threads."""

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or LocalHost()
        self._limit = cgroup.memory_limit(self._host)
        self._clocks = sensors.clock_files(self._host)
        self._sensors = sensors.temperature_files(self._host)
        self._times = self._busy_and_total()
        self._load_percent: float | None = None

    def sample(self) -> LoadSample:
        load, clock, temperature = self._load(), self._clock_hz(), self._temperature_c()
        used, total = self._memory()
        unavailable = {}
        if load is None:
            unavailable["load_percent"] = (
                "neither /proc/stat nor psutil reports the load of the cores"
                if self._times is None
                else "less than one tick of the kernel's clock since the first sample"
            )
        for name, size in (("memory_used_bytes", used), ("memory_total_bytes", total)):
            if size is None:
                unavailable[name] = "neither /proc/meminfo nor psutil reports it"
        if clock is None:
            unavailable["clock_hz"] = (
                "the kernel has no cpufreq files, as in most virtual machines"
                if not self._clocks
                else "the kernel's cpufreq files could not be read"
            )
        if temperature is None:
            unavailable["temperature_c"] = (
                "the kernel has no sensor of the CPU or the chip"
                if not self._sensors
                else "no sensor of the CPU or the chip gives a plausible number"
            )
        return LoadSample(load, used, total, clock, temperature, unavailable)

    def _load(self) -> float | None:
        before, now = self._times, self._busy_and_total()
        if before is not None and now is not None and now[1] > before[1]:
            # The kernel's own counts of idle time can step back a little.
            share = (now[0] - before[0]) / (now[1] - before[1])
            self._load_percent = min(100.0, max(0.0, 100.0 * share))
            self._times = now
        elif before is None or now is None:
            self._times, self._load_percent = now, None
        return self._load_percent

    def _busy_and_total(self) -> tuple[float, float] | None:
        ticks = sensors.cpu_ticks(self._host)
        if ticks is not None:
            return ticks.total - ticks.idle, ticks.total
        answer = self._host.call("psutil", "cpu_times")
        if not isinstance(answer, dict) or not isinstance(answer.get("idle"), int | float):
            return None
        total_s = sum(v for k, v in answer.items() if isinstance(v, int | float) and not k.startswith("guest"))
        return total_s - answer["idle"] - (answer.get("iowait") or 0.0), total_s

    def _memory(self) -> tuple[int | None, int | None]:
        found = kernel_text.counters(self._host.read("/proc/meminfo"))
        total, available = found.get("MemTotal"), found.get("MemAvailable", found.get("MemFree"))
        if not total or available is None:
            answer = self._host.call("psutil", "virtual_memory")
            known = answer if isinstance(answer, dict) else {}
            total, available = (known.get(k) if isinstance(known.get(k), int) else None for k in _PSUTIL_MEMORY)
        if self._limit is not None and (total is None or self._limit.limit_bytes < total):
            return cgroup.unreclaimable_bytes(self._host, self._limit.source), self._limit.limit_bytes
        if total is None or available is None:
            return None, None
        return max(0, total - available), total

    def _clock_hz(self) -> float | None:
        clock = sensors.mean_clock_hz(self._host, self._clocks)
        if clock is not None:
            return clock
        if self._host.read("/proc/stat") is not None:
            return None
        answer = self._host.call("psutil", "cpu_freq")
        current = answer.get("current") if isinstance(answer, dict) else None
        return current * 1e6 if isinstance(current, int | float) and current > 0 else None

    def _temperature_c(self) -> float | None:
        read = (sensors.temperature_c(self._host, path) for path in self._sensors)
        return max((degrees for degrees in read if degrees is not None), default=None)


def process_memory_bytes(pid: int) -> int | None:
    """The resident memory of one process, without its children; None when it is gone or not told."""
    host = LocalHost()
    pages = (host.read(f"/proc/{pid}/statm") or "").split()
    if len(pages) > 1 and pages[1].isdigit():
        return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") or None  # an ended process has 0
    if host.read("/proc/stat") is not None:
        return None
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def process_cpu_s(pid: int) -> float | None:
    """The processor time of one process so far; None when it is gone or not told."""
    host = LocalHost()
    fields = (host.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if len(fields) > 12:
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None
