"""The measurements of one side of a contest so far, and its report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.errors import TrialError
from edgeopt.hw.device import Unavailable
from edgeopt.measure.contender import SLOWEST_ANSWER_S, Contender, Side, enter, failed
from edgeopt.measure.instruments.energy import EnergyMeter, energy
from edgeopt.measure.instruments.gauges import SAMPLE_S, Gauges
from edgeopt.measure.messages import Loaded, Memory, Time, Timed
from edgeopt.measure.report import Energy, Figures, SideReport, Slice
from edgeopt.measure.stats import total
from edgeopt.workers.host import LocalChild, TrialHost

# A window has this many slices: half a second or more, with several turns of the other sides in between.
WINDOW_SLICES = 10
_WINDOWS = 3
_WITHIN = 1.1
# Enough points to show the distribution of latencies, including the median and whole percents.
_QUANTILES = 101
KEPT_RUNS = 2000
"""The most latencies kept of one slice; figures are computed from all."""
# A longer run after the result is not worth the wait; a battery's gauge needs a minute.
_LONGEST_S = 5.0


def figures(latencies_ms: Sequence[NDArray[np.float64]], seconds: Sequence[float]) -> Figures | None:
    """Returns figures from the latencies of slices and the duration of each; None without slices."""
    if not latencies_ms:
        return None
    runs = np.concatenate(latencies_ms)
    p50, p90, p95, p99 = (float(value) for value in np.percentile(runs, [50, 90, 95, 99]))
    return Figures(
        runs=len(runs),
        p50_ms=p50,
        p90_ms=p90,
        p95_ms=p95,
        p99_ms=p99,
        mean_ms=float(runs.mean()),
        deviation_ms=float(runs.std(ddof=1)) if len(runs) > 1 else 0.0,
        lowest_ms=float(runs.min()),
        highest_ms=float(runs.max()),
        throughput_per_s=len(runs) / max(sum(seconds), 1e-9),
        stable=stable(latencies_ms, seconds),
    )


def stable(latencies_ms: Sequence[NDArray[np.float64]], seconds: Sequence[float]) -> bool | None:
    """Whether the last three windows agree; None if there are fewer.

    As in Triton's perf_analyzer, the largest of the three is at most 10 % above the smallest, in mean latency
    and in throughput.
    """
    if len(latencies_ms) < _WINDOWS * WINDOW_SLICES:
        return None
    latency, throughput = [], []
    for k in range(len(latencies_ms) - _WINDOWS * WINDOW_SLICES, len(latencies_ms), WINDOW_SLICES):
        runs = np.concatenate(latencies_ms[k : k + WINDOW_SLICES])
        latency.append(float(runs.mean()))
        throughput.append(len(runs) / max(sum(seconds[k : k + WINDOW_SLICES]), 1e-9))
    return all(max(values) <= _WITHIN * min(values) for values in (latency, throughput))


class TrialLog(msgspec.Struct, frozen=True):
    """The record of one side's runs in a contest."""

    slices_ms: tuple[float, ...]
    """Median of each round that counts; both sides have the same rounds."""
    runs: int = 0
    quantiles_ms: tuple[float, ...] = ()
    """Quantiles in even steps of the runs in these rounds, from the fastest; of many runs, only the latest."""
    load_ms: float | None = None
    first_run_ms: float | None = None


def trial_log(contender: Contender) -> TrialLog:
    """Returns the record of a contender whose latencies were cleared after its warm-up."""
    runs = contender.latencies_ms
    spread = np.quantile(runs, np.linspace(0, 1, _QUANTILES)).tolist() if runs else []
    return TrialLog(
        tuple(map(_four_digits, contender.slices_ms)),
        len(runs),
        tuple(map(_four_digits, spread)),
        _four_digits(contender.loaded.load_ms),
        _four_digits(contender.loaded.first_run_ms),
    )


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")


Meter = EnergyMeter | Unavailable | None


