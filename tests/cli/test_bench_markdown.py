import msgspec
import pytest

from edgeopt.cli.bench_show import written
from edgeopt.commands.bench.limits import judge
from edgeopt.measure.report import Comparison, ContestReport, Figures, Limits, SideReport
from edgeopt.measure.stats import Interval


def side(name):
    return SideReport(name, name, "model", "null", figures=Figures(900, 1, 1, 1, 2, 1, 0, 1, 1, 1e3), load_ms=12.3)


REPORT = ContestReport(
    (side("a.onnx"), side("b.onnx")),
    (Comparison("a.onnx", "b.onnx", Interval(0.9, 0.88, 0.92, 18, 0.9974), "slower"),),
    measured_while="measured while the device was quiet",
    rounds=18,
    machine={"host": "Linux x86_64", "cpu": "Abacus <4>"},
    versions={"edgeopt": "1.2"},
    warnings=("Something to know.",),
)


def page(report):
    return written(report)


def tables(text):
    return [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]


def test_the_verdict_stands_first_and_the_interval_in_a_table():
    text = page(REPORT)
    title, verdict, first, second, *_ = text.split("\n\n")
    assert title == "## edgeopt bench: a.onnx against b.onnx"
    assert verdict.startswith("**a.onnx is slower than b.onnx: 0.90x \\[0.88 0.92\\], 18 rounds.**")
    assert first.splitlines() == [
        "| a.onnx against | speed-up | interval | verdict |",
        "|---|---:|---:|---|",
        "| b.onnx | 0.90x | 99.74 %: 0.88 to 0.92 | slower |",
    ]
    assert second.splitlines()[0].startswith("| side | p50 ms | p90 ms |")
    assert "\nMachine: Linux x86\\_64, Abacus \\<4\\>, edgeopt 1.2.\n" in text
    assert "\n\n> warning: There were too few rounds" in text
    assert "\n> warning: Something to know." in text


@pytest.mark.parametrize(
    ("limits", "headline", "row"),
    [
        (
            Limits(0.2),
            "The limit holds.",
            "| --max-slowdown 20% | b.onnx | 0.900x | 99.74 %: 0.880 to 0.920 | 0.833x | held |",
        ),
        (Limits(0.1), "The limit is undecided: neither broken nor met for certain.", "| 0.909x | undecided |"),
        (Limits(0.02), "a.onnx is 11 % slower than b.onnx; 2 % allowed.", "| 0.980x | broken |"),
        (Limits(None, 0.9), "--min-speedup 0.9x against b.onnx is not proved.", "| 0.900x | not proved |"),
        (Limits(0.1, 0.8), "No limit is broken, but 1 of 2 could not be decided.", "| 0.800x | held |"),
        (Limits(0.2, 0.8), "All limits hold.", "| --min-speedup 0.8x | b.onnx |"),
    ],
)
def test_limits_are_a_sentence_and_a_row_each(limits, headline, row):
    text = page(msgspec.structs.replace(REPORT, judgement=judge(REPORT, limits)))
    assert text.split("\n\n")[1] == f"**{headline}**"
    assert row in text
    # One table of comparisons is enough.
    assert len(tables(text)) == 2


def test_names_cannot_break_the_table():
    text = page(ContestReport((side("a|b"), side("[c](d)"))))
    assert "| a\\|b |" in text
    assert "| \\[c\\](d) |" in text
    for lines in tables(text):
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
