"""Energy by inference, where the device tells it: the meter of a contest, and what a side's share comes to.

A meter sees the whole device, or all of its CPU packages: what belongs to a side is what was drawn while it ran.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import Host, LocalHost
from edgeopt.measure.instruments.energy_sources import EnergySource, open_battery, open_board, open_nvml, open_rapl
from edgeopt.measure.report import Energy

_LONGEST_IDLE_S = 3.0


@dataclass(slots=True)
class EnergyMeter:
    """Joules since it was opened. Ask before and after a slice; the difference is the slice's."""

    sources: tuple[EnergySource, ...]
    idle_watts: float | None = None
    """Known after `measure_idle`."""

    @staticmethod
    def open(host: Host | None = None, gpus: Sequence[int] = ()) -> "EnergyMeter | Unavailable":
        """The best meter of this device; the energy of the NVIDIA GPUs in `gpus` is added."""
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
        """A slice must last this long, or its energy cannot be told from that of its neighbours."""
        return max(source.resolution_s for source in self.sources)

    def joules(self) -> float | None:
        """None once a meter could not be read, or not often enough."""
        read = [source.joules() for source in self.sources]
        known = [each for each in read if each is not None]
        return sum(known) if len(known) == len(read) else None

    def measure_idle(self, seconds: float = 1.0) -> float | None:
        """What the device draws while this waits: to be called while no trial runs."""
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
    """An option that gives each side twice what the meter needs."""
    return f"--minutes {max(1, math.ceil(2 * meter.resolution_s / 60))}"


def energy(
    meter: EnergyMeter | Unavailable,
    joules: float | None,
    seconds: float,
    runs_per_s: float,
    stretch_s: float | None = None,
) -> Energy:
    """A side's record, from what was drawn while it ran and for how long; `stretch_s` is its shortest slice."""
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
        # Less than an idle device draws is the meter's noise, and no number of joules.
        net_joules_per_run=above_idle / runs_per_s if above_idle is not None and above_idle > 0 else None,
        idle_watts=meter.idle_watts,
    )
