import signal
import time

import pytest

from edgeopt.errors import Terminated, TrialError, UsageError
from edgeopt.events import Progress
from edgeopt.hw.device import Unavailable
from edgeopt.measure.duties.records import SustainedRules
from edgeopt.measure.duties.sustained import run_sustained
from edgeopt.measure.instruments.energy import EnergyMeter

RULES = SustainedRules(minutes=0.02, window_s=0.2, pause_s=0.2)


def interrupting(error):
    def act():
        raise error

    return act


@pytest.mark.timing
def test_two_sides_one_after_another_in_windows(bench):
    sides = [bench.side("first", latency_ms=5), bench.side("second", latency_ms=10)]
    found = run_sustained(bench.host, sides, RULES, bench.emit)
    for side, latency_ms in zip(found.sides, (5, 10), strict=True):
        assert 4 <= len(side.windows) <= 6
        assert latency_ms * 0.99 <= side.p50_ms <= 3 * latency_ms
        assert side.runs == sum(w.runs for w in side.windows)
        assert side.throughput_per_s == pytest.approx(side.runs / side.seconds)
        assert [w.begin_s for w in side.windows] == sorted(w.begin_s for w in side.windows)
        assert all(w.memory_bytes > 10e6 and w.others_percent is not None for w in side.windows)
        assert side.verdict
        assert len(bench.metrics("latency_ms", side.name)) >= 10 * side.seconds * 0.8
        assert len(bench.metrics("process_memory_bytes", side.name)) >= 10 * side.seconds * 0.8
    assert found.pauses_s[0] == pytest.approx(0.2, abs=0.2)
    assert "cooling down" in {e.phase for e in bench.said if isinstance(e, Progress)}
    assert found.stopped_by == ""


@pytest.mark.parametrize(("error", "how"), [(KeyboardInterrupt(), "interrupt"), (Terminated(), "terminate")])
def test_stopped_it_keeps_what_there_is(bench, ends, error, how):
    bench.when_done(2, interrupting(error))
    sides = [bench.side("first", latency_ms=2), bench.side("second")]
    found = run_sustained(bench.host, sides, SustainedRules(5, window_s=0.2), bench.emit)
    assert found.stopped_by == how
    (side,) = found.sides
    assert len(side.windows) == 2
    assert side.course == "too short to tell"
    assert ends(bench.trials[0].pid, within_s=60)


@pytest.mark.slow
def test_a_run_that_is_longer_than_the_whole_time_is_no_silent_success(bench):
    slow = bench.side("slow", latency_ms=1200)
    with pytest.raises(TrialError, match=r"'slow' failed: no run ended in 0.6 s") as raised:
        run_sustained(bench.host, [slow], SustainedRules(0.01), bench.emit)
    assert "--minutes" in raised.value.hint
    found = run_sustained(bench.host, [bench.side("quick"), slow], SustainedRules(0.01, pause_s=0), bench.emit)
    assert [bool(side.windows) for side in found.sides] == [True, False]
    assert found.sides[1].failure == "failed: no run ended in 0.6 s"


def test_stopped_before_there_is_anything_it_ends_as_all_commands_do(bench, ends):
    bench.when("process_memory_bytes", "first", interrupting(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run_sustained(bench.host, [bench.side("first", latency_ms=2)], SustainedRules(5), bench.emit)
    assert ends(bench.trials[0].pid, within_s=60)


def test_a_crash_keeps_the_windows_before_it_and_the_next_side_runs(bench):
    bench.when_done(1, lambda: bench.kill(0, signal.SIGSEGV))
    sides = [bench.side("bad", latency_ms=2), bench.side("good", latency_ms=2)]
    rules = SustainedRules(0.01, window_s=0.2, pause_s=0)
    bad, good = run_sustained(bench.host, sides, rules, bench.emit).sides
    assert len(bad.windows) == 1
    assert "SIGSEGV" in bad.failure
    assert good.failure is None
    assert len(good.windows) >= 2
    assert "'bad' crashed: SIGSEGV" in bench.warnings()[0]


def test_a_model_slower_than_a_window_makes_longer_windows(bench):
    rules = SustainedRules(0.015, window_s=0.1)
    (side,) = run_sustained(bench.host, [bench.side("slow", latency_ms=250)], rules, bench.emit).sides
    assert 2 <= len(side.windows) <= 4
    assert all(w.runs >= 1 for w in side.windows)


class Rail:
    """A source that draws four watts."""

    name, resolution_s = "a rail", 0.3

    def joules(self):
        return 4.0 * time.monotonic()


@pytest.mark.timing
def test_energy_is_that_of_the_whole_time(bench):
    rules = SustainedRules(0.02, window_s=0.2)
    meter = EnergyMeter((Rail(),), idle_watts=1.0)
    (side,) = run_sustained(bench.host, [bench.side("model", latency_ms=5)], rules, bench.emit, meter).sides
    # A window is shorter than the meter needs, all of them are not.
    assert side.energy.reason == ""
    assert side.energy.joules_per_run == pytest.approx(4.0 / side.throughput_per_s, rel=0.2)
    assert side.energy.net_joules_per_run == pytest.approx(0.75 * side.energy.joules_per_run, rel=0.01)
    none = Unavailable("no meter is here")
    (side,) = run_sustained(bench.host, [bench.side("model")], rules, bench.emit, none).sides
    assert side.energy.reason == "no meter is here"


def test_what_cannot_be_measured(bench):
    with pytest.raises(TrialError, match="'bad' crashed: SIGSEGV"):
        run_sustained(bench.host, [bench.side("bad", crash="load")], RULES, bench.emit)
    for rules in (SustainedRules(0), SustainedRules(float("inf")), SustainedRules(1, window_s=0)):
        with pytest.raises(UsageError):
            run_sustained(bench.host, [bench.side("good")], rules, bench.emit)
