"""The board: a real search's events in, the story that its outcome tells out."""

import msgspec
import pytest

from edgeopt import events
from edgeopt_gui.pages.optimize.board import Board, Row, axis
from edgeopt_gui.widgets.speed_axis import place_on


def heard(recorded):
    board = Board()
    for event in recorded:
        board.hear(event)
    return board


def test_the_rows_tell_what_the_outcome_tells(recorded, result):
    told, finished = heard(recorded), Board()
    finished.finish(result)
    measured = {report.candidate.name for report in result.candidates}
    assert set(told.rows) == measured
    assert measured <= set(finished.rows)
    for name in measured:
        assert told.rows[name].name == finished.rows[name].name
        assert told.rows[name].accuracy_db == finished.rows[name].accuracy_db


def test_one_row_leads_in_the_end(result):
    board = Board()
    board.finish(result)
    leaders = [row.name for row in board.rows.values() if row.leads]
    assert leaders == [result.winner.name]


def test_the_one_that_was_picked_leads(result):
    board = Board()
    board.finish(msgspec.structs.replace(result, verdict="picked"))
    row = board.rows[result.winner.name]
    assert row.outcome == ("★ your model, kept" if result.kept else "★ picked")
    assert row.leads


def test_over_a_limit_is_said_in_short_and_in_full():
    (row,) = Board().hear(events.Standing("a", "over a limit", "it takes 90 MiB of memory; the limit is 70"))
    assert row.short == "▲ over a limit"
    assert row.outcome == "▲ over a limit: it takes 90 MiB of memory; the limit is 70"


def test_a_variant_that_could_not_be_made_says_why(result):
    board = Board()
    board.finish(result)
    row = board.rows["lowered"]
    # On a busy machine it may not even have been begun in time.
    (reason,) = (variant.failure for variant in result.variants if variant.name == "lowered")
    assert row.outcome == f"not made: {reason.replace('--time-limit', 'time limit')}"
    assert row.outcome.startswith(row.short)
    assert row.out


def test_the_furthest_phase_counts(recorded):
    board = heard(recorded)
    assert board.place == 6
    board.hear(events.Progress("making variants"))
    assert board.place == 6
    assert board.progress is not None
    assert board.progress.phase == "making variants"


def test_warnings_are_kept():
    board = Board()
    board.hear(events.Log("warning", "No data was given."))
    board.hear(events.Log("info", "of no interest"))
    assert board.warnings == ["No data was given."]


def test_a_later_standing_keeps_what_it_does_not_say():
    board = Board()
    board.hear(events.Standing("a", "racing", accuracy_db=40.0))
    board.hear(events.Standing("a", "racing", latency_ms=2.0, speedup=1.5, speedup_low=1.4, speedup_high=1.6))
    (row,) = board.hear(events.Standing("a", "lost", "30 % slower than b", of_best=0.7))
    assert row == Row("a", "lost", "30 % slower than b", 2.0, 1.5, 1.4, 1.6, 40.0, of_best=0.7)
    assert row.outcome == "30 % slower than b"
    assert row.short == "30 % slower"


def test_the_best_is_in_the_race_and_faster_than_the_model():
    board = Board()
    board.hear(events.Standing("source", "racing", speedup=1.0))
    assert board.best is None
    board.hear(events.Standing("quick", "racing", speedup=2.0))
    board.hear(events.Standing("wrong", "below the floor", "12 dB", speedup=9.0))
    assert board.best is not None
    assert board.best.name == "quick"


@pytest.mark.parametrize("speeds", [[], [1.0], [0.2, 5.0], [100.0], [0.001]])
def test_the_axis_holds_every_middle_and_the_model(speeds):
    rows = [Row(str(k), "racing", speedup=speed) for k, speed in enumerate(speeds)]
    low, high = axis(rows)
    assert low < 1.0 < high
    for speed in speeds:
        assert 0 < place_on((low, high), speed) < 1


