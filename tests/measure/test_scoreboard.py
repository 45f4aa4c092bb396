import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt import events
from edgeopt.events import Metric
from edgeopt.measure.contender import Contender, Side
from edgeopt.measure.contest import contest
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.scoreboard import WINDOW_SLICES, figures, stable, trial_log
from edgeopt.measure.sequential import Rules
from edgeopt.workers.host import LocalHost


def slices(*latencies_ms, runs=10):
    """One slice for each latency, and how long each took."""
    return [np.full(runs, ms) for ms in latencies_ms], [runs * ms / 1e3 for ms in latencies_ms]


def test_the_figures_of_a_hundred_runs():
    runs = np.arange(1.0, 101.0)
    found = figures([runs[:50], runs[50:]], [2.0, 3.05])
    assert found.runs == 100
    assert (found.p50_ms, found.p90_ms, found.p95_ms) == pytest.approx((50.5, 90.1, 95.05))
    assert found.p99_ms == pytest.approx(99.01)
    assert (found.mean_ms, found.lowest_ms, found.highest_ms) == (50.5, 1.0, 100.0)
    assert found.deviation_ms == pytest.approx(29.01, abs=0.01)
    assert found.throughput_per_s == pytest.approx(100 / 5.05)


def test_nothing_has_no_figures_and_one_run_has_no_deviation():
    assert figures([], []) is None
    assert figures([np.array([3.0])], [0.003]).deviation_ms == 0.0


def test_less_than_three_windows_are_neither_stable_nor_not():
    assert stable(*slices(*[1.0] * (3 * WINDOW_SLICES - 1))) is None


@pytest.mark.parametrize(
    ("first", "second", "third", "agree"),
    [(1.0, 1.0, 1.0, True), (1.0, 1.05, 1.09, True), (1.0, 1.05, 1.12, False), (2.0, 1.0, 1.0, False)],
)
def test_three_windows_agree_within_ten_percent(first, second, third, agree):
    windows = [ms for ms in (first, second, third) for _ in range(WINDOW_SLICES)]
    assert stable(*slices(*windows)) is agree
    assert stable(*slices(*[9.0] * WINDOW_SLICES, *windows)) is agree, "only the last three windows count"


def test_throughput_must_agree_too():
    latencies_ms, seconds = slices(*[1.0] * (3 * WINDOW_SLICES))
    assert stable(latencies_ms, seconds[:-WINDOW_SLICES] + [2 * s for s in seconds[-WINDOW_SLICES:]]) is False


def test_it_keeps_the_rounds_and_how_single_runs_lie():
    loaded = SimpleNamespace(load_ms=12.34567, first_run_ms=3.0)
    contender = Contender("a", None, loaded, [1.23456, 2.0], [float(k) for k in range(1, 1001)])
    found = trial_log(contender)
    assert found.slices_ms == (1.235, 2.0)
    assert (found.runs, len(found.quantiles_ms), found.load_ms) == (1000, 101, 12.35)
    assert found.quantiles_ms[50] == pytest.approx(500.5)
    assert (found.quantiles_ms[0], found.quantiles_ms[-1]) == (1.0, 1000.0)


def test_of_a_contender_that_never_ran_there_is_nothing():
    found = trial_log(Contender("a", None, SimpleNamespace(load_ms=1.0, first_run_ms=1.0)))
    assert (found.slices_ms, found.runs, found.quantiles_ms) == ((), 0, ())


FEW = Rules(min_rounds=4, max_rounds=4)


class Rail:
    """A source that draws four watts and needs so long."""

    name = "a rail"

    def __init__(self, resolution_s):
        self.resolution_s = resolution_s

    def joules(self):
        return 4.0 * time.monotonic()


@pytest.fixture
def measured(load_null):
    """The energy of a side whose slices last some 40 ms."""

    def run(resolution_s, emit=events.ignore, host=None):
        sides = [Side("model", load_null("model", latency_ms=2))]
        meter = EnergyMeter((Rail(resolution_s),), idle_watts=1.0)
        return contest(host or LocalHost(), sides, FEW, emit, meter=meter)

    return run


@pytest.mark.timing
def test_where_slices_are_too_short_for_the_meter_a_longer_one_tells(measured):
    (side,) = measured(0.6).sides
    assert max(piece.seconds for piece in side.slices) < 0.6
    assert side.energy.reason == ""
    # Four watts for two milliseconds, or for more where others take the cores.
    assert 0.0079 < side.energy.joules_per_run < 0.08
    assert side.energy.net_joules_per_run == pytest.approx(0.75 * side.energy.joules_per_run, rel=0.02)
    # It is for energy alone.
    assert len(side.slices) == 4


def test_nobody_waits_for_a_meter_that_needs_long(measured):
    begin = time.monotonic()
    (side,) = measured(30).sides
    assert time.monotonic() - begin < 30
    assert "needs 30 s of one side without interruption" in side.energy.reason


def test_a_crash_in_it_takes_nothing_from_what_was_measured(measured):
    class Known(LocalHost):
        def start(self, *module):
            self.child = super().start(*module)
            return self.child

    host, told = Known(), []

    def kill_at_the_end(event):
        told.extend([event] if isinstance(event, events.Progress) and event.done == 4 else [])
        if told and isinstance(event, Metric) and event.name == "process_memory_bytes":
            os.kill(host.child.pid, signal.SIGKILL)

    (side,) = measured(0.6, kill_at_the_end, host).sides
    assert told
    assert side.failure is None
    assert len(side.slices) == 4
    assert "needs 0.6 s" in side.energy.reason
