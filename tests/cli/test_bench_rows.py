import io

import pytest
from rich.console import Console

from edgeopt.backends.base import Placement
from edgeopt.cli.bench_rows import comparison_text, number
from edgeopt.cli.bench_show import contest
from edgeopt.measure.messages import Memory
from edgeopt.measure.report import Comparison, ContestReport, Energy, Figures, SideReport, Slice
from edgeopt.measure.stats import Interval
from edgeopt.views.terminal import write

MIB = 2**20


def side(name, p50_ms=1.234, runs=900, **more):
    figures = Figures(
        runs, p50_ms, 1.3 * p50_ms, 1.4 * p50_ms, 2 * p50_ms, p50_ms, 0.1, p50_ms, p50_ms, 1e3 / p50_ms
    )
    memory = Memory(
        import_bytes=40 * MIB,
        steady_bytes=71 * MIB,
        first_run_bytes=71 * MIB,
        peak_bytes=90 * MIB,
        added_bytes=31 * MIB,
    )
    slices = tuple(Slice(k, k, 0.1, (p50_ms, 1.1 * p50_ms)) for k in range(3))
    given = {"figures": figures, "load_ms": 12.3, "first_run_ms": 3.4, "memory": memory, "slices": slices}
    return SideReport(name, name, "model", "null", **{**given, **more})


def compared(verdict, low, high, maximum=None):
    return Comparison("a.onnx", "b.onnx", Interval((low * high) ** 0.5, low, high, 18), verdict, maximum)


REPORT = ContestReport(
    (side("a.onnx"), side("b.onnx", 1.75)),
    (compared("faster", 1.38, 1.46),),
    measured_while="measured while the device was quiet",
    rounds=18,
    data="data.npz (100 samples)",
    warnings=("Something to know.",),
)


def shown(report, width=80):
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    write(contest(report), console)
    return console.file.getvalue()


def test_what_a_user_sees_of_a_contest():
    text = shown(REPORT, 140)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "p50 ms p90 ms p99 ms runs /s load ms first ms added MiB peak MiB"
    assert lines[1] == "a.onnx 1.23 1.60 2.47 810 12.3 3.40 31.0 90.0"
    assert "a.onnx is faster than b.onnx: 1.42x [1.38 1.46], 18 rounds." in lines
    assert "Inputs: data.npz (100 samples)." in lines
    assert "Measured while the device was quiet." in lines
    assert lines[-1] == "warning: Something to know."


def test_brackets_in_names_are_shown_as_they_are():
    """They mean something to rich, and `[/x]` is an error to it."""
    names = ("model[fp16].onnx", "folder[/x].onnx")
    lines = shown(ContestReport(tuple(side(name) for name in names)), 140).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == list(names)


def test_it_fits_into_80_columns_whatever_the_names():
    long = "a_model_with_quite_a_name.onnx · openvino-cpu,threads=2,precision=bf16"
    report = ContestReport(
        (side("a.onnx"), side(long)), (Comparison("a.onnx", long, REPORT.comparisons[0].speedup, "faster"),)
    )
    text = shown(report)
    assert max(map(len, text.splitlines())) <= 80
    assert "1.42x [1.38 1.46]" in " ".join(text.split())
    # Figures are never cut.
    assert text.count("1.23") >= 2


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (compared("faster", 1.38, 1.46), "a.onnx is faster than b.onnx: 1.42x [1.38 1.46], 18 rounds."),
        (compared("slower", 0.5, 0.6), "a.onnx is slower than b.onnx: 0.55x [0.50 0.60], 18 rounds."),
        (
            compared("no difference seen", 0.99, 1.01, 1.3),
            "a.onnx and b.onnx: no difference seen (at most 1.30 %), 18 rounds.",
        ),
        (
            Comparison("a.onnx", "b.onnx", None, "too few rounds to tell"),
            "a.onnx and b.onnx: too few rounds to tell.",
        ),
        (compared("too noisy to tell", 0.01, 2.8e13), "a.onnx and b.onnx: too noisy to tell."),
        (
            compared("too noisy to tell", 0.9, 1.1),
            "a.onnx and b.onnx: too noisy to tell; 0.99x [0.90 1.10] so far, 18 rounds.",
        ),
    ],
)
def test_verdicts_are_sentences(comparison, sentence):
    assert comparison_text(comparison) == sentence


