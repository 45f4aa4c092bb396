"""One winner, one set of figures: the pages, the report in each form, the terminal and `--json` say the same."""

import io
import json
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from edgeopt import units
from edgeopt.bundle.deployment import FILE, read_deployment
from edgeopt.bundle.plan import evidence_of
from edgeopt.commands.analyze.analyze import analyze
from edgeopt.commands.compare.compare import compare
from edgeopt.commands.compare.request import ModelCompareRequest
from edgeopt.commands.report.report import gather, written
from edgeopt.graph.accuracy import agreement, decibels
from edgeopt.measure.stats import Interval
from edgeopt.views import words as said
from edgeopt.views.outcome import show
from edgeopt.views.terminal import write
from edgeopt_gui.pages.compare.rows import size_rows
from edgeopt_gui.pages.model import words
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.result import comparison, read_result
from edgeopt_gui.pages.optimize.verdict import Verdict


@pytest.fixture(scope="module")
def winner(recorded):
    return read_result(recorded[-1].data)


@pytest.fixture(scope="module")
def figures(winner):
    """As everybody is to show them."""
    proof = winner.proof
    size = next(each.size_bytes for each in winner.variants if each.name == winner.winner.variant)
    return {
        "speed": str(proof.speedup),
        "latency": units.milliseconds(proof.latency_ms),
        "baseline": units.milliseconds(proof.baseline_ms),
        "accuracy": decibels(proof.accuracy_db),
        "memory": said.memory(proof.memory),
        "size": units.size(size),
    }


@pytest.fixture(scope="module")
def reported(winner):
    """The report of the bundle as it was written, in every form."""
    facts = gather(Path(winner.bundle), nodes=False)
    return {form: written(facts, form) for form in ("html", "md", "json")}


def is_measured(winner):
    """A bundle that runs the model unchanged has no speed-up to tell."""
    return winner.proof.verdict != "identical"


def test_the_bundle_holds_the_figures_of_the_outcome(winner, figures):
    evidence = read_deployment(Path(winner.bundle) / FILE).evidence
    interval = Interval(evidence.speedup, evidence.speedup_low, evidence.speedup_high, evidence.rounds)
    assert str(interval) == figures["speed"]
    assert units.milliseconds(evidence.latency_ms) == figures["latency"]
    assert units.milliseconds(evidence.baseline_ms) == figures["baseline"]
    assert decibels(evidence.accuracy_db) == figures["accuracy"]


def test_figures_that_end_in_a_five_are_rounded_once():
    """By way of four digits, 1.23496 became 1.235 in the bundle, which is shown as 1.24."""
    ratio = Interval(1.23496, 1.17496, 1.30496, 11)
    evidence = evidence_of(
        "faster", "source", (2.34496, 1.89876), ratio, accuracy_db=40.0, floor_db=30.0, samples=8
    )
    assert str(Interval(evidence.speedup, evidence.speedup_low, evidence.speedup_high, 11)) == str(ratio)
    assert units.milliseconds(evidence.baseline_ms) == "2.34 ms"


def test_the_terminal_says_the_figures(winner, figures):
    text = io.StringIO()
    write(show(winner), Console(file=text, width=300))
    row = next(line for line in text.getvalue().splitlines() if "winner" in line or "the baseline, kept" in line)
    assert figures["size"] in row
    assert figures["accuracy"] in row
    flat = " ".join(text.getvalue().split())
    assert agreement(winner.proof.accuracy_db) in flat
    if is_measured(winner):
        assert figures["speed"] in flat
        assert figures["memory"] in row


@pytest.mark.parametrize("form", ["html", "md"])
def test_the_report_says_the_figures(form, winner, figures, reported):
    text = unescape(reported[form]).replace("\\", "")
    wanted = ["latency", "baseline", "accuracy", "memory", "size"]
    assert [name for name in wanted if figures[name] not in text] == []
    if is_measured(winner):
        speed, interval = figures["speed"].split(" ", 1)
        assert speed in text
        assert interval in text


def test_the_report_as_json_has_the_figures_of_the_search_as_json(recorded, winner, reported):
    report, searched = json.loads(reported["json"]), recorded[-1].data
    proof = searched["proof"]
    assert report["speed"]["ratio"]["median"] == proof["speedup"]["median"] == winner.proof.speedup.median
    assert report["speed"]["result"]["latency_ms"] == proof["latency_ms"]
    assert report["speed"]["baseline"]["latency_ms"] == proof["baseline_ms"]
    assert report["speed"]["result"]["memory"] == proof["memory"]
    assert report["accuracy"]["snr_db"] == proof["accuracy_db"]


def test_the_page_optimize_says_the_figures(qapp, winner, figures):
    rows = {each.what: each.after for each in comparison(winner)}
    assert rows["Latency"] == figures["baseline" if winner.winner == winner.baseline else "latency"]
    assert rows[said.MEMORY] in figures["memory"]
    expected = "the same outputs" if figures["accuracy"] == "equal" else figures["accuracy"]
    assert rows["Accuracy"] == expected
    verdict = Verdict()
    verdict.set(winner)
    assert agreement(winner.proof.accuracy_db) in verdict.proof.text()
    if is_measured(winner):
        assert figures["speed"] in verdict.proof.text()
    board = Board()
    board.finish(winner)
    row = next(each for each in board.rows.values() if each.leads)
    assert decibels(row.accuracy_db) == figures["accuracy"]
    assert units.size(row.size_bytes) == figures["size"]
    assert said.milliseconds(row.latency_ms) == rows["Latency"]


def test_the_page_model_says_the_figures(winner, figures):
    analysis = analyze(Path(winner.bundle), coverage=False, opportunities=False, run=False)
    facts = {fact.name: fact.value for group in words.summary(analysis) for fact in group.facts}
    assert facts["Proof"].startswith(f"{figures['speed']}, {figures['accuracy']}")
    assert facts["Result"] == winner.summary
    assert facts["Size"].startswith(figures["size"])


def test_the_page_compare_says_the_size_and_the_floor(winner, figures, conv_model, conv_data):
    found = compare(ModelCompareRequest(conv_model, Path(winner.bundle), data=conv_data))
    size = next(row for row in size_rows(found) if row.what == "file size")
    assert size.second_text == figures["size"]
    assert found.floor_db == winner.floor_db
