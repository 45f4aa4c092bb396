"""The tables of duty cycles and sweeps, from reports that are made up; and what Ctrl-C leaves of a long run."""

import io
import json
import signal

import msgspec
import pytest
from rich.console import Console

from edgeopt.cli import bench_workloads as workloads
from edgeopt.cli.bench import _exit_code
from edgeopt.cli.bench_workloads import duration, sweep
from edgeopt.commands.bench.sweep import RunRange, SweepPoint, SweepReport
from edgeopt.measure.messages import Memory
from edgeopt.measure.report import Comparison, Energy
from edgeopt.measure.stats import Interval
from edgeopt.measure.workloads import records as r
from edgeopt.views.terminal import write

FASTER = Comparison("a.onnx", "b.onnx", Interval(1.5, 1.4, 1.6, 9, 0.98), "faster")


def shown(show, report, width=80):
    out = io.StringIO()
    write(show(report), Console(file=out, width=width, highlight=False))
    lines = out.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    # Cells that do not fit would end in an ellipsis.
    assert "…" not in out.getvalue()
    return " ".join(out.getvalue().split())


def spread(value):
    return r.Spread(value, value * 0.9, value * 1.1)


@pytest.fixture
def cold():
    start = r.ColdStart(150, 20, 30, 5, 205)
    phases = [spread(v) for v in (150.0, 20.0, 30.0, 5.0, 205.0)]
    sides = (r.ColdSide("a.onnx", (start,), *phases), r.ColdSide("bad.onnx", failure="crashed: SIGSEGV"))
    return r.ColdReport(
        sides,
        comparisons=(FASTER,),
        load_comparisons=(FASTER,),
        cache="The model files were read from the disk at each start.",
    )


def test_cold_starts(cold):
    text = shown(workloads.cold, cold)
    assert "a.onnx 150 20.0 30.0 5.00 205 185-226" in text.replace("184-226", "185-226")
    assert "To the first answer: a.onnx is faster than b.onnx: 1.50x [1.40 1.60], 9 rounds." in text
    assert "bad.onnx did not finish: crashed: SIGSEGV." in text
    assert "read from the disk at each start" in text


def test_paced_runs():
    side = r.PacedSide("a.onnx", 200, 4, 29.4, False, 7.0, 9.0, 9.5, 12.0, 7.7, 23.3, Energy(reason="no meter"))
    text = shown(
        workloads.paced,
        r.PacedReport(30, (side,), (), 9, 0.67, comparisons=(FASTER,), warnings=("'a.onnx' is slow.",)),
    )
    assert "a.onnx 7.00 9.00 12.0 29.4 2.0 7.70 23 %" in text
    assert "30 runs a second by the clock, 9 rounds" in text
    assert "Energy: no meter." in text
    assert "warning: 'a.onnx' is slow." in text


def test_answers_of_language_models():
    side = r.GenerateSide("a.onnx", 40, 42.0, 12.5, 80.0, 300.0, Memory(start_bytes=2**20, peak_bytes=2**26))
    bad = r.GenerateSide("bad.onnx", failure="crashed: SIGSEGV")
    text = shown(
        workloads.generate,
        r.GenerateReport(
            (side, bad), 64, 32, (FASTER,), 15, "8 prompts", comparisons=(FASTER,), warnings=("It is slow.",)
        ),
    )
    assert "first token ms tokens /s token ms load ms" in text
    assert "a.onnx 42.0 80.0 12.5 300" in text
    assert "64.0" in text
    assert "By tokens per second: a.onnx is faster than b.onnx: 1.50x [1.40 1.60], 9 rounds." in text
    assert "To the first token: a.onnx is faster than b.onnx" in text
    assert "bad.onnx did not finish: crashed: SIGSEGV." in text
    assert (
        "An answer has 32 tokens after a prompt of 64 tokens, one at a time; medians of all answers of 15 rounds."
        in text
    )
    assert "warning: It is slow." in text


