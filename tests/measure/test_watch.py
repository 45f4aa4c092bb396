import os
import signal
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from edgeopt.errors import TrialError
from edgeopt.events import Log, Metric, Progress
from edgeopt.measure.contender import Side
from edgeopt.measure.watch import Latencies, watch
from edgeopt.workers.host import LocalHost

TAKEN = st.lists(st.floats(2**-10, 2**16, width=32), min_size=1, max_size=200)


@given(TAKEN)
def test_percentiles_are_those_of_all_runs_within_a_fifth_of_a_percent(taken):
    kept = Latencies()
    for start in range(0, len(taken), 7):
        kept.add(float(start), np.array(taken[start : start + 7], np.float32))
    found = kept.all()
    wanted = np.percentile(taken, [50, 90, 99], method="inverted_cdf")
    assert found.runs == len(taken)
    assert np.allclose([found.p50_ms, found.p90_ms, found.p99_ms], wanted, rtol=2.1e-3)


def test_old_runs_leave_the_window_and_stay_in_the_whole():
    kept = Latencies(window_s=10.0)
    kept.add(0.0, np.full(100, 50.0, np.float32))
    kept.add(9.0, np.full(10, 1.0, np.float32))
    assert kept.recent().p50_ms == pytest.approx(50, rel=3e-3)
    kept.add(10.5, np.zeros(0, np.float32))
    assert kept.recent().runs == 10
    assert kept.recent().p99_ms == pytest.approx(1, rel=3e-3)
    assert kept.all().runs == 110


def test_without_a_run_there_is_no_percentile():
    kept = Latencies()
    kept.add(1.0, np.zeros(0, np.float32))
    assert kept.recent() is None
    assert kept.all() is None


def test_latencies_beyond_every_bin_are_counted():
    kept = Latencies()
    kept.add(0.0, np.array([0.0, 1e-9, 1e12], np.float32))
    assert kept.all().runs == 3
    assert kept.all().p99_ms > 1e5


def test_hours_of_a_fast_model_take_little_memory():
    kept, one = Latencies(window_s=10.0), np.random.default_rng(0).gamma(9, 0.02, 2000).astype(np.float32)
    for tick in range(3000):
        kept.add(tick / 12.5, one)
    assert kept.all().runs == 6_000_000
    assert kept.recent().runs == pytest.approx(250_000, rel=0.02)
    assert len(kept._ticks) <= 126


OF_RUNS = {
    "latency_ms",
    "latency_p50_ms",
    "latency_p90_ms",
    "latency_p99_ms",
    "percentile_runs",
    "throughput_per_s",
    "runs",
}
OF_DEVICE = {"process_memory_bytes", "device_memory_bytes", "load_percent"}


class Watching:
    """A watch of a null model, and what it told; `at` does something once so many metrics are there."""

    def __init__(self, load_null, tmp_path):
        self.load_null, self.host = load_null, LocalHost(tmp_path)
        self.said = []
        self.started = []

    def __call__(self, rate=None, seconds=1.0, patience_s=None, at=None, **behaviour):
        start = self.host.start

        def remember(*module):
            self.started.append(start(*module))
            return self.started[-1]

        self.host.start = remember

        def emit(event):
            self.said.append(event)
            if at and len(self.metrics()) == at[0]:
                at[1](self.started[0].pid)

        side = Side("model", self.load_null(**behaviour))
        return watch(self.host, side, rate, seconds, emit, patience_s)

    def metrics(self, name=None):
        return [e for e in self.said if isinstance(e, Metric) and name in {None, e.name}]


@pytest.fixture
def watching(load_null, tmp_path):
    return Watching(load_null, tmp_path)


@pytest.mark.timing
def test_all_is_told_ten_times_a_second_with_its_time(watching):
    before = time.time()
    report = watching(latency_ms=2, seconds=1.2)
    assert {m.name for m in watching.metrics()} >= OF_RUNS | OF_DEVICE
    assert {m.subject for m in watching.metrics()} == {"model"}
    assert [e.phase for e in watching.said if isinstance(e, Progress)] == ["loading", "running"]
    for name in OF_RUNS | OF_DEVICE:
        times = [m.time_s for m in watching.metrics(name)]
        assert 6 <= len(times) <= 20, name
        assert times == sorted(times)
        assert before - 1 <= times[0] <= times[-1] <= time.time() + 1
    assert report.runs == pytest.approx(600, rel=0.6)
    # Percentiles come from bins a fifth of a percent wide.
    assert 1.99 <= report.p50_ms <= report.p90_ms <= report.p99_ms
    assert report.seconds == pytest.approx(1.2, abs=0.5)
    assert 0 < watching.metrics("runs")[-1].value <= report.runs
    assert watching.metrics("throughput_per_s")[-1].value == pytest.approx(report.throughput_per_s, rel=0.5)
    assert report.peak_memory_bytes > 10e6
    assert watching.metrics("process_memory_bytes")[-1].value <= report.peak_memory_bytes * 1.05


