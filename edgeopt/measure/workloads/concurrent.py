"""Concurrency: threads that call one session, and sessions in separate processes, compared with one alone.

All levels stay loaded and run interleaved, so that throughputs of the same round can be compared.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from edgeopt.errors import TrialError, UsageError
from edgeopt.events import Emit, Progress
from edgeopt.measure.contender import Contender, Side, accept, enter
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.messages import Time, Timed
from edgeopt.measure.report import Comparison
from edgeopt.measure.schedules import CONCURRENT
from edgeopt.measure.stats import paired_ratios, sign_interval
from edgeopt.measure.workloads.loop import LoopMember, comparisons, require_one, run_members
from edgeopt.measure.workloads.records import ConcurrencyReport, ConcurrencySide, ConcurrentRules, Level
from edgeopt.workers.host import TrialHost

_SHORTEST_SLICE_MS, _LONGEST_SLICE_MS = 200.0, 2000.0
_RUNS_A_SLICE = 20
_MAX = 256
# Linux divides the cores by session (sched_autogroup): measured here, two threads that do 1.9 times the work on
# an idle machine do 1.0 times beside busy processes, and two processes 1.6 to 1.8 times.
_BUSY = (
    "Other processes were busy: threads of one process share its CPU time, so they gain less "
    "than on a quiet device."
)


@dataclass(slots=True, kw_only=True)
class _Running(LoopMember):
    """One level while it is measured: its concurrent trials, and the throughput of each round."""

    kind: Literal["threads", "processes"]
    count: int
    trials: list[Contender] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    memory_bytes: int | None = None

    @property
    def name(self) -> str:
        return f"{self.side} · {self.count} {self.kind if self.count > 1 else 'alone'}"


def run_concurrent(
    host: TrialHost, sides: Sequence[Side], rules: ConcurrentRules, emit: Emit
) -> ConcurrencyReport:
    """Measures every level of every side interleaved; raises TrialError if none can run."""
    _check(rules)
    begin = time.monotonic()
    gauges = Gauges(emit)
    with ExitStack() as stack:
        levels = [level for side in sides for level in _enter(host, side, rules, stack, emit)]
        alone = [level for level in levels if level.count == 1]
        slice_ms = _slice_ms(levels, alone, gauges)

        def emit_progress(number: int, count: int) -> None:
            left_s = (rules.rounds - number) * count * slice_ms / 1e3
            emit(Progress("measuring", f"{count} levels, interleaved", number, rules.rounds, time_left_s=left_s))

        watch = run_members(
            levels,
            sides,
            CONCURRENT.limited(rules.rounds),
            lambda lv: _slice(lv, slice_ms, gauges),
            emit_progress,
            alone,
        )
    busy = (_BUSY,) if any(each.bad for each in watch.states) else ()
    return ConcurrencyReport(
        sides=tuple(_side(side.name, [lv for lv in levels if lv.side == side.name]) for side in sides),
        comparisons=_comparisons([side.name for side in sides], levels),
        rounds=rules.rounds,
        slice_ms=slice_ms,
        measured_while=watch.sentence,
        seconds=time.monotonic() - begin,
        warnings=busy,
    )


def _check(rules: ConcurrentRules) -> None:
    bad = next((n for n in (*rules.threads, *rules.processes) if not 1 <= n <= _MAX), None)
    if bad is not None:
        raise UsageError(f"A concurrency of {bad} cannot be measured.", f"Give numbers from 1 to {_MAX}: 1,2,4")


def _enter(host: TrialHost, side: Side, rules: ConcurrentRules, stack: ExitStack, emit: Emit) -> list[_Running]:
    """Starts a trial for each number of threads, to separate their memory; levels of processes share trials."""
    alone = _Running(side.name, kind="threads", count=1)
    threads = [_Running(side.name, kind="threads", count=n) for n in sorted({*rules.threads} - {1})]
    processes = [_Running(side.name, kind="processes", count=n) for n in sorted({*rules.processes} - {1})]
    pool: list[Contender] = []
    for level in (alone, *threads, *processes):
        emit(Progress("loading", level.name))
        try:
            if level.kind == "threads":
                level.trials = [enter(host, side.name, side.load, concurrency=level.count)]
                stack.callback(level.trials[0].close)
            else:
                pool = pool or [*alone.trials]
                while len(pool) < level.count:
                    pool.append(enter(host, side.name, side.load))
                    stack.callback(pool[-1].close)
                level.trials = pool[: level.count]
        except TrialError as error:
            level.failure = error.message
    return [alone, *threads, *processes]


def _slice_ms(levels: list[_Running], alone: list[_Running], gauges: Gauges) -> float:
    """Returns a slice length for the slowest level, after a first slice of each level that warms it up."""
    slowest_ms = 0.0
    for level in levels:
        if level.failure is None and _slice(level, _SHORTEST_SLICE_MS, gauges) is not None:
            slowest_ms = max(slowest_ms, float(np.median(level.latencies_ms)))
            level.latencies_ms.clear()
    require_one({level.side: level.failure for level in alone})
    return float(np.clip(_RUNS_A_SLICE * slowest_ms, _SHORTEST_SLICE_MS, _LONGEST_SLICE_MS))


def _slice(level: _Running, slice_ms: float, gauges: Gauges) -> float | None:
    """Runs all trials of a level at once and returns runs per second; None, with a failure, if one fails."""
    level.failure = next((trial.failure for trial in level.trials if trial.failure), None)
    if level.failure:
        return None
    # All requests are sent before any answer is read, so that the trials run at the same time; and all answers
    # are read, because an unread one would be taken for the answer to the next request.
    for trial in level.trials:
        trial.child.send(msgspec.json.encode(Time(slice_ms, trial.concurrency)))
    found = [_hear(trial, level, gauges) for trial in level.trials]
    level.failure = next((trial.failure for trial in level.trials if trial.failure), None)
    if level.failure:
        return None
    timed = [each for each in found if each is not None]
    latencies_ms = [latency for each in timed for latency in each.latencies_ms]
    level.latencies_ms += latencies_ms
    sizes = [each.memory.steady_bytes or each.memory.first_run_bytes for each in timed]
    level.memory_bytes = sum(size or 0 for size in sizes) or None
    throughput = sum(len(each.latencies_ms) / each.seconds for each in timed if each.seconds)
    gauges.emit_metric("latency_ms", float(np.median(latencies_ms)), level.name)
    gauges.emit_metric("throughput_per_s", throughput, level.name)
    return throughput


def _hear(trial: Contender, level: _Running, gauges: Gauges) -> Timed | None:
    patience_s = trial.patience_s(2 * level.count)
    try:
        return accept(trial, gauges.receive(trial.child, patience_s, level.name))
    except TrialError as error:
        trial.failure = error.message
        return None


def _side(name: str, levels: list[_Running]) -> ConcurrencySide:
    alone = next(level for level in levels if level.count == 1)
    return ConcurrencySide(name, tuple(_level(level, alone) for level in levels))


def _comparisons(names: Sequence[str], levels: Sequence[_Running]) -> tuple[Comparison, ...]:
    """Compares the first side's best level with that of each other side, within the rounds that both ran."""
    first, *others = (_maximum([level for level in levels if level.side == name]) for name in names)
    pairs = ((first, other) for other in others if first is not None and other is not None)
    return tuple(
        each for pair in pairs for each in comparisons(pair, lambda done: 1e3 / max(done, 1e-9), CONCURRENT)
    )


def _maximum(levels: Sequence[_Running]) -> _Running | None:
    ran = [level for level in levels if level.rounds]
    return max(ran, key=lambda level: float(np.median([*level.rounds.values()])), default=None)


def _level(level: _Running, alone: _Running) -> Level:
    shared = sorted(level.rounds.keys() & alone.rounds.keys())
    if not shared:
        return Level(level.kind, level.count, failure=level.failure or "no round was completed")
    mine, one = ([each.rounds[r] for r in shared] for each in (level, alone))
    gain = None if level is alone else sign_interval(paired_ratios(mine, one), 1 - CONCURRENT.error).stated
    p50, p99 = (float(v) for v in np.percentile(level.latencies_ms, [50, 99]))
    return Level(
        kind=level.kind,
        count=level.count,
        runs=len(level.latencies_ms),
        throughput_per_s=float(np.median(mine)),
        p50_ms=p50,
        p99_ms=p99,
        gain=gain,
        efficiency_percent=None if gain is None else 100 * gain.median / level.count,
        memory_bytes=level.memory_bytes,
        failure=level.failure,
    )