def test_a_sustained_run():
    windows = tuple(
        r.Window(5.0 * k, 5.0, 100, 10.0 + k // 24, 12.0, 100.0, 2e9 - k * 1e7, 60 + k, 99, 3, 2**26)
        for k in range(48)
    )
    side = r.SustainedSide("a.onnx", windows, 240, 4800, 10.0, 12.0, 100.0, "slowed", 0.9, 120, "slowed to 0.91x")
    metered = msgspec.structs.replace(side, energy=Energy("RAPL", 0.0123, 0.004, 5.0))
    unmetered = msgspec.structs.replace(side, energy=Energy(reason="no meter"))
    report = r.SustainedReport((metered, unmetered), 4, 5, (48.0,), "interrupt")
    text = shown(workloads.sustained, report)
    assert "a.onnx slowed to 0.91x." in text
    assert "235" not in text.split("4,800 runs")[0]  # at most a dozen rows
    assert "1.53 to 2 GHz" in text
    assert "Energy: no meter." in text
    assert "with pauses to cool down of 48 s" in text
    assert "Ended early by Ctrl-C" in text
    assert (
        "Energy: 12.3 mJ per run of the whole device, 4.00 mJ without what the idle device draws, by RAPL" in text
    )
    report = r.SustainedReport((side, r.SustainedSide("b.onnx")), 4, 5, (48.0,), "interrupt")
    assert "b.onnx was not measured" in shown(workloads.sustained, report)


def test_short_windows_of_a_sustained_run_begin_at_different_times():
    windows = tuple(r.Window(0.25 * k, 0.25, 100, 10.0, 12.0, 400.0) for k in range(4))
    side = r.SustainedSide(
        "a.onnx", windows, 1, 400, 10.0, 12.0, 400.0, "kept its speed", 1.0, None, "kept its speed"
    )
    rows = shown(workloads.sustained, r.SustainedReport((side,), 0.02, 0.25)).split("p99 ms")[1]
    assert all(each in rows for each in ("0.00 10.0", "0.25 10.0", "0.50 10.0", "0.75 10.0"))


def test_levels_of_concurrency():
    levels = (
        r.Level("threads", 1, 100, 50.0, 20.0, 25.0, memory_bytes=2**26),
        r.Level("threads", 2, 150, 75.0, 26.0, 30.0, Interval(1.5, 1.4, 1.6, 11, 0.98), 75.0, 2**26),
        r.Level("processes", 4, failure="crashed: SIGKILL"),
    )
    text = shown(workloads.concurrency, r.ConcurrencyReport((r.ConcurrencySide("a.onnx", levels),), 11, 200))
    assert "2 threads 75.0 1.50x [1.40 1.60] 75 % 26.0 30.0 64.0" in text
    assert "Highest throughput: 2 threads, 1.50x of one alone." in text
    assert "4 processes did not finish: crashed: SIGKILL." in text


@pytest.fixture
def levels():
    gain = Interval(1.5, 1.4, 1.6, 40, 0.98)
    points = (
        SweepPoint("none", 5, 4, 6, 2, 2.0, 2.5, 500, totals_ms={1: 7.0, 100: 205.0, 10_000: 20_005.0}),
        SweepPoint(
            "all", 30, 28, 33, 1, 1.0, 1.2, 990, None, gain, "faster", None, {1: 31, 100: 130, 10_000: 10_030}
        ),
    )
    best = (RunRange(1, "none"), RunRange(25, "all"))
    return SweepReport("graph_level", "option", "m.onnx", "onnxruntime-cpu", points, best)


def test_a_sweep_of_graph_levels_marks_the_best_total(levels):
    text = shown(sweep, levels)
    assert "graph_level of m.onnx on onnxruntime-cpu" in text
    assert "none 5.00 2.00 2.50 *7.00 ms 205 ms 20.0 s" in text
    assert "all 30.0 1.00 1.20 1.50x [1.40 1.60] 31.0 ms *130 ms *10.0 s" in text
    assert "none up to 24 runs, all from 25 runs on" in text


def test_a_sweep_for_a_number_of_runs(levels):
    text = shown(sweep, msgspec.structs.replace(levels, runs=100))
    assert "For 100 runs: graph_level=all, 130 ms with the creation of 30.0 ms." in text
    assert "10,000" not in text


def test_a_sweep_of_batches():
    gain = Interval(1.4, 1.3, 1.5, 40, 0.98)
    points = (
        SweepPoint(1, 5, 4, 6, 2, 2.0, 2.5, 500, 2.0),
        SweepPoint(8, 5, 4, 6, 2, 11.4, 12, 700, 1.43, gain),
        SweepPoint(16, failure="failed: no room"),
    )
    text = shown(sweep, SweepReport("batch", "batch", "m.onnx", "onnxruntime-cpu", points))
    assert "Most samples a second: batch=8, 700 (1.40x [1.30 1.50])" in text
    assert "answered after 11.4 ms instead of 2.00 ms" in text
    assert "batch=16 did not finish: failed: no room." in text


@pytest.mark.parametrize(
    ("ms", "text"), [(0.5, "0.500 ms"), (999, "999 ms"), (1500, "1.50 s"), (1.2e6, "20.0 min")]
)
def test_durations(ms, text):
    assert duration(ms) == text


FAILED = "crashed: SIGSEGV"


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (r.ConcurrencyReport((r.ConcurrencySide("a", (r.Level("threads", 1),)),)), 0),
        (r.ConcurrencyReport((r.ConcurrencySide("a", (r.Level("threads", 2, failure=FAILED),)),)), 1),
        (SweepReport("batch", "batch", "m", "null", (SweepPoint(1), SweepPoint(2))), 0),
        (SweepReport("batch", "batch", "m", "null", (SweepPoint(1), SweepPoint(2, failure=FAILED))), 1),
        (r.PacedReport(30, (r.PacedSide("a", failure=FAILED),)), 1),
        (r.SustainedReport((r.SustainedSide("a"), r.SustainedSide("b", failure=FAILED)), 1, 5), 1),
    ],
)
def test_what_was_asked_for_and_failed_is_no_success(report, code):
    assert _exit_code(report) == code


