"""One winner, one set of figures, wherever they are shown or kept.

The terminal, `--json`, the events on the way, the report in each form, `evidence.json`, `deployment.toml`, and the
pages Optimize, Model and Compare.
"""

import io
import json
import shutil
from html import unescape
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from edgeopt import events, units
from edgeopt.bundle.deployment import FILE, read_deployment, to_toml
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.plan import evidence_of
from edgeopt.commands.analyze.analyze import analyze
from edgeopt.commands.compare.compare import compare
from edgeopt.commands.compare.request import ModelCompareRequest
from edgeopt.commands.report.report import gather, written
from edgeopt.graph.accuracy import agreement, decibels
from edgeopt.measure.report import SideReport
from edgeopt.measure.stats import Interval
from edgeopt.pipeline.prove.report import evidence_for
from edgeopt.pipeline.screen import final
from edgeopt.views import words as said
from edgeopt.views.outcome import show
from edgeopt.views.terminal import write
from edgeopt_gui.pages.compare.rows import memory_rows, size_rows
from edgeopt_gui.pages.model import words
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.result import comparison, read_result
from edgeopt_gui.pages.optimize.verdict import Verdict
from tests.gui.pages.optimize.conftest import as_won


@pytest.fixture(scope="module", params=["as searched", "as won"])
def winner(request, recorded, tmp_path_factory):
    """A real search, which is too short to prove much; and what it would be if another candidate had won."""
    found = read_result(recorded[-1].data)
    if request.param == "as searched":
        return found
    bundle = shutil.copytree(found.bundle, tmp_path_factory.mktemp("won") / "conv.edgeopt")
    winner = msgspec.structs.replace(as_won(found), bundle=str(bundle))
    (bundle / FILE).write_text(
        to_toml(
            msgspec.structs.replace(
                read_deployment(bundle / FILE), evidence=evidence_for(winner), summary=winner.summary
            )
        )
    )
    (bundle / "evidence.json").write_bytes(msgspec.json.encode(winner))
    write_manifest(bundle)
    return winner


