import signal

import pytest

from edgeopt.errors import TrialError, UsageError
from edgeopt.measure.workloads import concurrent
from edgeopt.measure.workloads.concurrent import run_concurrent
from edgeopt.measure.workloads.records import ConcurrentRules


@pytest.mark.timing
def test_threads_and_processes_against_one_alone(bench):
    # A null model sleeps, so several do run at once, whatever else the cores do.
    side = bench.side("model", latency_ms=10)
    found = run_concurrent(bench.host, [side], ConcurrentRules((2,), (2, 3), rounds=3), bench.emit)
    levels = found.sides[0].levels
    assert [(level.kind, level.count) for level in levels] == [
        ("threads", 1),
        ("threads", 2),
        ("processes", 2),
        ("processes", 3),
    ]
    alone, *several = levels
    assert alone.gain is alone.efficiency_percent is None
    assert alone.throughput_per_s == pytest.approx(100, rel=0.3)
    for level in several:
        assert 1.3 < level.gain.median < level.count + 0.5
        assert level.efficiency_percent == pytest.approx(100 * level.gain.median / level.count)
        assert level.runs > alone.runs
        assert level.p99_ms >= level.p50_ms >= 9.9
    # One trial for the threads, and three for the processes, of which one is the one alone.
    assert len(bench.trials) == 4
    assert several[1].memory_bytes == pytest.approx(2 * alone.memory_bytes, rel=0.2)
    assert several[2].memory_bytes == pytest.approx(3 * alone.memory_bytes, rel=0.2)
    assert several[0].memory_bytes < 1.5 * alone.memory_bytes
    names = {e.subject for e in bench.metrics("throughput_per_s")}
    assert names == {"model · 1 alone", "model · 2 threads", "model · 2 processes", "model · 3 processes"}
    assert found.measured_while.startswith("Measured ")
    assert len(bench.metrics("process_memory_bytes")) > 8 * found.seconds / 3


@pytest.fixture
def short_slices(monkeypatch):
    monkeypatch.setattr(concurrent, "_SHORTEST_SLICE_MS", 50.0)


def test_two_sides_are_compared_by_their_throughput(bench, short_slices):
    sides = [bench.side("fast", latency_ms=1), bench.side("slow", latency_ms=5)]
    found = run_concurrent(bench.host, sides, ConcurrentRules((1,), rounds=7), bench.emit)
    (comparison,) = found.comparisons
    assert (comparison.first, comparison.second, comparison.verdict) == ("fast", "slow", "faster")
    fast, slow = (side.levels[0].throughput_per_s for side in found.sides)
    assert comparison.speedup.low <= fast / slow <= comparison.speedup.high


def test_a_level_whose_process_dies_is_left_out_and_the_others_go_on(bench, short_slices):
    bench.when("throughput_per_s", "model · 2 processes", lambda: bench.kill(2, signal.SIGKILL))
    side = bench.side("model", latency_ms=5)
    found = run_concurrent(bench.host, [side], ConcurrentRules((2,), (2,), rounds=2), bench.emit)
    alone, threads, processes = found.sides[0].levels
    assert alone.gain is None
    assert threads.runs > 0
    assert (threads.gain, threads.efficiency_percent) == (None, None), "two rounds give no interval, so no ratio"
    assert "SIGKILL" in processes.failure or "killed" in processes.failure


def test_one_alone_that_cannot_run_is_an_error(bench):
    with pytest.raises(TrialError, match="'bad' crashed: SIGSEGV"):
        run_concurrent(bench.host, [bench.side("bad", crash="run")], ConcurrentRules((2,)), bench.emit)


@pytest.mark.parametrize("rules", [ConcurrentRules((0,)), ConcurrentRules((1,), (1000,))])
def test_how_many_at_once_must_make_sense(bench, rules):
    with pytest.raises(UsageError, match="cannot be measured"):
        run_concurrent(bench.host, [bench.side("model")], rules, bench.emit)
