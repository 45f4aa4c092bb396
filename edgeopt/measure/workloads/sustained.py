"""Sustained load: full speed for minutes, in windows of a few seconds, to see whether a warm device slows down."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeopt.errors import Terminated, TrialError, UsageError
from edgeopt.events import Emit, Metric, Progress
from edgeopt.hw.device import Unavailable
from edgeopt.hw.load import LoadSample
from edgeopt.measure.contender import Contender, Side, enter
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.instruments.gauges import SAMPLE_S, Gauges
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.messages import Watched
from edgeopt.measure.watch import follow
from edgeopt.measure.workloads.loop import EnergyLog, require_one
from edgeopt.measure.workloads.records import (
    Course,
    SustainedReport,
    SustainedRules,
    SustainedSide,
    Window,
)
from edgeopt.workers.host import LocalChild, TrialHost

SAME = 0.05
"""Largest change of speed, as a share, at which a device counts as having kept it."""
_FEWEST_WINDOWS = 6
_SPAN_S = 60.0
# The share of pairs of an early and a late window that must agree before a change is more than noise.
_AGREE = 0.9
_CLOCK_FELL, _WARMER_C, _OTHERS_PERCENT = 0.05, 3.0, 15.0
_LONGEST_WINDOW_S, _WINDOWS = 5.0, 12
_PAUSE_SHARE, _LONGEST_PAUSE_S = 0.2, 60.0
# A device with a temperature sensor has cooled down when it is this close to its first temperature.
_COOL_C = 2.0


class JudgedSide(NamedTuple):
    course: Course
    speed_at_end: float | None
    changed_after_s: float | None
    verdict: str


def judge(windows: Sequence[Window]) -> JudgedSide:
    """Compares the last minute with the first; of less than three minutes, the last third with the first."""
    if len(windows) < _FEWEST_WINDOWS:
        return JudgedSide("too short to tell", None, None, "ran too briefly to tell whether it keeps its speed")
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
        return JudgedSide("kept its speed", speed, None, f"kept its speed: {ends}{dip}{_others(windows)}")
    if (slower if speed < 1 else 1 - slower) < _AGREE:
        highest = median(w.p50_ms for w in windows) / min(w.p50_ms for w in windows)
        range_ = f"windows between {lowest:.2f}x and {highest:.2f}x of the middle one"
        return JudgedSide("no clear course", speed, None, f"went up and down ({range_}): {ends}{_others(windows)}")
    after_s = windows[_turning_point([w.p50_ms for w in windows])].begin_s
    if speed < 1:
        verdict = f"slowed to {speed:.2f}x after {_long(after_s)}{_held_up(early, late, speed)}{_why(early, late)}"
        return JudgedSide("slowed", speed, after_s, verdict)
    verdict = f"got faster, to {speed:.2f}x, after {_long(after_s)}{_why(early, late)}"
    return JudgedSide("got faster", speed, after_s, verdict)


def _middle(windows: Sequence[Window]) -> float:
    return median(w.p50_ms for w in windows)


def _held_up(early: Sequence[Window], late: Sequence[Window], speed: float) -> str:
    """Describes a change of throughput beyond that of latency, such as delays between runs by a quota."""
    done = median(w.throughput_per_s for w in late) / median(w.throughput_per_s for w in early)
    return f" (runs a second: {done:.2f}x)" if abs(done / speed - 1) > 2 * SAME else ""


def _turning_point(values: Sequence[float]) -> int:
    """Returns the index that splits the values with the least total distance to the medians of both parts."""

    def left_over(cut: int) -> float:
        parts = (values[:cut], values[cut:])
        return sum(abs(v - median(part)) for part in parts for v in part)

    return min(range(1, len(values)), key=left_over)


def _why(early: Sequence[Window], late: Sequence[Window]) -> str:
    """Describes other changes between the two spans, as observations and not as the cause."""
    observations = []
    clock = _both(early, late, lambda w: w.clock_hz)
    if clock and abs(clock[1] / clock[0] - 1) >= _CLOCK_FELL:
        word = "fell" if clock[1] < clock[0] else "rose"
        observations.append(f"the clock {word} from {clock[0] / 1e9:.2f} to {clock[1] / 1e9:.2f} GHz")
    heat = _both(early, late, lambda w: w.temperature_c)
    if heat and heat[1] - heat[0] >= _WARMER_C:
        observations.append(f"the temperature rose from {heat[0]:.0f} to {heat[1]:.0f} °C")
    others = _both(early, late, lambda w: w.others_percent)
    others_changed = others is not None and abs(others[1] - others[0]) >= _OTHERS_PERCENT
    if others is not None and others_changed:
        observations.append(f"other processes went from {others[0]:.0f} to {others[1]:.0f} % of the cores")
    loaded = "" if others_changed else _others([*early, *late])
    if observations:
        return f", while {' and '.join(observations)}{loaded}"
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


def run_sustained(
    host: TrialHost,
    sides: Sequence[Side],
    rules: SustainedRules,
    emit: Emit,
    meter: EnergyMeter | Unavailable | None = None,
) -> SustainedReport:
    """Runs the sides one after another, each for the whole time.

    Ctrl-C or SIGTERM ends it with the results so far; before the first window is complete, it raises as usual.
    With `meter`, reports the energy of a run, or why it is unknown. Raises TrialError if no side can run.
    """
    window_s = _window_s(rules)
    begin = time.monotonic()
    measured: list[_Measured] = []
    pauses_s: list[float] = []
    stopped_by: Literal["", "interrupt", "terminate"] = ""
    gauges = Gauges(emit)
    try:
        for position, side in enumerate(sides):
            if position:
                pauses_s.append(_cool_down(rules, measured[0].first_temperature_c, gauges, emit))
            measured.append(_Measured(side.name, window_s, meter))
            _measure(host, side, rules, measured[-1], gauges, emit)
    except KeyboardInterrupt as stop:
        if not any(each.windows for each in measured):
            raise
        stopped_by = "terminate" if isinstance(stop, Terminated) else "interrupt"
    found = tuple(each.side() for each in measured)
    if not any(side.windows for side in found):
        crashed = any(each.failure and not each.too_short for each in measured)
        require_one(
            {side.name: side.failure for side in found}, *(() if crashed else ("Give it more time: --minutes 5",))
        )
    return SustainedReport(
        sides=found,
        minutes=rules.minutes,
        window_s=window_s,
        pauses_s=tuple(pauses_s),
        stopped_by=stopped_by,
        seconds=time.monotonic() - begin,
    )


def _window_s(rules: SustainedRules) -> float:
    """Returns the length of a window in seconds; raises UsageError for an invalid time or window."""
    if not 0 < rules.minutes < float("inf"):
        raise UsageError(f"{rules.minutes} is not a number of minutes.", "Give a number above 0: --minutes 10")
    if rules.window_s is not None and not 0 < rules.window_s < float("inf"):
        raise UsageError(f"{rules.window_s} is not a number of seconds.", "Give a window above 0.")
    return rules.window_s or min(_LONGEST_WINDOW_S, 60 * rules.minutes / _WINDOWS)


class _Measured:
    """One side: its complete windows, and the one that is being filled."""

    def __init__(self, name: str, window_s: float, meter: EnergyMeter | Unavailable | None) -> None:
        self.name, self.window_s, self._meter = name, window_s, meter
        self._energy = EnergyLog(meter)
        """Energy of all windows as one stretch, which slow meters need."""
        self._joules_at_begin: float | None = None
        self.windows: list[Window] = []
        self.failure: str | None = None
        self.too_short = False
        """Whether no run ended within the time."""
        self.first_temperature_c: float | None = None
        self.begin = self._begin = time.monotonic()
        self._taken: list[NDArray[np.float32]] = []
        self._all: list[NDArray[np.float32]] = []
        self._running_s = 0.0
        self._samples: list[LoadSample] = []
        self._pids: list[int] = []
        self._state = StateSampler(lambda: self._pids)

    def start(self, contender: Contender, sample: LoadSample | None) -> None:
        if isinstance(contender.child, LocalChild):
            self._pids = [contender.child.pid]
        self.first_temperature_c = sample.temperature_c if sample else None
        self.begin = self._begin = time.monotonic()
        self._joules_at_begin = self._energy.joules()
        self._state.begin_round(0)

    def add(self, answer: Watched, sample: LoadSample | None, memory_bytes: int | None) -> NDArray[np.float32]:
        """Adds an answer to the current window, closing it when its time is up, and returns the latencies."""
        taken = np.frombuffer(answer.latencies_ms, "<f4")
        self._taken.append(taken)
        self._running_s += answer.seconds
        if sample is not None and (not self._samples or sample is not self._samples[-1]):
            self._samples.append(sample)
        if time.monotonic() >= self.begin + (len(self.windows) + 1) * self.window_s:
            self._close(memory_bytes)
        return taken

    def _close(self, memory_bytes: int | None) -> None:
        state = self._state.end_round()
        taken = np.concatenate(self._taken)
        if len(taken):
            p50, p99 = (float(v) for v in np.percentile(taken, [50, 99]))
            self._all.append(taken)
            self.windows.append(
                Window(
                    begin_s=self._begin - self.begin,
                    seconds=self._running_s,
                    runs=len(taken),
                    p50_ms=p50,
                    p99_ms=p99,
                    throughput_per_s=len(taken) / max(self._running_s, 1e-9),
                    clock_hz=_mean([s.clock_hz for s in self._samples]),
                    temperature_c=state.temperature_c,
                    load_percent=_mean([s.load_percent for s in self._samples]),
                    others_percent=state.others_percent,
                    memory_bytes=memory_bytes,
                )
            )
            # A run longer than a window extends the window, so no run is lost.
            self._taken, self._samples, self._running_s = [], [], 0.0
            self._begin = time.monotonic()
            self._energy = EnergyLog(self._meter)
            self._energy.note(self._joules_at_begin, self._energy.joules(), self._begin - self.begin)
        self._state.begin_round(len(self.windows))

    def side(self) -> SustainedSide:
        if not self.windows:
            return SustainedSide(self.name, failure=self.failure)
        p50, p99 = (float(v) for v in np.percentile(np.concatenate(self._all), [50, 99]))
        runs, seconds = sum(w.runs for w in self.windows), sum(w.seconds for w in self.windows)
        found = judge(self.windows)
        return SustainedSide(
            name=self.name,
            windows=tuple(self.windows),
            seconds=seconds,
            runs=runs,
            p50_ms=p50,
            p99_ms=p99,
            throughput_per_s=runs / max(seconds, 1e-9),
            course=found.course,
            speed_at_end=found.speed_at_end,
            changed_after_s=found.changed_after_s,
            verdict=found.verdict,
            energy=self._energy.of_runs(runs),
            failure=self.failure,
        )


def _measure(
    host: TrialHost, side: Side, rules: SustainedRules, measured: _Measured, gauges: Gauges, emit: Emit
) -> None:
    emit(Progress("loading", side.name))
    contender = None
    try:
        contender = enter(host, side.name, side.load)
        gauges.sample([contender.child], side.name)
        measured.start(contender, gauges.latest)
        total = max(1, round(60 * rules.minutes / measured.window_s))
        emitted = -1
        # The time limit is a tenth of a second longer, because a last window that is cut short would be lost.
        for answer in follow(contender, None, 60 * rules.minutes + 2 * SAMPLE_S, gauges, contender.patience_s(2)):
            taken = measured.add(answer, gauges.latest, gauges.held_bytes)
            if len(taken):
                gauges.emit_metric("latency_ms", float(np.median(taken)), side.name)
            if len(measured.windows) != emitted:
                emitted = len(measured.windows)
                _emit_progress(measured, rules, total, emit)
        if not measured.windows:
            measured.too_short = True
            measured.failure = f"failed: no run ended in {60 * rules.minutes:.3g} s"
    except TrialError as error:
        measured.failure = error.message
    finally:
        if contender is not None:
            contender.close()


def _emit_progress(measured: _Measured, rules: SustainedRules, total: int, emit: Emit) -> None:
    done = len(measured.windows)
    best = ""
    if done:
        best = f"now {measured.windows[0].p50_ms / measured.windows[-1].p50_ms:.2f}x of its first speed"
        emit(Metric("throughput_per_s", measured.windows[-1].throughput_per_s, measured.name))
    left_s = max(0.0, 60 * rules.minutes - done * measured.window_s)
    emit(Progress("full load", measured.name, min(done, total), total, best or None, left_s))


def _cool_down(rules: SustainedRules, cool_c: float | None, gauges: Gauges, emit: Emit) -> float:
    """Pauses, at most until the device is as cool as at first if it has a sensor; returns the seconds."""
    pause_s = rules.pause_s
    if pause_s is None:
        pause_s = min(_PAUSE_SHARE * 60 * rules.minutes, _LONGEST_PAUSE_S)
    begin = time.monotonic()
    emit(Progress("cooling down", "before the next side", time_left_s=pause_s))
    while (left_s := begin + pause_s - time.monotonic()) > 0:
        time.sleep(min(SAMPLE_S, left_s))
        gauges.sample([], "")
        now_c = gauges.latest.temperature_c if gauges.latest else None
        if cool_c is not None and now_c is not None and now_c <= cool_c + _COOL_C:
            break
    return time.monotonic() - begin


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
