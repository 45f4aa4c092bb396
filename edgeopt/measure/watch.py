"""Continuous runs of one model or bundle in a process of its own, with metrics ten times a second."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.errors import TrialError
from edgeopt.events import Emit, Log, Progress
from edgeopt.measure.contender import Contender, Side, enter_side, failed, read_answer
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.memory import added_bytes, status_bytes
from edgeopt.measure.messages import Watch, Watched
from edgeopt.workers.host import LocalChild, LocalHost

# Logarithmic bins of 0.2 %, from 100 ns to a quarter of an hour, which is finer than any clock here.
_FIRST_MS = 1e-4
_STEP = 0.002
_BINS = 11_500
WINDOW_S = 10.0
_QUANTILES = (0.5, 0.9, 0.99)
# An answer every 80 ms and a sample of the device every 100: smooth curves, at a cost too low to measure.
SLICE_MS = 80.0
# Slices requested in advance, so that the model runs on while its last answer is read.
_AHEAD = 2
# Throughput is reported over this time, or longer until it covers this number of runs.
_THROUGHPUT_S, _THROUGHPUT_RUNS, _THROUGHPUT_LONGEST_S = 1.0, 10, 10.0
_FEWEST_MISSED, _MISSED_SHARE = 10, 0.1


class Percentiles(msgspec.Struct, frozen=True):
    """Number of runs, and the latencies within which 50 %, 90 % and 99 % of them ended."""

    runs: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class Latencies:
    """Histograms of latencies over the last `window_s` seconds and over all time."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._ticks: deque[tuple[float, NDArray[np.int64]]] = deque()
        self._recent = np.zeros(_BINS, np.int64)
        self._all = np.zeros(_BINS, np.int64)

    def add(self, time_s: float, latencies_ms: NDArray[np.float32]) -> None:
        """Adds the runs that ended at `time_s`, by any clock that never steps back."""
        bins = np.log(np.maximum(latencies_ms, _FIRST_MS) / _FIRST_MS) / _STEP
        places, counts = np.unique(np.minimum(bins, _BINS - 1).astype(np.int64), return_counts=True)
        self._recent[places] += counts
        self._all[places] += counts
        # A window of any speed takes little memory, because the runs of one tick fall into few bins.
        self._ticks.append((time_s, np.stack([places, counts])))
        while self._ticks and self._ticks[0][0] <= time_s - self._window_s:
            old = self._ticks.popleft()[1]
            self._recent[old[0]] -= old[1]

    def recent(self) -> Percentiles | None:
        """Returns percentiles over the window; None if no run has ended in it."""
        return _percentiles(self._recent)

    def all(self) -> Percentiles | None:
        """Returns percentiles over all runs; None if there are none."""
        return _percentiles(self._all)


def _percentiles(counts: NDArray[np.int64]) -> Percentiles | None:
    below = np.cumsum(counts)
    total = int(below[-1])
    if total == 0:
        return None
    places = np.searchsorted(below, np.ceil(np.multiply(_QUANTILES, total)))
    p50, p90, p99 = (float(_FIRST_MS * np.exp((place + 0.5) * _STEP)) for place in places)
    return Percentiles(total, p50, p90, p99)


class WatchReport(msgspec.Struct, frozen=True):
    """Summary of a watch; a latency is None if no run ended."""

    subject: str
    runs: int
    seconds: float
    throughput_per_s: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    load_ms: float
    first_run_ms: float
    peak_memory_bytes: int | None
    """Peak resident memory of the process that ran the model, including the runtime."""
    missed_runs: int = 0
    """Runs that were due, at the requested rate, while another still ran."""
    added_memory_bytes: int | None = None


def watch(
    host: LocalHost,
    side: Side,
    rate_per_s: float | None,
    seconds: float | None,
    emit: Emit,
    patience_s: float | None = None,
) -> WatchReport:
    """Runs the side until the time is up; Ctrl-C or SIGTERM ends a run without `seconds`, with a report.

    Raises TrialError when it crashes or hangs.
    """
    emit(Progress("loading", side.name))
    contender = enter_side(host, side)
    try:
        return _watched(contender, rate_per_s, seconds, emit, patience_s or contender.patience_s(2))
    except TrialError as error:
        raise TrialError(
            f"'{side.name}' {error.message.rstrip('.')}, while it was watched.",
            "Run it in its own runtime for details.",
        ) from None
    finally:
        contender.close()


def _watched(
    contender: Contender, rate_per_s: float | None, seconds: float | None, emit: Emit, patience_s: float
) -> WatchReport:
    gauges = RunGauges(contender.name, rate_per_s, emit)
    emit(Progress("running", contender.name, time_left_s=seconds))
    begin = time.monotonic()
    interval_ms = None if rate_per_s is None else 1e3 / rate_per_s
    child = contender.child
    assert isinstance(child, LocalChild)  # noqa: S101 - a local host starts local children
    # A second signal has no effect, so the report is not interrupted.
    with suppress(KeyboardInterrupt):
        for answer in follow(contender, interval_ms, seconds, gauges.device, patience_s):
            gauges.tell_runs(answer, time.monotonic())
    return _report(contender, gauges, time.monotonic() - begin, status_bytes("VmHWM", str(child.pid)))