@pytest.mark.slow
@pytest.mark.processes
def test_a_side_that_never_starts_is_told_by_the_exit_code(edgeopt_here, null_model, null_data):
    edgeopt = edgeopt_here
    good, bad = null_model("good"), null_model("bad", crash="run")
    code, out, _ = edgeopt("bench", good, "--against", bad, "--data", null_data, "--concurrency", 2, "--rounds", 6)
    assert code == 1
    assert "SIGSEGV" in out
    code, out, err = edgeopt(
        "bench", null_model("slow", latency_ms=1500), "--data", null_data, "--duty", "sustained", "--minutes", 0.01
    )
    assert (code, out) == (1, "")
    assert "no run ended in 0.6 s" in err


@pytest.mark.parametrize(
    ("number", "code", "how"), [(signal.SIGINT, 130, "interrupt"), (signal.SIGTERM, 143, "terminate")]
)
def test_a_long_run_that_is_stopped_gives_what_it_has(start, null_model, null_data, number, code, how):
    run = start(
        "bench", null_model(latency_ms=2), "--data", null_data, "--duty", "sustained", "--minutes", 0.1, "--json"
    )
    run.first_line_with('"done":1')
    run.process.send_signal(number)
    found, out, err = run.finish()
    last = json.loads(out.splitlines()[-1])
    assert (found, err) == (code, "")
    assert last["event"] == "result"
    assert last["data"]["stopped_by"] == how
    assert len(last["data"]["sides"][0]["windows"]) == 1
    assert list(run.temporary.iterdir()) == []