def test_twice_and_half_are_equally_far_from_one():
    span = (0.25, 4.0)
    assert place_on(span, 1.0) == pytest.approx(0.5)
    assert place_on(span, 2.0) - 0.5 == pytest.approx(0.5 - place_on(span, 0.5))
    assert (place_on(span, 99.0), place_on(span, 0.0)) == (1.0, 0.0)


def test_an_interval_goes_with_the_speed_that_it_was_measured_with():
    board = Board()
    board.hear(events.Standing("a", "racing", speedup=2.8, speedup_low=2.6, speedup_high=3.0))
    (row,) = board.hear(events.Standing("a", "racing", speedup=4.1))
    assert (row.speedup, row.low, row.high) == (4.1, None, None)


@pytest.mark.parametrize(
    ("status", "word"), [("baseline", "your model"), ("winner", "★ winner"), ("failed", "✕ failed: it crashed")]
)
def test_only_who_lost_is_told_by_a_share_of_the_best(status, word):
    row = Row("a", status, "it crashed" if status == "failed" else "", of_best=0.52)
    assert row.short == word
    assert Row("a", "lost", "48 % slower than b", of_best=0.52).short == "48 % slower"


def test_what_cannot_be_told_apart_is_tied():
    assert Row("a", "lost", "tied with b", of_best=0.99).short == "tied"
    assert Row("a", "lost", "4 % slower than b", of_best=0.96).short == "4 % slower"


def test_a_row_says_screening_until_it_races_and_leading_while_nothing_is_proved():
    board = Board()
    (row,) = board.hear(events.Standing("a", "racing", accuracy_db=40.0))
    assert row.short == "▸ screening"
    (row,) = board.hear(events.Standing("a", "racing", speedup=2.0))
    assert row.short == "▸ leading, not proved"
    first, second = board.hear(events.Standing("b", "racing", speedup=3.0))
    assert (first.name, first.short) == ("b", "▸ leading, not proved")
    assert (second.name, second.short) == ("a", "▸ racing")


def test_the_source_is_as_fast_as_itself_while_it_races(recorded):
    board = Board()
    board.hear(events.Standing("source · onnxruntime-cpu", "racing"))
    (row,) = board.hear(events.Standing("source · onnxruntime-cpu", "racing", speedup=1.09, speedup_low=0.9))
    assert (row.speedup, row.low) == (1.0, None)


def test_the_source_is_as_fast_as_itself_in_the_end(won):
    board = Board()
    board.finish(won)
    row = board.rows[won.baseline.name]
    assert (row.speedup, row.proved, row.interval) == (1.0, False, (None, 1.0, None))
    assert row.latency_ms == won.proof.baseline_ms
    assert row.memory_bytes == won.source_peak


def test_the_row_of_the_winner_has_the_proved_figures(won):
    board = Board()
    board.finish(won)
    row = board.rows[won.winner.name]
    assert (row.proved, row.interval) == (True, (2.5, 3.04, 3.5))
    assert won.proof.baseline_ms / row.latency_ms == pytest.approx(3.04)
    assert row.memory_bytes == won.proof.peak_bytes


def test_who_was_screened_stays_after_a_cancel():
    board = Board()
    board.hear(events.Standing("source · x", "racing", speedup=1.0))
    board.hear(events.Standing("a", "racing", accuracy_db=40.0))
    board.hear(events.Standing("b", "racing", speedup=2.0))
    board.cancel()
    assert [row.short for row in board.rows.values()] == [
        "cancelled: while it raced",
        "cancelled: after screening",
        "cancelled: while it raced",
    ]
    assert not any(row.leading for row in board.rows.values())


def test_the_winner_says_why_it_won_over_one_that_looked_faster(won):
    board = Board()
    board.finish(won)
    assert board.rows[won.winner.name].outcome == (
        "★ winner: proved 3.04x; other · onnxruntime-cpu had 3.20x in the race, but was rejected: "
        "measured again from the written bundle: no difference seen"
    )
