import signal

import pytest

from edgeopt.errors import TrialError, UsageError
from edgeopt.hw.device import Unavailable
from edgeopt.measure.workloads.paced import run_paced
from edgeopt.measure.workloads.records import PacedRules


@pytest.mark.timing
def test_two_sides_at_a_rate_in_turns(bench):
    sides = [bench.side("slow", latency_ms=6), bench.side("fast", latency_ms=1.5)]
    found = run_paced(bench.host, sides, PacedRules(60, rounds=3), bench.emit)
    slow, fast = found.sides
    for side, latency_ms in ((slow, 6), (fast, 1.5)):
        assert latency_ms * 0.99 <= side.p50_ms <= 3 * latency_ms
        assert side.p50_ms <= side.p90_ms <= side.p95_ms <= side.p99_ms
        # 20 runs a slice; the pauses in which the other side ran are not missed runs.
        assert 55 <= side.runs + side.missed_runs <= 110
        assert side.missed_runs <= 0.1 * side.runs
        assert side.runs == len(side.latencies_ms)
        # The null backend spins for the last third of a millisecond of each run.
        assert 0.2 < side.cpu_ms_per_run < 8
        assert 0 < side.cpu_percent < 60
        assert side.energy is None
    assert found.comparisons[0].speedup.median < 0.7
    assert found.comparisons[0].speedup.rounds == 3
    assert found.tail_comparisons[0].speedup.median < 1
    assert found.measured_while.startswith("Measured ")
    assert found.slice_s == pytest.approx(20 / 60)
    assert {e.subject for e in bench.metrics("latency_ms")} == {"slow", "fast"}


@pytest.mark.timing
def test_a_rate_that_cannot_be_kept_is_stated(bench):
    found = run_paced(bench.host, [bench.side("slow", latency_ms=25)], PacedRules(100, rounds=2), bench.emit)
    (side,) = found.sides
    assert not side.kept
    assert side.achieved_per_s == pytest.approx(40, rel=0.4)


def test_a_warning_is_in_the_report_alone(bench):
    """A terminal shows warnings as they are emitted, and those of the report: both would be one too many."""
    found = run_paced(bench.host, [bench.side("slow", latency_ms=25)], PacedRules(100, rounds=1), bench.emit)
    assert [each.partition(":")[0] for each in found.warnings] == ["'slow' did not keep up with 100 runs a second"]
    assert bench.warnings() == []


def test_why_energy_is_not_known(bench):
    found = run_paced(
        bench.host, [bench.side("a")], PacedRules(100, rounds=1), bench.emit, Unavailable("no meter is here")
    )
    assert found.sides[0].energy.reason == "no meter is here"


def test_a_side_that_crashes_is_left_out(bench):
    bench.when("latency_ms", "bad", lambda: bench.kill(1, signal.SIGSEGV))
    sides = [bench.side("good", latency_ms=1), bench.side("bad", latency_ms=1)]
    found = run_paced(bench.host, sides, PacedRules(100, rounds=2), bench.emit)
    good, bad = found.sides
    assert good.runs > 20
    assert good.failure is None
    assert "SIGSEGV" in bad.failure
    assert not any("'bad'" in each for each in (*found.warnings, *bench.warnings())), "the side itself says why"


def test_what_cannot_be_measured(bench):
    with pytest.raises(TrialError, match="'bad' crashed: SIGSEGV"):
        run_paced(bench.host, [bench.side("bad", crash="load")], PacedRules(50), bench.emit)
    with pytest.raises(UsageError, match="not a rate"):
        run_paced(bench.host, [bench.side("good")], PacedRules(0), bench.emit)
