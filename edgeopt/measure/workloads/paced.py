"""Paced: a fixed rate of runs, as requests arrive from outside; the device may idle between runs.

A model that wins at full speed can lose here: caches are cold, clocks are low and threads sleep between runs.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgeopt.errors import TrialError, UsageError
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import Unavailable
from edgeopt.measure.contender import Contender, Side, enter, failed
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.messages import Watch, Watched
from edgeopt.measure.schedules import PACED
from edgeopt.measure.watch import follow
from edgeopt.measure.workloads.loop import (
    EnergyLog,
    LoopMember,
    comparisons,
    require_one,
    run_members,
)
from edgeopt.measure.workloads.records import PacedReport, PacedRules, PacedSide
from edgeopt.workers.host import LocalChild, TrialHost

_SHORTEST_SLICE_S = 0.3
_WARM_RUNS, _SHORTEST_WARM_S = 2, 0.1
_MISSED_SHARE = 0.01
_KEPT_LATENCIES = 20_000


@dataclass(slots=True, kw_only=True)
class _Pacing(LoopMember):
    """One side while it is measured; its rounds hold the median and the 99th percentile of a slice."""

    energy: EnergyLog
    contender: Contender | None = None
    latencies_ms: list[NDArray[np.float32]] = field(default_factory=list)
    missed: int = 0
    seconds: float = 0.0
    cpu_s: float | None = 0.0


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
    members = [_Pacing(side.name, energy=EnergyLog(meter)) for side in sides]

    def emit_progress(number: int, count: int) -> None:
        left_s = (rules.rounds - number) * slice_s * count
        rate = f"at {rules.rate_per_s:g} a second"
        emit(Progress("measuring", rate, number, rules.rounds, time_left_s=left_s))

    with ExitStack() as stack:
        for member, side in zip(members, sides, strict=True):
            emit(Progress("loading", side.name))
            try:
                member.contender = enter(host, side.name, side.load)
                stack.callback(member.contender.close)
            except TrialError as error:
                member.failure = error.message
        require_one({member.side: member.failure for member in members})
        watch = run_members(
            members,
            sides,
            PACED.limited(rules.rounds),
            lambda m: _turn(m, interval_s, slice_s, gauges),
            emit_progress,
        )
    found = tuple(_side(member, rules.rate_per_s) for member in members)
    behind = (_not_kept(side, rules.rate_per_s) for side in found if not side.kept)
    return PacedReport(
        rate_per_s=rules.rate_per_s,
        sides=found,
        comparisons=comparisons(members, lambda slice_ms: slice_ms[0], PACED),
        tail_comparisons=comparisons(members, lambda slice_ms: slice_ms[1], PACED),
        rounds=rules.rounds,
        slice_s=slice_s,
        measured_while=watch.sentence,
        seconds=time.monotonic() - begin,
        warnings=tuple(filter(None, behind)),
    )


def _turn(member: _Pacing, interval_s: float, slice_s: float, gauges: Gauges) -> tuple[float, float] | None:
    """Returns a slice's 50th and 99th percentile, None if no run ended; raises TrialError if the side fails."""
    contender = member.contender
    assert contender is not None  # noqa: S101 - who has not failed was loaded
    patience_s = contender.patience_s(2) + 2 * interval_s
    interval_ms = interval_s * 1e3
    warm_ms = 1e3 * max(_SHORTEST_WARM_S, _WARM_RUNS * interval_s)
    warm = gauges.ask(contender.child, Watch(warm_ms, interval_ms, anew=True), patience_s, member.name)
    if not isinstance(warm, Watched):
        raise failed(warm)
    cpu_before_s, answers = _cpu_s(contender), []
    with member.energy.stretch():
        for answer in follow(contender, interval_ms, slice_s, gauges, patience_s, to_the_end=True):
            answers.append(answer)
            taken = np.frombuffer(answer.latencies_ms, "<f4")
            if len(taken):
                gauges.emit_metric("latency_ms", float(np.median(taken)), member.name)
        cpu_after_s = _cpu_s(contender)
    member.missed += sum(a.missed for a in answers)
    member.seconds += sum(a.seconds for a in answers)
    if cpu_before_s is None or cpu_after_s is None or member.cpu_s is None:
        member.cpu_s = None
    else:
        member.cpu_s += cpu_after_s - cpu_before_s
    taken = np.concatenate([np.frombuffer(a.latencies_ms, "<f4") for a in answers])
    if not len(taken):
        return None
    member.latencies_ms.append(taken)
    p50, p99 = (float(value) for value in np.percentile(taken, [50, 99]))
    return p50, p99


def _cpu_s(contender: Contender) -> float | None:
    """Returns the CPU seconds so far of the trial and its children, or None if unknown."""
    import psutil

    if not isinstance(contender.child, LocalChild):
        return None
    try:
        process = psutil.Process(contender.child.pid)
        times = [p.cpu_times() for p in (process, *process.children(recursive=True))]
    except psutil.Error:
        return None
    return float(sum(t.user + t.system for t in times))


def _side(member: _Pacing, rate_per_s: float) -> PacedSide:
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
        energy=member.energy.of_runs(runs),
        latencies_ms=tuple(round(float(v), 6) for v in kept),
        failure=member.failure,
    )


def _not_kept(side: PacedSide, rate_per_s: float) -> str:
    if side.achieved_per_s is None:
        return ""
    share = 100 * side.missed_runs / (side.runs + side.missed_runs)
    return (
        f"'{side.name}' did not keep up with {rate_per_s:g} runs a second: it did {side.achieved_per_s:.3g}, "
        f"and {share:.0f} % of the runs were missed."
    )