def test_what_the_device_does_not_tell_is_said_once_with_the_reason(watching):
    watching(seconds=0.5)
    absent = {"clock_hz", "temperature_c"} - {m.name for m in watching.metrics()}
    logs = [e.message for e in watching.said if isinstance(e, Log)]
    assert len(logs) == len(absent)
    assert all(any(f"No {name}: " in log for log in logs) for name in absent)


def test_a_slow_model_gives_one_latency_a_run_and_the_device_goes_on(watching):
    report = watching(latency_ms=300, seconds=1.4)
    assert 3 <= report.runs <= 4
    assert len(watching.metrics("latency_ms")) == report.runs
    assert len(watching.metrics("device_memory_bytes")) >= 7
    assert report.throughput_per_s == pytest.approx(1 / 0.3, rel=0.2)


def test_a_rate_is_kept(watching):
    report = watching(rate=50, seconds=1.5)
    assert report.throughput_per_s == pytest.approx(50, rel=0.25)
    assert report.runs + report.missed_runs <= 80


def test_a_rate_that_is_too_high_is_said_once(watching):
    report = watching(rate=200, latency_ms=20, seconds=1.0)
    assert report.missed_runs > 50
    warnings = [e for e in watching.said if isinstance(e, Log) and e.level == "warning"]
    assert [("200 runs per second" in w.message) for w in warnings] == [True]


def test_a_time_shorter_than_a_run_has_no_percentiles(watching):
    report = watching(latency_ms=500, seconds=0.1)
    assert (report.runs, report.p50_ms, report.throughput_per_s) == (0, None, 0.0)


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGSEGV, "crashed: SIGSEGV"), (signal.SIGKILL, "was killed by the system")]
)
def test_a_crash_while_it_is_watched_is_a_sentence(watching, number, said):
    with pytest.raises(TrialError, match=f"'model' {said}.*while it was watched") as raised:
        watching(seconds=30, at=(20, lambda pid: os.kill(pid, number)))
    assert raised.value.hint


def test_a_model_that_hangs_while_it_is_watched_is_killed(watching, ends):
    with pytest.raises(TrialError, match="hung: no run has ended for 1 s"):
        watching(seconds=30, patience_s=1.0, at=(20, lambda pid: os.kill(pid, signal.SIGSTOP)))
    assert ends(watching.started[0].pid)


def test_a_model_that_cannot_be_loaded_is_a_sentence(watching):
    with pytest.raises(TrialError, match="'model' crashed: SIGSEGV"):
        watching(crash="load")
    assert not watching.metrics()


def test_when_it_is_interrupted_it_reports_and_the_trial_is_gone_at_once(watching, ends):
    begin = []

    def interrupt(_):
        begin.append(time.monotonic())
        raise KeyboardInterrupt  # not the signal: a process that runs tests beside others ignores it

    report = watching(seconds=None, at=(30, interrupt))
    assert report.runs > 0
    assert ends(watching.started[0].pid, within_s=60)
    assert time.monotonic() - begin[0] < 60


@pytest.mark.timing
def test_the_model_runs_on_while_its_answers_are_read(load_null, tmp_path):
    """A reader that is slow at every answer costs no run: the next slice is asked for already."""
    pause = threading.Event()

    def emit(event):
        if isinstance(event, Metric) and event.name == "throughput_per_s":
            pause.wait(0.06)

    side = Side("model", load_null(latency_ms=5))
    report = watch(LocalHost(tmp_path), side, None, 1.5, emit)
    # The share of the time in which it ran; it would be 0.6 if each slice waited for its reader.
    assert report.throughput_per_s * report.p50_ms / 1e3 > 0.8


def test_every_run_is_told_with_the_median_of_its_slice(watching):
    watching(latency_ms=5, seconds=0.6)
    told = watching.metrics("latency_ms")
    assert sum(len(metric.samples) for metric in told) == watching.metrics("runs")[-1].value
    for metric in told:
        assert min(metric.samples) <= metric.value <= max(metric.samples)
    assert all(metric.samples is UNSET for metric in watching.metrics("latency_p99_ms"))