@pytest.fixture(scope="module")
def figures(winner):
    """As everybody is to show them."""
    proof = winner.proof
    row = next(each for each in winner.candidates if each.candidate == winner.winner)
    return {
        "speed": str(proof.speedup),
        "latency": units.milliseconds(proof.latency_ms),
        "baseline": units.milliseconds(proof.baseline_ms),
        "accuracy": decibels(proof.accuracy_db),
        "memory": said.memory(proof.memory),
        "size": units.size(row.size_bytes),
        "samples": f"{proof.samples} samples",
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
    assert f"{evidence.samples} samples" == figures["samples"]


def test_evidence_of_the_bundle_is_the_outcome(winner, figures):
    proof = json.loads((Path(winner.bundle) / "evidence.json").read_bytes())["proof"]
    told = json.loads(msgspec.json.encode(winner))["proof"]
    for name in ("speedup", "latency_ms", "baseline_ms", "accuracy_db", "samples", "memory", "baseline_memory"):
        assert proof[name] == told[name], name
    assert str(Interval(**proof["speedup"])) == figures["speed"]


def test_last_event_of_the_winner_has_its_figures(recorded, winner, figures):
    name = winner.winner.name
    told = [event for event in recorded if isinstance(event, events.Standing) and event.candidate == name]
    row = next(each for each in winner.candidates if each.candidate == winner.winner)
    last = told[-1] if told and winner.verdict != "faster" else final(row)
    assert last.latency_ms == row.latency_ms
    assert decibels(last.accuracy_db) == figures["accuracy"]
    if is_measured(winner):
        speed = Interval(last.speedup, last.speedup_low, last.speedup_high, winner.proof.speedup.rounds)
        assert str(speed) == figures["speed"]


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
    assert figures["memory"] in row
    assert figures["samples"] in flat
    if is_measured(winner):
        assert figures["speed"] in flat
        assert figures["latency"] in flat
        assert figures["baseline"] in flat


@pytest.mark.parametrize("form", ["html", "md"])
def test_the_report_says_the_figures(form, winner, figures, reported):
    text = unescape(reported[form]).replace("\\", "")
    wanted = ["latency", "baseline", "accuracy", "memory"]
    assert [name for name in wanted if figures[name] not in text] == []
    assert f"{winner.proof.samples} " in text[text.index("Accuracy") :]
    if is_measured(winner):
        speed, interval = figures["speed"].split(" ", 1)
        assert speed in text
        assert interval in text


def test_the_report_as_json_has_the_figures_of_the_search_as_json(winner, reported):
    report, searched = json.loads(reported["json"]), json.loads(msgspec.json.encode(winner))
    proof = searched["proof"]
    assert report["speed"]["ratio"]["median"] == proof["speedup"]["median"] == winner.proof.speedup.median
    assert report["speed"]["result"]["latency_ms"] == proof["latency_ms"]
    assert report["speed"]["baseline"]["latency_ms"] == proof["baseline_ms"]
    assert report["speed"]["result"]["memory"] == proof["memory"]
    assert report["accuracy"]["snr_db"] == proof["accuracy_db"]
    assert report["accuracy"]["samples"] == proof["samples"]


def test_the_page_optimize_says_the_figures(qapp, winner, figures):
    rows = {each.what: each.after for each in comparison(winner)}
    assert rows["Latency"] == figures["baseline" if winner.winner == winner.baseline else "latency"]
    assert rows[said.MEMORY] in figures["memory"]
    expected = "the same outputs" if figures["accuracy"] == "equal" else figures["accuracy"]
    assert rows["Accuracy"] == expected
    verdict = Verdict()
    verdict.set(winner)
    assert agreement(winner.proof.accuracy_db) in verdict.proof.text()
    assert figures["samples"] in verdict.proof.text()
    if is_measured(winner):
        assert figures["speed"] in verdict.proof.text()
    board = Board()
    board.finish(winner)
    row = next(each for each in board.rows.values() if each.leads)
    assert decibels(row.accuracy_db) == figures["accuracy"]
    assert units.size(row.size_bytes) == figures["size"]
    assert said.milliseconds(row.latency_ms) == rows["Latency"]
    assert said.memory(row.memory) == figures["memory"]
    if is_measured(winner):
        low, middle, high = row.interval
        assert f"{said.ratio(middle)} {said.span(low, high)}" == figures["speed"]


def test_the_page_model_says_the_figures(winner, figures):
    analysis = analyze(Path(winner.bundle), coverage=False, opportunities=False, run=False)
    facts = {fact.name: fact.value for group in words.summary(analysis) for fact in group.facts}
    assert facts["Proof"].startswith(f"{figures['speed']}, {figures['accuracy']}")
    assert facts["Result"] == winner.summary
    if winner.verdict != "faster":  # the planted winner has the files of the other
        assert facts["Size"].startswith(figures["size"])


def test_the_page_compare_says_the_size_and_the_floor(winner, figures, conv_model, conv_data):
    found = compare(ModelCompareRequest(conv_model, Path(winner.bundle), data=conv_data))
    size = next(row for row in size_rows(found) if row.what == "file size")
    if winner.verdict != "faster":
        assert size.second_text == figures["size"]
    assert found.floor_db == winner.floor_db


def test_the_page_compare_writes_memory_as_all_others_do(winner, figures):
    sides = [
        SideReport(name, name, "bundle", memory=memory)
        for name, memory in (("a", winner.proof.baseline_memory), ("b", winner.proof.memory))
    ]
    rows = {row.what.partition(":")[0]: row.second_text for row in memory_rows(*sides)}
    assert f"{rows['added']} (process {rows['peak of the process']})" == figures["memory"]


def test_no_place_shows_a_ratio_without_a_usable_interval(won):
    """A candidate had "333.17x" beside "no usable interval"."""
    wide = Interval(333.17, 0.1, 2.8e13, 2)
    lost = next(each for each in won.candidates if each.status == "lost" and each.candidate != won.baseline)
    rows = [
        msgspec.structs.replace(each, speedup=wide, proved=False, reason="") if each is lost else each
        for each in won.candidates
    ]
    noisy = msgspec.structs.replace(won, candidates=tuple(rows))
    text = io.StringIO()
    write(show(noisy), Console(file=text, width=300))
    assert "333" not in text.getvalue()
    board = Board()
    board.finish(noisy)
    assert board.rows[lost.candidate.name].interval == (None, None, None)
    assert final(rows[list(won.candidates).index(lost)]).speedup is None
