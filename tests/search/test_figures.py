"""One search has one set of figures, in every view of it."""

import io

import msgspec
import pytest
from rich.console import Console

from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.cli.optimize import show
from edgeopt.commands.cost.cost import of_bundle
from edgeopt.commands.cost.figures import times as speedup_words
from edgeopt.commands.documents.terminal import write
from edgeopt.commands.report.report import gather, written
from edgeopt.events import ignore
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.result import comparison, headline, read_result
from edgeopt_gui.pages.optimize.words import milliseconds, times


@pytest.fixture(params=["with_data", "nothing_wins"])
def found(request):
    return request.getfixturevalue(request.param)


def test_report_terminal_cost_and_bundle_have_the_figures_of_the_outcome(found):
    outcome, proof = found.outcome, found.outcome.proof
    facts, evidence = gather(found.out, nodes=False), read_bundle(found.out).deployment.evidence
    assert (facts.speed.ratio, facts.speed.result.latency_ms) == (proof.speedup, proof.latency_ms)
    assert evidence.speedup == pytest.approx(proof.speedup.median, rel=1e-3)
    assert evidence.latency_ms == pytest.approx(proof.latency_ms, rel=1e-3)
    assert of_bundle(found.out).speedup.value == evidence.speedup
    assert proof.baseline_ms / proof.latency_ms == pytest.approx(proof.speedup.median)
    points = {point.name: point for point in facts.points}
    for report in outcome.candidates:
        point = points[report.candidate.name]
        assert point.ratio == report.speedup
        assert point.time_ms == pytest.approx(report.latency_ms)
        if report.speedup is not None:
            assert report.latency_ms == pytest.approx(proof.baseline_ms / report.speedup.median)


def test_the_winner_of_the_table_is_the_bundle_that_was_proved(found):
    outcome, proof = found.outcome, found.outcome.proof
    (winner,) = [each for each in outcome.candidates if each.status == "winner"]
    assert winner.candidate == outcome.winner
    assert (winner.speedup, winner.latency_ms, winner.memory) == (proof.speedup, proof.latency_ms, proof.memory)
    assert winner.accuracy_db == proof.accuracy_db
    text = io.StringIO()
    write(show(outcome), Console(file=text, width=250))
    first = next(line for line in text.getvalue().splitlines() if line.lstrip().startswith("1"))
    assert (str(proof.speedup) if winner.proved else "1.00x") in first


def test_the_app_shows_the_same(found):
    outcome, proof = found.outcome, found.outcome.proof
    result, board = read_result(msgspec.json.decode(msgspec.json.encode(outcome))), Board()
    board.finish(result)
    for report in outcome.candidates:
        row = board.rows[report.candidate.name]
        assert row.speedup == (report.speedup.median if report.speedup else None)
        assert row.latency_ms == pytest.approx(report.latency_ms)
    if not result.kept:
        assert times(proof.speedup.median) in headline(result)
        assert comparison(result)[0].after == milliseconds(proof.latency_ms)


def test_a_bundle_of_the_source_is_called_unchanged_and_nowhere_faster(nothing_wins):
    """A report once said "Faster" under "Undecided": of the model against itself."""
    text = written(gather(nothing_wins.out, nodes=False), "markdown")
    assert "The bundle runs the source model unchanged, so there is nothing to compare." in text
    assert "Faster:" not in text
    assert "interleaved rounds" not in text
    assert "The bundle runs the source model unchanged" in check(nothing_wins.out, ignore).speed_words
    assert speedup_words(of_bundle(nothing_wins.out).speedup) == "1.00x"