def follow(
    contender: Contender,
    interval_ms: float | None,
    seconds: float | None,
    gauges: Gauges,
    patience_s: float,
    to_the_end: bool = False,
) -> Iterator[Watched]:
    """Keeps a trial running until the time is up (None: without end), and yields its answers ten times a second.

    `to_the_end`: also waits for the slices that were requested in advance, so that the trial is idle afterwards.
    """
    child = contender.child
    gauges.look_at_gpus(contender.memory)
    request = msgspec.json.encode(Watch(SLICE_MS, interval_ms))
    for _ in range(_AHEAD):
        child.send(request)
    begin = answered = time.monotonic()
    end = float("inf") if seconds is None else begin + seconds
    while (now := time.monotonic()) < end:
        if gauges.wait([child], min(end - now, SLICE_MS / 1e3), contender.name):
            answer = _watched_answer(contender, patience_s)
            child.send(request)
            answered = time.monotonic()
            yield answer
        elif now - answered > patience_s:
            raise TrialError(f"hung: no run has ended for {patience_s:.0f} s; it was killed", ending="hung")
        gauges.sample_if_due([child], contender.name)
    for _ in range(_AHEAD if to_the_end else 0):
        gauges.wait([child], patience_s, contender.name)
        yield _watched_answer(contender, patience_s)


def _watched_answer(contender: Contender, patience_s: float) -> Watched:
    answer = read_answer(contender.child, patience_s)
    if not isinstance(answer, Watched):
        raise failed(answer)
    return answer


class RunGauges:
    """Emitter of metrics about the runs of a trial and about the device."""

    def __init__(self, subject: str, rate_per_s: float | None, emit: Emit) -> None:
        self.subject = subject
        self.latencies = Latencies()
        self.missed = self._runs = 0
        self.seconds = 0.0
        """Total duration of the reported runs, including the waits between them."""
        self.device = Gauges(emit)
        self._rate_per_s, self._emit = rate_per_s, emit
        self._lately: deque[tuple[int, float]] = deque()

    def tell_runs(self, answer: Watched, now: float) -> None:
        taken = np.frombuffer(answer.latencies_ms, "<f4")
        self.latencies.add(now, taken)
        self._runs += len(taken)
        self.seconds += answer.seconds
        if len(taken):
            # Rounded to nanoseconds, which no clock here exceeds, to keep the JSON short.
            samples = tuple(np.round(taken.astype(float), 6).tolist())
            self.device.emit_metric("latency_ms", float(np.median(taken)), self.subject, now, samples)
        recent = self.latencies.recent()
        if recent is not None:
            self._emit_metric("latency_p50_ms", recent.p50_ms, now)
            self._emit_metric("latency_p90_ms", recent.p90_ms, now)
            self._emit_metric("latency_p99_ms", recent.p99_ms, now)
            self._emit_metric("percentile_runs", recent.runs, now)
        self._emit_metric("runs", self._runs, now)
        self._emit_metric("throughput_per_s", self._throughput(len(taken), answer.seconds), now)
        self._count_missed(answer.missed)

    def _throughput(self, runs: int, seconds: float) -> float:
        """Returns recent runs per second: over one second if there are many, over up to ten if there are few."""
        self._lately.append((runs, seconds))
        total, length = (sum(values) for values in zip(*self._lately, strict=True))
        while len(self._lately) > 1:
            first_runs, first_s = self._lately[0]
            enough = length - first_s >= _THROUGHPUT_S and total - first_runs >= _THROUGHPUT_RUNS
            if not enough and length - first_s < _THROUGHPUT_LONGEST_S:
                break
            self._lately.popleft()
            total, length = total - first_runs, length - first_s
        return float(total / max(length, 1e-9))

    def _count_missed(self, missed: int) -> None:
        many_before = self._many_missed()
        self.missed += missed
        if self._many_missed() and not many_before:
            self._emit(
                Log(
                    "warning",
                    f"The model does not keep up with {self._rate_per_s:g} runs per second; some are skipped.",
                )
            )

    def _many_missed(self) -> bool:
        return self.missed >= _FEWEST_MISSED and self.missed > _MISSED_SHARE * (self.missed + self._runs)

    def _emit_metric(self, name: str, value: float, now: float) -> None:
        self.device.emit_metric(name, value, self.subject, now)


def _report(contender: Contender, gauges: RunGauges, seconds: float, peak_bytes: int | None) -> WatchReport:
    found = gauges.latencies.all()
    runs = found.runs if found else 0
    empty = contender.memory.start_bytes if contender.memory is not None else None
    return WatchReport(
        subject=contender.name,
        runs=runs,
        seconds=seconds,
        throughput_per_s=runs / gauges.seconds if gauges.seconds else 0.0,
        p50_ms=found.p50_ms if found else None,
        p90_ms=found.p90_ms if found else None,
        p99_ms=found.p99_ms if found else None,
        load_ms=contender.loaded.load_ms,
        first_run_ms=contender.loaded.first_run_ms,
        peak_memory_bytes=peak_bytes if peak_bytes is not None else gauges.device.peak_bytes,
        missed_runs=gauges.missed,
        added_memory_bytes=added_bytes(peak_bytes, empty),
    )
