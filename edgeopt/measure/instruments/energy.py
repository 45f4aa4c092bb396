"""Energy by inference, where the device tells it: the meter of a contest, and what a side's share comes to.

A meter sees the whole device, or all of its CPU packages: what belongs to a side is what was drawn while it ran.
"""

import importlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgeopt.hw import kernel_text, nvml, power, sensors
from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import Host, LocalHost
from edgeopt.measure.report import Energy
from edgeopt.measure.stats import total

_PERIOD_S = 0.02
_BATTERY_PERIOD_S = 1.0
# After a longer pause between two readings (1 s, or 50 s for a battery) the energy in between is unknown.
_LONGEST_GAP_PERIODS = 50
_MILLI = 1e-3
_LONGEST_IDLE_S = 3.0


class EnergySource(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def resolution_s(self) -> float:
        """Shortest run of one side, in seconds, whose energy is distinguishable from that of the others."""

    def joules(self) -> float | None:
        """Returns joules since the source was opened; None after a reading has failed."""

    def close(self) -> None: ...


class Rapl:
    """The energy counters of CPU packages and their memory."""

    resolution_s = 0.01  # the hardware updates its counters every millisecond

    def __init__(self, host: Host, zones: dict[str, str]) -> None:
        packages = sum(kind.startswith("package") for kind in zones.values())
        memory = " with memory" if "dram" in zones.values() else ""
        self.name = f"RAPL ({packages} CPU package{'s' if packages > 1 else ''}{memory})"
        self._host, self._microjoules, self._failed = host, 0, False
        self._last = {zone: self._read(zone) for zone in zones}
        # A counter restarts from 0 above its range.
        self._ranges = {zone: kernel_text.whole(host.read(f"{zone}/max_energy_range_uj")) for zone in zones}

    def joules(self) -> float | None:
        for zone, last in self._last.items():
            now = self._read(zone)
            if now is None or last is None:
                self._failed = True
                break
            step = now - last
            if step < 0:
                step += (self._ranges[zone] or 0) + 1
            if step < 0:
                self._failed = True
                break
            self._microjoules += step
            self._last[zone] = now
        return None if self._failed else self._microjoules / 1e6

    def close(self) -> None:
        """Does nothing, because files are opened for each reading."""

    def _read(self, zone: str) -> int | None:
        return kernel_text.whole(self._host.read(f"{zone}/energy_uj"))


class Integrator:
    """Energy of a meter that reports power, read repeatedly in a thread and integrated."""

    def __init__(self, name: str, watts: Callable[[], float | None], period_s: float, resolution_s: float) -> None:
        self.name, self.resolution_s = name, resolution_s
        self._watts, self._period_s = watts, period_s
        self._joules, self._failed = 0.0, False
        self._last_w, self._at_s = watts(), time.monotonic()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._follow, name="power meter", daemon=True)
        self._thread.start()

    def joules(self) -> float | None:
        with self._lock:
            self._take()
            return None if self._failed else self._joules

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.wait(self._period_s):
            with self._lock:
                self._take()

    def _take(self) -> None:
        now_w, now_s = self._watts(), time.monotonic()
        if now_w is None or self._last_w is None or now_s - self._at_s > _LONGEST_GAP_PERIODS * self._period_s:
            self._failed = True
            return
        self._joules += (now_w + self._last_w) / 2 * (now_s - self._at_s)
        self._last_w, self._at_s = now_w, now_s


class Nvml:
    """The energy counters of NVIDIA GPUs (since Volta)."""

    resolution_s = 0.1  # the counters are updated every 20 to 100 ms

    def __init__(self, module: Any, handles: Sequence[object], name: str) -> None:  # noqa: ANN401 - has no types
        self.name = name
        self._module, self._handles = module, handles
        self._begin_mj = self._millijoules()

    def joules(self) -> float | None:
        now = self._millijoules()
        return None if now is None or self._begin_mj is None else (now - self._begin_mj) * _MILLI

    def close(self) -> None:
        _call_or_none(self._module, "nvmlShutdown")

    def _millijoules(self) -> int | None:
        read = [
            _call_or_none(self._module, "nvmlDeviceGetTotalEnergyConsumption", handle) for handle in self._handles
        ]
        counts = [count for count in read if isinstance(count, int)]
        return sum(counts) if len(counts) == len(read) else None


