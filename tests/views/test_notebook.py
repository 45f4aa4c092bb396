"""Records in a notebook: the figures of the terminal as HTML."""

import html
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

import edgeopt
from edgeopt.data.demo import MODEL
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.measure.report import Comparison, ContestReport, Figures, SideReport
from edgeopt.measure.stats import Interval
from edgeopt.notebook import VIEWS, NotebookRecord
from edgeopt.views.terminal import write
from tests.commands.report import evidence

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def contest(name="a.onnx"):
    figures = Figures(900, 1.234, 1.6, 1.7, 2.47, 1.234, 0.1, 1.2, 1.2, 810.0)
    sides = tuple(SideReport(each, each, "model", "null", figures=figures) for each in (name, "b.onnx"))
    faster = Comparison(name, "b.onnx", Interval(1.42, 1.38, 1.46, 18), "faster")
    return ContestReport(sides, (faster,), rounds=18)


@pytest.fixture(scope="module")
def analysis():
    return edgeopt.analyze(MODEL, coverage=False, opportunities=False)


@pytest.fixture(params=["Device", "Analysis", "Outcome", "ContestReport", "Quantized"])
def record(request, analysis):
    made = {
        "Device": lambda: probe(RecordedHost(FAKEROOTS / "amd-zen4")),
        "Analysis": lambda: analysis,
        "Outcome": evidence.outcome,
        "ContestReport": contest,
        "Quantized": evidence.quantized,
    }
    return made[request.param]()


def text_of(fragment):
    """What a reader sees, without the style."""
    without_style = re.sub(r"<style>.*?</style>", "", fragment, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", without_style)).split())


def view_of(record):
    module, _, name = dict(VIEWS)[type(record).__name__].partition(":")
    return getattr(importlib.import_module(module), name)(record)


def test_figures_of_the_terminal_are_in_the_notebook(record):
    console = Console(file=io.StringIO(), width=400, highlight=False, color_system=None)
    write(view_of(record), console)
    figures = re.findall(r"\d+\.\d+", console.file.getvalue())
    assert figures
    shown = text_of(record._repr_html_())
    assert [each for each in figures if each not in shown] == []


def test_figures_are_those_of_the_record():
    outcome = evidence.outcome()
    shown = text_of(outcome._repr_html_())
    assert outcome.summary in shown
    assert str(outcome.proof.speedup) in shown
    assert "1.42x [1.38 1.46]" in text_of(contest()._repr_html_())


def test_nothing_runs_or_loads_in_a_notebook(record):
    fragment = record._repr_html_()
    assert not re.search(r"<(script|link|img|iframe|html|body)\b|\bon\w+=|https?:|url\(|@import", fragment)


def test_colours_are_those_of_the_notebook(record):
    style = "".join(re.findall(r"<style>(.*?)</style>", record._repr_html_(), flags=re.DOTALL))
    assert style
    assert not re.search(r"(?<![\w-])color:", style)
    assert all(rule.strip().startswith(".edgeopt-record") for rule in re.findall(r"([^{}]+)\{", _rules(style)))


def _rules(style):
    return re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)


def test_names_with_markup_are_shown_as_text(analysis):
    device = probe(RecordedHost(FAKEROOTS / "amd-zen4"))
    hostile = (
        msgspec.structs.replace(device, cpu=msgspec.structs.replace(device.cpu, model=HOSTILE)),
        msgspec.structs.replace(analysis, name=HOSTILE, producer=HOSTILE),
        evidence.outcome(summary=HOSTILE, bundle=HOSTILE),
        contest(HOSTILE),
    )
    for each in hostile:
        fragment = each._repr_html_()
        assert "<script" not in fragment
        assert "<img" not in fragment
        assert HOSTILE in text_of(fragment)


def test_two_records_on_one_page_have_different_ids(analysis):
    pages = [set(re.findall(r'\bid="([^"]+)"', analysis._repr_html_())) for _ in range(2)]
    assert pages[0]
    assert not pages[0] & pages[1]


def test_long_sections_are_folded(analysis):
    fragment = analysis._repr_html_()
    assert "<details><summary>Operators</summary>" in fragment
    assert fragment.index("Parameters") < fragment.index("<details>")


def test_every_record_with_a_view_is_shown_and_no_other():
    """What Python returns: the names of the table are those of the classes."""
    for module in ("bench.sweep", "compare.records"):
        importlib.import_module(f"edgeopt.commands.{module}")
    importlib.import_module("edgeopt.measure.workloads.records")
    assert {each.__name__ for each in _below(NotebookRecord)} - {"WorkloadReport", "ComparedReport"} == {
        name for name, _ in VIEWS
    }
    assert all(callable(getattr(importlib.import_module(place.partition(":")[0]), place.partition(":")[2]))
               for _, place in VIEWS)  # fmt: skip


def _below(kind):
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def test_records_load_no_view_before_one_is_shown():
    program = (
        "import sys, edgeopt, edgeopt.hw.device, edgeopt.pipeline.outcome, edgeopt.graph.analysis; "
        "print([m for m in sys.modules if m.startswith(('edgeopt.views', 'edgeopt.cli'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
