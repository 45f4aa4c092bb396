import re
import signal
import time

import pytest

from edgeopt.errors import Terminated, TrialError, UsageError
from edgeopt.events import Progress
from edgeopt.hw.device import Unavailable
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.workloads.records import SustainedRules, Window
from edgeopt.measure.workloads.sustained import judge, run_sustained


def windows(p50s_ms, busy=1.0, **series):
    """Of five seconds each; a series is one value for all, or one a window; from the sixth on `busy` so much."""
    told = [{n: v[k] if isinstance(v, list) else v for n, v in series.items()} for k in range(len(p50s_ms))]
    return [
        Window(5.0 * k, 5.0, 100, p50, 1.2 * p50, 1e3 * (busy if k > 5 else 1) / p50, **told[k])
        for k, p50 in enumerate(p50s_ms)
    ]


def test_a_speed_that_is_kept():
    found = judge(windows([10.0, 10.1, 9.9, 10.0, 10.2, 9.8] * 10, clock_hz=2e9))
    assert found.course == "kept its speed"
    assert found.speed_at_end == pytest.approx(1, abs=0.03)
    assert re.fullmatch(r"kept its speed: the last 60 s ran at 1\.\d\dx of the first", found.verdict)


def test_a_slow_spell_in_between_is_not_hidden():
    found = judge(windows([10.0] * 30 + [16.0] * 3 + [10.0] * 30, clock_hz=2e9))
    assert found.course == "kept its speed"
    assert "its slowest 5 s ran at 0.62x of the middle" in found.verdict


def test_throttling_is_said_with_when_and_what_the_clock_did():
    clocks = [2.4e9] * 48 + [1.7e9] * 48
    heat = [60.0 + k / 2 for k in range(48)] + [84.0] * 48
    found = judge(windows([10.0] * 48 + [14.1] * 48, clock_hz=clocks, temperature_c=heat))
    assert found.course == "slowed"
    assert found.speed_at_end == pytest.approx(0.709, abs=0.001)
    assert found.changed_after_s == 240
    assert found.verdict.startswith("slowed to 0.71x after 4 min, while the clock fell from 2.40 to 1.70 GHz")
    assert "the temperature rose from 63 to 84 °C" in found.verdict


def test_a_device_that_tells_nothing():
    found = judge(windows([10.0] * 6 + [12.0] * 6))
    assert found.verdict == "slowed to 0.83x after 30 s; this device reports neither its clock nor its temperature"


def test_others_are_named_when_they_took_the_cores():
    found = judge(windows([10.0] * 6 + [20.0] * 6, others_percent=[2.0] * 6 + [50.0] * 6, clock_hz=2e9))
    assert found.verdict == "slowed to 0.50x after 30 s, while other processes went from 2 to 50 % of the cores"


def test_ups_and_downs_are_no_course():
    found = judge(windows([10.0, 20.0, 11.0, 19.0, 10.0, 25.0, 12.0, 22.0, 24.0], others_percent=40.0))
    assert found.course == "no clear course"
    assert "went up and down" in found.verdict
    assert "other processes took 40 to 40 % of the cores" in found.verdict


def test_a_process_that_is_held_up_between_its_runs():
    found = judge(windows([10.0] * 18, busy=0.5))
    assert found.course == "kept its speed"
    assert "ran at 1.00x of the first (runs a second: 0.50x)" in found.verdict


def test_getting_faster():
    assert judge(windows([12.0] * 6 + [10.0] * 12)).course == "got faster"


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_short(count):
    assert judge(windows([10.0] * count)).course == "too short to tell"


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