def open_rapl(host: Host) -> EnergySource | Unavailable:
    zones = {zone: kind for zone, kind in power.rapl_zones(host).items() if kind.startswith("package")}
    if not zones:
        return Unavailable(
            "the kernel shows no RAPL counters (virtual machines, containers and most Arm boards have none)"
        )
    memory = {zone: kind for zone, kind in power.rapl_zones(host).items() if kind == "dram"}
    readable = [zone for zone in zones if kernel_text.whole(host.read(f"{zone}/energy_uj")) is not None]
    if not readable:
        return Unavailable(
            "the kernel lets only root read the RAPL counters: run as root, or once after each boot: "
            f"sudo chmod a+r {power.RAPL}/intel-rapl:*/energy_uj {power.RAPL}/intel-rapl:*:*/energy_uj"
        )
    memory = {z: kind for z, kind in memory.items() if kernel_text.whole(host.read(f"{z}/energy_uj")) is not None}
    return Rapl(host, {zone: zones[zone] for zone in readable} | memory)


def open_nvml(host: Host, gpus: Sequence[int]) -> EnergySource | Unavailable:
    # A child asks first, because NVML hangs if a GPU has fallen off the bus.
    answer = host.call_in_child("edgeopt.hw.nvml", "query")
    if isinstance(answer, Unavailable):
        return answer
    if not isinstance(answer, dict) or "error" in answer:
        return Unavailable(str(answer["error"]) if isinstance(answer, dict) else "NVML gave no answer")
    try:
        module = importlib.import_module("pynvml")
        module.nvmlInit()
        handles = [module.nvmlDeviceGetHandleByIndex(index) for index in gpus]
    except Exception as error:  # noqa: BLE001 - a foreign library: whatever it raises becomes the reason
        return Unavailable(nvml.sentence(error))
    name = f"NVML (GPU {', '.join(map(str, gpus))})"
    counted = Nvml(module, handles, name)
    if counted.joules() is not None:
        return counted

    def watts() -> float | None:
        read = [_call_or_none(module, "nvmlDeviceGetPowerUsage", handle) for handle in handles]
        known = [milliwatts * _MILLI for milliwatts in read if isinstance(milliwatts, int)]
        return sum(known) if len(known) == len(read) else None

    if watts() is None:
        return Unavailable("NVML reports neither energy nor power of this GPU")
    # NVML's power is itself a mean over up to a second on some GPUs.
    return Integrator(f"{name}, from its power", watts, _PERIOD_S, 1.0)


def open_board(host: Host) -> EnergySource | Unavailable:
    measured = sensors.board_rails(host)
    if not measured:
        return Unavailable("no power meter of the board (hwmon)")

    def watts() -> float | None:
        return total([sensors.rail_w(host, rail) for rail in measured])

    return Integrator(f"hwmon ({', '.join(rail.label for rail in measured)})", watts, _PERIOD_S, 0.2)


def open_battery(host: Host) -> EnergySource | Unavailable:
    if power.of_battery(host) is None:
        return Unavailable("no battery that is discharging")

    def watts() -> float | None:
        drawn = power.of_battery(host)
        return None if drawn is None else drawn.power_w

    # Batteries report a new value only every few seconds.
    return Integrator("battery (the whole device)", watts, _BATTERY_PERIOD_S, 30.0)


def _call_or_none(module: Any, function: str, *arguments: object) -> object:  # noqa: ANN401 - pynvml has no types
    try:
        return getattr(module, function)(*arguments)
    except Exception:  # noqa: BLE001 - a foreign library: whatever it raises means that it does not tell
        return None


