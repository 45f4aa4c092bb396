"""Measured peaks as rows of text: titles and values."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeVar

from edgeopt.hw.device import ComputePeak, MemoryPeak, Peaks
from edgeopt.hw.probe_cache import age_s

Peak = TypeVar("Peak", ComputePeak, MemoryPeak)

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def peak_rows(peaks: Peaks) -> Iterator[tuple[str, str]]:
    disturbed = ", while the device was busy or throttled" if peaks.disturbed_by else ""
    yield "measured", f"{ago(age_s(peaks))}{disturbed}"
    for (runtime, precision), group in groupby(peaks.compute, lambda peak: (peak.runtime, peak.precision)):
        unit = "GOP/s" if precision == "int8" else "GFLOP/s"
        yield f"{runtime} {precision}", _by_threads(group, lambda peak: peak.operations_per_s, unit)
    for level, group_of_level in groupby(peaks.memory, lambda peak: peak.level):
        ways = list(group_of_level)
        read = _by_threads(ways, lambda peak: peak.read_bytes_per_s, "GB/s")
        copied = _by_threads(ways, lambda peak: peak.copy_bytes_per_s, "GB/s")
        yield level, "; ".join(f"{way} {told}" for way, told in (("read", read), ("copy", copied)) if told)
    if peaks.overheads:
        told = (f"{each.runtime} {each.overhead_us:.1f} µs" for each in peaks.overheads)
        yield "cost of a run", ", ".join(told)


def ago(seconds: float) -> str:
    """How long ago, in the largest unit that fits; what lies ahead is no time ago that one could tell."""
    if seconds < 0:
        return "at an unknown time (a clock was wrong)"
    for length, unit in ((_DAY_S, "day"), (_HOUR_S, "hour"), (_MINUTE_S, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def _by_threads(peaks: Iterable[Peak], rate: Callable[[Peak], float | None], unit: str) -> str:
    """`118 GFLOP/s by one core, 229 by 2`."""
    rates = [(peak.threads, value) for peak in peaks if (value := rate(peak)) is not None]
    words: list[str] = []
    for threads, value in rates:
        named = "" if words else f" {unit}"
        words.append(f"{_short(value / 1e9)}{named} by {'one core' if threads == 1 else f'{threads} cores'}")
    return ", ".join(words)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
