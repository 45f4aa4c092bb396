"""How the speed of a sustained run went: kept, slowed or neither, judged by its windows."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from edgeopt.measure.duties.records import Course, Window

SAME = 0.05
"""A device that ends within 5 % of its first speed has kept it."""
_FEWEST_WINDOWS = 6
_SPAN_S = 60.0
# The share of pairs of an early and a late window that must agree before a change is more than noise.
_AGREE = 0.9
_CLOCK_FELL, _WARMER_C, _OTHERS_PERCENT = 0.05, 3.0, 15.0


class Judged(NamedTuple):
    course: Course
    speed_at_end: float | None
    changed_after_s: float | None
    verdict: str


def judge(windows: Sequence[Window]) -> Judged:
    """The last minute against the first (or the last third against the first, of less than three)."""
    if len(windows) < _FEWEST_WINDOWS:
        return Judged("too short to tell", None, None, "ran too briefly to tell whether it keeps its speed")
    width = sum(w.seconds for w in windows) / len(windows)
    span = max(2, min(len(windows) // 3, round(_SPAN_S / max(width, 1e-9))))
    early, late = windows[:span], windows[-span:]
    speed = _middle(early) / _middle(late)
    pairs = [(a.p50_ms, b.p50_ms) for a in early for b in late]
    slower = sum(a < b for a, b in pairs) / len(pairs)
    ends = f"the last {_long(span * width)} ran at {speed:.2f}x of the first{_held_up(early, late, speed)}"
    lowest = median(w.p50_ms for w in windows) / max(w.p50_ms for w in windows)
    if abs(speed - 1) <= SAME:
        dip = f"; its slowest {_long(width)} ran at {lowest:.2f}x of the middle" if lowest < 1 - 2 * SAME else ""
        return Judged("kept its speed", speed, None, f"kept its speed: {ends}{dip}{_others(windows)}")
    if (slower if speed < 1 else 1 - slower) < _AGREE:
        highest = median(w.p50_ms for w in windows) / min(w.p50_ms for w in windows)
        range_ = f"windows between {lowest:.2f}x and {highest:.2f}x of the middle one"
        return Judged("no clear course", speed, None, f"went up and down ({range_}): {ends}{_others(windows)}")
    after_s = windows[_turning_point([w.p50_ms for w in windows])].begin_s
    if speed < 1:
        verdict = f"slowed to {speed:.2f}x after {_long(after_s)}{_held_up(early, late, speed)}{_why(early, late)}"
        return Judged("slowed", speed, after_s, verdict)
    verdict = f"got faster, to {speed:.2f}x, after {_long(after_s)}{_why(early, late)}"
    return Judged("got faster", speed, after_s, verdict)


def _middle(windows: Sequence[Window]) -> float:
    return median(w.p50_ms for w in windows)


def _held_up(early: Sequence[Window], late: Sequence[Window], speed: float) -> str:
    """Runs take as long as before but fewer complete: a quota or other processes delay the time between them."""
    done = median(w.throughput_per_s for w in late) / median(w.throughput_per_s for w in early)
    return f" (runs a second: {done:.2f}x)" if abs(done / speed - 1) > 2 * SAME else ""


def _turning_point(values: Sequence[float]) -> int:
    """Where cutting in two leaves the least distance to the medians of the two parts."""

    def left_over(cut: int) -> float:
        parts = (values[:cut], values[cut:])
        return sum(abs(v - median(part)) for part in parts for v in part)

    return min(range(1, len(values)), key=left_over)


def _why(early: Sequence[Window], late: Sequence[Window]) -> str:
    """What else changed between the two spans; said as what went on, not as the cause."""
    told = []
    clock = _both(early, late, lambda w: w.clock_hz)
    if clock and abs(clock[1] / clock[0] - 1) >= _CLOCK_FELL:
        word = "fell" if clock[1] < clock[0] else "rose"
        told.append(f"the clock {word} from {clock[0] / 1e9:.2f} to {clock[1] / 1e9:.2f} GHz")
    heat = _both(early, late, lambda w: w.temperature_c)
    if heat and heat[1] - heat[0] >= _WARMER_C:
        told.append(f"the temperature rose from {heat[0]:.0f} to {heat[1]:.0f} °C")
    others = _both(early, late, lambda w: w.others_percent)
    others_changed = others is not None and abs(others[1] - others[0]) >= _OTHERS_PERCENT
    if others is not None and others_changed:
        told.append(f"other processes went from {others[0]:.0f} to {others[1]:.0f} % of the cores")
    loaded = "" if others_changed else _others([*early, *late])
    if told:
        return f", while {' and '.join(told)}{loaded}"
    if clock is None and heat is None:
        return f"; this device reports neither its clock nor its temperature{loaded}"
    return f"; neither clock nor temperature nor other processes changed with it{loaded}"


def _others(windows: Sequence[Window]) -> str:
    took = [w.others_percent for w in windows if w.others_percent is not None]
    if not took or max(took) < _OTHERS_PERCENT:
        return ""
    return f"; other processes took {min(took):.0f} to {max(took):.0f} % of the cores"


def _both(
    early: Sequence[Window], late: Sequence[Window], get: Callable[[Window], float | None]
) -> tuple[float, float] | None:
    found = [[v for w in span if (v := get(w)) is not None] for span in (early, late)]
    return (median(found[0]), median(found[1])) if all(found) else None


def _long(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