@dataclass(slots=True)
class EnergyMeter:
    """Meter of the joules since it was opened; a slice's energy is the difference of the readings around it."""

    sources: tuple[EnergySource, ...]
    idle_watts: float | None = None
    """Power of the idle device in watts; None until `measure_idle` has measured it."""

    @staticmethod
    def open(host: Host | None = None, gpus: Sequence[int] = ()) -> "EnergyMeter | Unavailable":
        """Opens the best meter of this device; the energy of the NVIDIA GPUs in `gpus` is added."""
        host = host or LocalHost(cache_folder=None)
        reasons = []
        parts: list[EnergySource] = []
        for part in (open_rapl(host), *([open_nvml(host, gpus)] if gpus else [])):
            if isinstance(part, Unavailable):
                reasons.append(part.reason)
            else:
                parts.append(part)
        if parts:
            return EnergyMeter(tuple(parts))
        for one in (open_board, open_battery):
            part = one(host)
            if not isinstance(part, Unavailable):
                return EnergyMeter((part,))
            reasons.append(part.reason)
        return Unavailable("; ".join(reasons))

    @property
    def source(self) -> str:
        return " + ".join(source.name for source in self.sources)

    @property
    def resolution_s(self) -> float:
        """Shortest slice, in seconds, whose energy is distinguishable from that of its neighbours."""
        return max(source.resolution_s for source in self.sources)

    def joules(self) -> float | None:
        """Returns joules since the meter was opened; None after a reading failed or came too late."""
        return total([source.joules() for source in self.sources])

    def measure_idle(self, seconds: float = 1.0) -> float | None:
        """Measures the device's idle power in watts; call it while no trial runs.

        Returns None if the meter is too slow for a short pause, and the earlier value if it cannot be read.
        """
        span_s = max(seconds, 3 * self.resolution_s)
        if span_s > _LONGEST_IDLE_S:
            return None  # a battery's gauge is too slow for a pause that nobody would mind
        before, begin_s = self.joules(), time.monotonic()
        time.sleep(span_s)
        after, taken_s = self.joules(), time.monotonic() - begin_s
        if before is not None and after is not None:
            self.idle_watts = (after - before) / taken_s
        return self.idle_watts

    def close(self) -> None:
        for source in self.sources:
            source.close()


def _minutes(meter: EnergyMeter) -> str:
    """Returns the option that gives each side twice the time that the meter needs."""
    return f"--minutes {max(1, math.ceil(2 * meter.resolution_s / 60))}"


def energy(
    meter: EnergyMeter | Unavailable,
    joules: float | None,
    seconds: float,
    runs_per_s: float,
    stretch_s: float | None = None,
) -> Energy:
    """Returns a side's energy from its joules and seconds; `stretch_s` is its shortest slice in seconds."""
    if isinstance(meter, Unavailable):
        return Energy(reason=meter.reason)
    if joules is None:
        return Energy(meter.source, reason="the meter could not be read, or not often enough")
    stretch_s = seconds if stretch_s is None else stretch_s
    if stretch_s < meter.resolution_s:
        return Energy(
            meter.source,
            idle_watts=meter.idle_watts,
            reason=(
                f"this meter needs {meter.resolution_s:g} s of one side without interruption, and the "
                f"shortest one lasted {stretch_s:.2g} s: use --duty sustained with {_minutes(meter)}"
            ),
        )
    if seconds <= 0 or runs_per_s <= 0 or joules <= 0:
        return Energy(meter.source, idle_watts=meter.idle_watts, reason="the meter showed no consumption")
    watts = joules / seconds
    above_idle = None if meter.idle_watts is None else watts - meter.idle_watts
    return Energy(
        source=meter.source,
        joules_per_run=watts / runs_per_s,
        # A power below that of the idle device is the meter's noise.
        net_joules_per_run=above_idle / runs_per_s if above_idle is not None and above_idle > 0 else None,
        idle_watts=meter.idle_watts,
    )