class Turn(NamedTuple):
    """One slice, before its round is found to count."""

    answer: Timed
    seconds: float
    wall_s: float
    energy_j: float | None


@dataclass(slots=True)
class Scoreboard:
    """The measurements of one side of a contest so far, from all its processes."""

    side: Side
    gauges: Gauges
    meter: Meter = None
    patience_s: float = SLOWEST_ANSWER_S
    contender: Contender | None = None
    loaded: Loaded | None = None
    """The first process's answer to loading."""
    loads: list[Loaded] = field(default_factory=list)
    """Each process's answer to loading."""
    failure: str | None = None
    error: TrialError | None = None
    """The failure with its hint and code."""
    warm_ms: float = 0.0
    """Median latency in the latest warm-up, in milliseconds."""
    slices_ms: list[float] = field(default_factory=list)
    """Medians of the side's slices."""
    slices: list[Slice] = field(default_factory=list)
    memory: Memory | None = None
    outside_peak_bytes: int | None = None
    _latencies: list[NDArray[np.float64]] = field(default_factory=list)
    _seconds: list[float] = field(default_factory=list)
    _walls: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.side.name

    @property
    def stable(self) -> bool | None:
        return stable(self._latencies, self._seconds)

    def renew(self, host: TrialHost, patience_s: float | None) -> None:
        """Starts a fresh process with the model loaded; records the failure if it cannot."""
        self.close()
        try:
            self.contender = enter(host, self.name, self.side.load, patience_s, self.side.concurrency)
        except TrialError as error:
            self.error = error
            told_when = error.ending in {"", "not-started"}
            self.failure = error.message if told_when else f"{error.message} (while loading)"
            return
        self.loaded = self.loaded or self.contender.loaded
        self.loads.append(self.contender.loaded)
        self.memory = self.memory or self.contender.memory

    def turn(self, span_ms: float) -> Turn | None:
        """Runs one slice, which counts only if `keep` follows; returns None if it failed."""
        contender = self.contender
        assert contender is not None  # noqa: S101 - who has not failed is loaded
        known = self.meter if isinstance(self.meter, EnergyMeter) else None
        before, begin_s = known.joules() if known else None, time.monotonic()
        limit_s = max(self.patience_s, 8 * contender.loaded.first_run_ms / 1e3)
        try:
            request = Time(span_ms, contender.concurrency)
            answer = self.gauges.ask(contender.child, request, limit_s, self.name)
            if not isinstance(answer, Timed) or not answer.latencies_ms:
                raise failed(answer)
        except TrialError as error:
            self.error, self.failure = error, error.message
            self._see_memory(contender)
            contender.close()
            return None
        self._see_memory(contender)
        wall_s = time.monotonic() - begin_s
        after = known.joules() if known else None
        drawn = after - before if before is not None and after is not None else None
        seconds = answer.seconds or sum(answer.latencies_ms) / 1e3 / contender.concurrency
        self._emit_metrics(answer, seconds)
        return Turn(answer, seconds, wall_s, drawn)

    def warm_up(self, span_ms: float) -> None:
        """Runs a slice that does not count."""
        turn = self.turn(span_ms)
        if turn is not None:
            self.warm_ms = float(np.median(turn.answer.latencies_ms))

    def keep(self, number: int, turn: Turn) -> None:
        """Stores a turn whose round counts."""
        runs = np.asarray(turn.answer.latencies_ms, dtype=np.float64)
        self.slices_ms.append(float(np.median(runs)))
        self._latencies.append(runs)
        self._seconds.append(turn.seconds)
        self._walls.append(turn.wall_s)
        self.memory = turn.answer.memory
        begin_s = turn.answer.begin_s or time.monotonic() - turn.seconds
        self.slices.append(
            Slice(
                number,
                begin_s,
                turn.seconds,
                _thinned(turn.answer.latencies_ms),
                _thinned(turn.answer.starts_ms),
                turn.answer.memory.steady_bytes,
                turn.energy_j,
                turn.answer.counters,
                len(turn.answer.latencies_ms),
            )
        )

    def close(self) -> None:
        if self.contender is not None:
            self.contender.close()

    def report(self) -> SideReport:
        found = figures(self._latencies, self._seconds)
        counted: dict[str, int] = {}
        for each in self.slices:
            for name, value in each.counters.items():
                counted[name] = counted.get(name, 0) + value
        load = self.side.load
        return SideReport(
            name=self.name,
            subject=self.side.subject or self.name,
            kind=self.side.kind,
            backend=load.backend,
            options=load.options,
            figures=found,
            load_ms=self.loaded.load_ms if self.loaded else None,
            first_run_ms=self.loaded.first_run_ms if self.loaded else None,
            loads_ms=tuple(each.load_ms for each in self.loads),
            first_runs_ms=tuple(each.first_run_ms for each in self.loads),
            memory=self.memory,
            outside_peak_bytes=self.outside_peak_bytes,
            placement=self.loaded.placement if self.loaded else None,
            energy=self._energy(),
            counters_per_run={name: total / found.runs for name, total in counted.items()} if found else {},
            slices=tuple(self.slices),
            failure=self.failure,
            failure_code=self.error.code if self.error else "",
            failure_hint=self.error.hint if self.error else "",
        )

    def _energy(self) -> Energy | None:
        found = figures(self._latencies, self._seconds)
        if self.meter is None or found is None:
            return None
        drawn = total([each.energy_j for each in self.slices])
        return energy(self.meter, drawn, sum(self._walls), found.throughput_per_s, min(self._walls))

    def _see_memory(self, contender: Contender) -> None:
        if isinstance(contender.child, LocalChild):
            seen = contender.child.outside_peak_bytes
            self.outside_peak_bytes = max(seen or 0, self.outside_peak_bytes or 0) or None

    def _emit_metrics(self, answer: Timed, seconds: float) -> None:
        """Emits the latency for at least ten moments a second, however long the slice was."""
        runs = np.asarray(answer.latencies_ms)
        end_s = answer.begin_s + seconds if answer.begin_s else time.monotonic()
        parts = min(len(runs), max(1, int(np.ceil(seconds / SAMPLE_S))))
        for place, part in enumerate(np.array_split(runs, parts), 1):
            at_s = end_s - seconds * (1 - place / parts)
            self.gauges.emit_metric("latency_ms", float(np.median(part)), self.name, at_s)


