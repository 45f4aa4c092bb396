"""Paced: a fixed rate of runs, as requests arrive from outside; the device may idle between runs.

A model that wins at full speed can lose here: caches are cold, clocks are low and threads sleep between runs.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.errors import TrialError, UsageError
from edgeopt.events import Emit, Log, Progress
from edgeopt.hw.device import Unavailable
from edgeopt.measure.contender import Contender, Side, enter, failed
from edgeopt.measure.host import LocalChild, TrialHost
from edgeopt.measure.instruments.energy import EnergyMeter, energy
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.messages import Watch, Watched
from edgeopt.measure.report import Energy
from edgeopt.measure.rounds import DeviceWatch, take_turns
from edgeopt.measure.schedules import PACED
from edgeopt.measure.stats import total
from edgeopt.measure.watch import follow
from edgeopt.measure.workloads.records import (
    PacedReport,
    PacedRules,
    PacedSide,
    against_first,
    require_one,
    sampler_for,
    warnings_of,
)

_SHORTEST_SLICE_S = 0.3
_WARM_RUNS, _SHORTEST_WARM_S = 2, 0.1
_MISSED_SHARE = 0.01
_KEPT_LATENCIES = 20_000


@dataclass(slots=True)
class _Pacing:
    """One side while it is measured."""

    name: str
    contender: Contender | None = None
    failure: str | None = None
    latencies_ms: list[NDArray[np.float32]] = field(default_factory=list)
    p50s_ms: dict[int, float] = field(default_factory=dict)
    """By round; likewise the next."""
    p99s_ms: dict[int, float] = field(default_factory=dict)
    missed: int = 0
    seconds: float = 0.0
    cpu_s: float | None = 0.0
    drawn: list[float | None] = field(default_factory=list)
    """Joules of the whole device, by turn; likewise the seconds in the next."""
    walls_s: list[float] = field(default_factory=list)

    def keep(self, number: int, taken: NDArray[np.float32]) -> None:
        """The latencies of a slice, if any run ended in it."""
        if len(taken):
            self.latencies_ms.append(taken)
            self.p50s_ms[number], self.p99s_ms[number] = (float(v) for v in np.percentile(taken, [50, 99]))


def run_paced(
    host: TrialHost,
    sides: Sequence[Side],
    rules: PacedRules,
    emit: Emit,
    meter: EnergyMeter | Unavailable | None = None,
) -> PacedReport:
    """Measures the sides interleaved at a rate; raises TrialError if none can run.

    With `meter`, reports the energy of a run, or why it is unknown.
    """
    if not 0 < rules.rate_per_s < float("inf"):
        raise UsageError(f"{rules.rate_per_s} is not a rate.", "Give runs per second above 0: --rate 30")
    begin = time.monotonic()
    interval_s = 1 / rules.rate_per_s
    slice_s = max(_SHORTEST_SLICE_S, rules.runs_a_slice * interval_s)
    gauges = Gauges(emit)
    members = [_Pacing(side.name) for side in sides]

    def tell(number: int, count: int) -> None:
        left_s = (rules.rounds - number) * slice_s * count
        rate = f"at {rules.rate_per_s:g} a second"
        emit(Progress("measuring", rate, number, rules.rounds, time_left_s=left_s))

    watch = DeviceWatch(sampler_for(sides), before=tell)
    try:
        for member, side in zip(members, sides, strict=True):
            emit(Progress("loading", side.name))
            try:
                member.contender = enter(host, side.name, side.load)
            except TrialError as error:
                member.failure = error.message
        require_one({m.name: m.failure for m in members})
        pace = _Pace(interval_s, slice_s, meter)
        for each in take_turns(members, PACED, lambda m: _turn(m, pace, gauges), watch, rules.rounds):
            for member, taken in each.taken:
                member.keep(each.number, taken)
            require_one({m.name: m.failure for m in members})
    finally:
        for member in members:
            if member.contender is not None:
                member.contender.close()
    sides_found = tuple(_side(m, rules.rate_per_s, meter) for m in members)
    made = _report(members, sides_found, rules, (slice_s, time.monotonic() - begin), emit)
    return msgspec.structs.replace(made, measured_while=watch.sentence)


class _Pace(NamedTuple):
    """What holds for every turn."""

    interval_s: float
    slice_s: float
    meter: EnergyMeter | Unavailable | None

    def joules(self) -> float | None:
        return self.meter.joules() if isinstance(self.meter, EnergyMeter) else None


def _turn(member: _Pacing, pace: _Pace, gauges: Gauges) -> NDArray[np.float32]:
    """The latencies of one slice of one side; raises TrialError where it does not survive it."""
    contender = member.contender
    assert contender is not None  # noqa: S101 - who has not failed was loaded
    patience_s = contender.patience_s(2) + 2 * pace.interval_s
    interval_ms = pace.interval_s * 1e3
    warm_ms = 1e3 * max(_SHORTEST_WARM_S, _WARM_RUNS * pace.interval_s)
    warm = gauges.ask(contender.child, Watch(warm_ms, interval_ms, anew=True), patience_s, member.name)
    if not isinstance(warm, Watched):
        raise failed(warm)
    cpu_before_s, drawn_before, begin_s = _cpu_s(contender), pace.joules(), time.monotonic()
    answers = []
    for answer in follow(contender, interval_ms, pace.slice_s, gauges, patience_s, to_the_end=True):
        answers.append(answer)
        taken = np.frombuffer(answer.latencies_ms, "<f4")
        if len(taken):
            gauges.tell("latency_ms", float(np.median(taken)), member.name)
    cpu_after_s, drawn_after = _cpu_s(contender), pace.joules()
    taken = np.concatenate([np.frombuffer(a.latencies_ms, "<f4") for a in answers])
    member.drawn.append(None if drawn_before is None or drawn_after is None else drawn_after - drawn_before)
    member.walls_s.append(time.monotonic() - begin_s)
    member.missed += sum(a.missed for a in answers)
    member.seconds += sum(a.seconds for a in answers)
    if cpu_before_s is None or cpu_after_s is None or member.cpu_s is None:
        member.cpu_s = None
    else:
        member.cpu_s += cpu_after_s - cpu_before_s
    return taken


def _cpu_s(contender: Contender) -> float | None:
    """Processor time so far of the trial and of what it started."""
    import psutil

    if not isinstance(contender.child, LocalChild):
        return None
    try:
        process = psutil.Process(contender.child.pid)
        times = [p.cpu_times() for p in (process, *process.children(recursive=True))]
    except psutil.Error:
        return None
    return float(sum(t.user + t.system for t in times))


def _report(
    members: list[_Pacing],
    sides: tuple[PacedSide, ...],
    rules: PacedRules,
    lasted: tuple[float, float],
    emit: Emit,
) -> PacedReport:
    failures = {m.name: m.failure for m in members}
    warnings = [*warnings_of(failures), *(_not_kept(side, rules.rate_per_s) for side in sides if not side.kept)]
    warnings = [w for w in warnings if w]
    for warning in warnings:
        emit(Log("warning", warning))
    names = [m.name for m in members]
    return PacedReport(
        rate_per_s=rules.rate_per_s,
        sides=sides,
        comparisons=against_first(names, _paired([m.p50s_ms for m in members]), PACED),
        tail_comparisons=against_first(names, _paired([m.p99s_ms for m in members]), PACED),
        rounds=rules.rounds,
        slice_s=lasted[0],
        seconds=lasted[1],
        warnings=tuple(warnings),
    )


def _paired(by_round: list[dict[int, float]]) -> list[list[float]]:
    """The values of the rounds that the first side and each other one both have."""
    shared = [r for r in by_round[0] if all(r in other for other in by_round[1:] if other)]
    return [[values[r] for r in shared if r in values] for values in by_round]


def _side(member: _Pacing, rate_per_s: float, meter: EnergyMeter | Unavailable | None) -> PacedSide:
    taken = np.concatenate(member.latencies_ms) if member.latencies_ms else np.zeros(0, np.float32)
    runs = len(taken)
    if not runs:
        why = member.failure or "no run ended in its time"
        return PacedSide(member.name, missed_runs=member.missed, failure=why)
    p50, p90, p95, p99 = (float(v) for v in np.percentile(taken, [50, 90, 95, 99]))
    kept = taken[:: max(1, -(-runs // _KEPT_LATENCIES))]
    return PacedSide(
        name=member.name,
        runs=runs,
        missed_runs=member.missed,
        achieved_per_s=rate_per_s * runs / (runs + member.missed),
        kept=member.missed <= max(1, _MISSED_SHARE * (runs + member.missed)),
        p50_ms=p50,
        p90_ms=p90,
        p95_ms=p95,
        p99_ms=p99,
        cpu_ms_per_run=None if member.cpu_s is None else 1e3 * member.cpu_s / runs,
        cpu_percent=None if member.cpu_s is None or not member.seconds else 100 * member.cpu_s / member.seconds,
        energy=_energy(member, runs, meter),
        latencies_ms=tuple(round(float(v), 6) for v in kept),
        failure=member.failure,
    )


def _energy(member: _Pacing, runs: int, meter: EnergyMeter | Unavailable | None) -> Energy | None:
    if meter is None:
        return None
    seconds = sum(member.walls_s)
    return energy(meter, total(member.drawn), seconds, runs / max(seconds, 1e-9), min(member.walls_s))


def _not_kept(side: PacedSide, rate_per_s: float) -> str:
    if side.achieved_per_s is None:
        return ""
    share = 100 * side.missed_runs / (side.runs + side.missed_runs)
    return (
        f"'{side.name}' did not keep up with {rate_per_s:g} runs a second: it did {side.achieved_per_s:.3g}, "
        f"and {share:.0f} % of the runs were missed."
    )
