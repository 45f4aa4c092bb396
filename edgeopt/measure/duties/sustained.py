"""Sustained: full load for minutes, in windows of a few seconds: does a warm device keep its speed?"""

import time
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgeopt.errors import Terminated, TrialError, UsageError
from edgeopt.events import Emit, Log, Metric, Progress
from edgeopt.hw.device import Unavailable
from edgeopt.hw.load import LoadSample
from edgeopt.measure.contender import Contender, Side, enter
from edgeopt.measure.duties.compare import require_one, warnings_of
from edgeopt.measure.duties.course import judge
from edgeopt.measure.duties.records import SustainedReport, SustainedRules, SustainedSide, Window
from edgeopt.measure.host import LocalChild, TrialHost
from edgeopt.measure.instruments.energy import EnergyMeter, energy
from edgeopt.measure.instruments.gauges import SAMPLE_S, Gauges
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.messages import Watched
from edgeopt.measure.report import Energy
from edgeopt.measure.watch import follow

_LONGEST_WINDOW_S, _WINDOWS = 5.0, 12
_PAUSE_SHARE, _LONGEST_PAUSE_S = 0.2, 60.0
# A device that has a sensor has cooled down when it is this close to what it was at first.
_COOL_C = 2.0


def run_sustained(
    host: TrialHost,
    sides: Sequence[Side],
    rules: SustainedRules,
    emit: Emit,
    meter: EnergyMeter | Unavailable | None = None,
) -> SustainedReport:
    """Runs the sides one after another, each for the whole time.

    Ctrl-C or SIGTERM ends it with what there is by then; before the first window they go on as everywhere.
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
    failures = {side.name: side.failure for side in found}
    if not any(side.windows for side in found):
        crashed = any(each.failure and not each.too_short for each in measured)
        require_one(failures, *(() if crashed else ("Give it more time: --minutes 5",)))
    warnings = warnings_of(failures)
    for warning in warnings:
        emit(Log("warning", warning))
    return SustainedReport(
        sides=found,
        minutes=rules.minutes,
        window_s=window_s,
        pauses_s=tuple(pauses_s),
        stopped_by=stopped_by,
        seconds=time.monotonic() - begin,
        warnings=warnings,
    )


def _window_s(rules: SustainedRules) -> float:
    """How long a window is; raises UsageError for what cannot be."""
    if not 0 < rules.minutes < float("inf"):
        raise UsageError(f"{rules.minutes} is not a number of minutes.", "Give a number above 0: --minutes 10")
    if rules.window_s is not None and not 0 < rules.window_s < float("inf"):
        raise UsageError(f"{rules.window_s} is not a number of seconds.", "Give a window above 0.")
    return rules.window_s or min(_LONGEST_WINDOW_S, 60 * rules.minutes / _WINDOWS)


class _Measured:
    """One side: its windows so far, and the one that is being filled."""

    def __init__(self, name: str, window_s: float, meter: EnergyMeter | Unavailable | None) -> None:
        self.name, self.window_s, self._meter = name, window_s, meter
        self._joules_at_begin: float | None = None
        self._joules_at_end: float | None = None
        self._end = 0.0
        """Of the latest window; so is the energy above."""
        self.windows: list[Window] = []
        self.failure: str | None = None
        self.too_short = False
        """No run ended in its time."""
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
        self._joules_at_begin = self._joules()
        self._state.begin_round(0)

    def add(self, answer: Watched, sample: LoadSample | None, memory_bytes: int | None) -> NDArray[np.float32]:
        """What ended in the last tenth of a second; closes the window when its time is up."""
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
            # Runs longer than a window make it longer; nothing is lost.
            self._taken, self._samples, self._running_s = [], [], 0.0
            self._begin = self._end = time.monotonic()
            self._joules_at_end = self._joules()
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
            energy=self._energy(runs),
            failure=self.failure,
        )

    def _joules(self) -> float | None:
        return self._meter.joules() if isinstance(self._meter, EnergyMeter) else None

    def _energy(self, runs: int) -> Energy | None:
        """Over all windows as one stretch, which is what slow meters need."""
        if self._meter is None:
            return None
        begin_j, end_j, seconds = self._joules_at_begin, self._joules_at_end, self._end - self.begin
        drawn = None if begin_j is None or end_j is None else end_j - begin_j
        return energy(self._meter, drawn, seconds, runs / max(seconds, 1e-9))


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
        told = -1
        # The last window may end a tenth of a second late; one that is cut short would be lost.
        for answer in follow(contender, None, 60 * rules.minutes + 2 * SAMPLE_S, gauges, contender.patience_s(2)):
            taken = measured.add(answer, gauges.latest, gauges.held_bytes)
            if len(taken):
                gauges.tell("latency_ms", float(np.median(taken)), side.name)
            if len(measured.windows) != told:
                told = len(measured.windows)
                _tell(measured, rules, total, emit)
        if not measured.windows:
            measured.too_short = True
            measured.failure = f"failed: no run ended in {60 * rules.minutes:.3g} s"
    except TrialError as error:
        measured.failure = error.message
    finally:
        if contender is not None:
            contender.close()


def _tell(measured: _Measured, rules: SustainedRules, total: int, emit: Emit) -> None:
    done = len(measured.windows)
    best = ""
    if done:
        best = f"now {measured.windows[0].p50_ms / measured.windows[-1].p50_ms:.2f}x of its first speed"
        emit(Metric("throughput_per_s", measured.windows[-1].throughput_per_s, measured.name))
    left_s = max(0.0, 60 * rules.minutes - done * measured.window_s)
    emit(Progress("full load", measured.name, min(done, total), total, best or None, left_s))


def _cool_down(rules: SustainedRules, cool_c: float | None, gauges: Gauges, emit: Emit) -> float:
    """Lets the device rest; with a sensor no longer than it takes to be as cool as at first."""
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