def _thinned(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) <= KEPT_RUNS:
        return values
    places = np.linspace(0, len(values) - 1, KEPT_RUNS).astype(int)
    return tuple(values[k] for k in places)


def with_energy(side: SideReport, board: Scoreboard) -> SideReport:
    """Adds the energy of a longer run, if the slices were too short for the meter and the meter is fast enough.

    A failure in that run changes nothing of the earlier measurements.
    """
    meter, contender = board.meter, board.contender
    if not isinstance(meter, EnergyMeter) or contender is None or side.failure or not side.slices:
        return side
    is_known = side.energy is None or side.energy.joules_per_run is not None
    too_short = min(each.seconds for each in side.slices) < meter.resolution_s
    span_s = 2 * meter.resolution_s
    if is_known or not too_short or span_s > _LONGEST_S:
        return side
    before, begin_s = meter.joules(), time.monotonic()
    try:
        request = Time(1e3 * span_s, contender.concurrency)
        answer = board.gauges.ask(contender.child, request, board.patience_s, side.name)
    except TrialError:
        return side
    after, wall_s = meter.joules(), time.monotonic() - begin_s
    if not isinstance(answer, Timed) or not answer.latencies_ms or not answer.seconds:
        return side
    drawn = None if before is None or after is None else after - before
    found = energy(meter, drawn, wall_s, len(answer.latencies_ms) / answer.seconds)
    return msgspec.structs.replace(side, energy=found)