def test_what_was_asked_for_and_did_not_happen_is_said():
    fallen = (*["Gather: g"] * 8, *["Shape: s"] * 4)
    placed = Placement("CUDA", {"CUDA": 108, "CPU": 12}, fallen, 6, {"CUDA": 3.0, "CPU": 1.0})
    dead = SideReport("b.onnx", "b.onnx", "model", failure="crashed: SIGSEGV")
    report = ContestReport((side("a.onnx", placement=placed), dead))
    text = " ".join(shown(report).split())
    assert "12 of 120 nodes fell back from CUDA (8 Gather, 4 Shape): CUDA runs 108, CPU runs 12" in text
    assert "data crosses between them at 6 places; share of the time of one run: CUDA 75 %, CPU 25 %" in text
    assert "b.onnx did not finish: crashed: SIGSEGV." in text


def test_energy_by_run_or_why_not_is_told_once():
    known = Energy("RAPL package", 0.0123, 0.004, 5.5)
    text = shown(ContestReport((side("a.onnx", energy=known),)), 140)
    assert "mJ /run" in text
    assert "12.3" in text
    assert "by RAPL package" in text
    unknown = Energy(reason="no meter")
    text = shown(ContestReport((side("a.onnx", energy=unknown), side("b.onnx", energy=unknown))))
    assert text.count("Energy is not measurable here: no meter.") == 1
    assert "mJ" not in text


def test_what_came_from_memory_is_estimated_where_misses_were_counted():
    counted = side("a.onnx", counters_per_run={"instructions": 5e6, "llc_load_misses": 2**20})
    text = " ".join(shown(ContestReport((counted,)), 140).split())
    # 64 MiB a run, 810 times a second.
    assert "a.onnx, a run: 5M instructions, 64.0 MiB from memory, or 54.4 GB/s (an estimate; the truth" in text
    uncounted = side("a.onnx", counters_per_run={"page_faults": 2})
    assert "from memory" not in shown(ContestReport((uncounted,)), 140)


def test_options_of_all_sides_are_told_below():
    report = ContestReport((side("a.onnx", options={"threads": 1}), side("b.onnx", options={"threads": 1})))
    assert "All sides with threads=1." in shown(report)


def test_times_that_did_not_settle_are_warned_of():
    figures = Figures(9, 1, 1, 1, 1, 1, 0, 1, 1, 1, stable=False)
    assert "a.onnx did not settle" in shown(ContestReport((side("a.onnx", figures=figures),)))


def test_it_is_said_where_nobody_can_tell_whether_times_settled():
    few = "There were too few rounds to tell whether {} had settled"
    assert few.format("the absolute times") in shown(REPORT, 140)
    settled = side("c.onnx", figures=Figures(900, 1, 1, 1, 1, 1, 0, 1, 1, 1, stable=True))
    assert few.format("those of a.onnx") in shown(ContestReport((side("a.onnx"), settled)), 140)
    assert "settled" not in shown(ContestReport((settled,)))


def test_one_run_in_a_hundred_is_not_told_of_ten():
    assert "p99" not in shown(ContestReport((side("a.onnx", runs=99),)), 140)
    assert "2.47" in shown(ContestReport((side("a.onnx", runs=100),)), 140)


def test_loading_is_that_of_all_processes():
    loaded = side("a.onnx", loads_ms=(90.0, 11.0, 12.0), first_runs_ms=(9.0, 2.0, 2.5))
    lines = [" ".join(line.split()) for line in shown(ContestReport((loaded, side("b.onnx"))), 140).splitlines()]
    assert lines[1] == "a.onnx 1.23 1.60 2.47 810 12.0 2.50 31.0 90.0"
    assert "load ms and first ms are medians of several processes: a.onnx 11.0-90.0 and 2.00-9.00 in 3." in lines


def test_several_comparisons_are_drawn():
    sides = [side(f"{name}.onnx") for name in "abc"]
    found = [Comparison("a.onnx", s.name, REPORT.comparisons[0].speedup, "faster") for s in sides[1:]]
    assert "against c.onnx" in shown(ContestReport(tuple(sides), tuple(found)))
    assert "against" not in shown(REPORT)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.1234, "0.123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (2.5e7, "25M"),
        (3e9, "3G"),
        (0.0, "0.000"),
    ],
)
def test_figures_are_rounded_to_what_can_be_known(value, text):
    assert number(value) == text
