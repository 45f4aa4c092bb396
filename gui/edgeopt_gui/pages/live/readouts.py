"""The figures beside the charts, as records."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgeopt import units
from edgeopt_gui.pages.live import panels
from edgeopt_gui.pages.live.history import History
from edgeopt_gui.plots.ticks import latency, latency_text, significant

NOTHING = "\N{EN DASH}"
PERCENTILES = ((panels.P50, "p50"), (panels.P90, "p90"), (panels.P99, "p99"))


@dataclass(frozen=True, slots=True)
class Readout:
    name: str
    value: str
    unit: str = ""
    """Unit beside a large value; a small value includes its unit."""
    note: str = ""
    """Small text below: the peak, or the reason why there is no value."""
    large: bool = False


def read(history: History, missing: Mapping[str, str]) -> tuple[Readout, ...]:
    """Returns the readouts in display order; `missing` has the reason for each metric that is not reported."""
    latest, peaks = history.latest, history.peaks

    def why_not(key: str) -> str:
        reason = missing.get(key, "")
        return f"{reason[:1].upper()}{reason[1:]}"

    over = latest.get(panels.PERCENTILE_RUNS)
    of_runs = "" if not over else f"{PERCENTILES[0][1]} to {PERCENTILES[-1][1]} of the last {_runs(over)}"
    rows = [
        Readout(
            label,
            *(latency(latest[key]) if key in latest else (NOTHING, "ms")),
            note=of_runs if key == PERCENTILES[-1][0] else "",
            large=True,
        )
        for key, label in PERCENTILES
    ]
    throughput = latest.get(panels.THROUGHPUT)
    so_far = f"{_runs(latest[panels.RUNS])} so far" if panels.RUNS in latest else ""
    rate = NOTHING if throughput is None else significant(throughput)
    rows.append(Readout("Runs per second", rate, note=so_far))
    if panels.GENERATED in latest:
        speed, first_ms = latest.get(panels.TOKENS_PER_S), latest.get(panels.FIRST_TOKEN)
        so_far = f"{units.count(int(latest[panels.GENERATED]), 'token')} since the agent started"
        rows.append(Readout("Tokens per second", NOTHING if speed is None else significant(speed), note=so_far))
        rows.append(Readout("First token", NOTHING if first_ms is None else latency_text(first_ms)))
    for key, name in ((panels.PROCESS_MEMORY, "Process memory"), (panels.DEVICE_MEMORY, "Device memory")):
        peak = f"peak {units.size(peaks[key])}" if key in peaks else why_not(key)
        rows.append(Readout(name, units.size(latest[key]) if key in latest else NOTHING, note=peak))
    rows.append(_plain("Load", latest.get(panels.LOAD), "%", why_not(panels.LOAD)))
    rows.append(_plain("Temperature", latest.get(panels.TEMPERATURE), "°C", why_not(panels.TEMPERATURE)))
    clock = latest.get(panels.CLOCK)
    rows.append(Readout("Clock", NOTHING if clock is None else units.clock(clock), note=why_not(panels.CLOCK)))
    if "failed_requests" in latest:
        failed, sent = (units.count(int(latest.get(f"{each}_requests", 0.0))) for each in ("failed", "sent"))
        sending = significant(latest.get("sent_per_s", 0.0))
        rows.append(Readout("Test requests per second", sending, note=f"{sent} sent, {failed} failed"))
    return tuple(rows)


def _runs(count: float) -> str:
    return units.count(int(count), "run")


def _plain(name: str, value: float | None, unit: str, why_not: str) -> Readout:
    if value is None:
        return Readout(name, NOTHING, note=why_not)
    return Readout(name, f"{value:.0f} {unit}")
