"""The board: a real search's events in, the story that its outcome tells out."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QStyleOptionViewItem

from edgeopt import events
from edgeopt.measure.messages import Memory
from edgeopt_gui.pages.optimize.board import Board, Row, axis
from edgeopt_gui.pages.optimize.candidates import COLUMNS, Candidates
from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.interval_bar import IntervalBar
from edgeopt_gui.pages.optimize.run import Order, Run
from edgeopt_gui.pages.optimize.standing import Standing
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.speed_axis import place_on, span_around, ticks

MEMORY = Memory(peak_bytes=70 << 20, added_bytes=20 << 20)


def heard(recorded):
    board = Board()
    for event in recorded:
        board.apply(event)
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


def test_the_one_that_was_picked_leads(result):
    board = Board()
    board.finish(msgspec.structs.replace(result, verdict="picked"))
    row = board.rows[result.winner.name]
    assert row.outcome == ("★ your model, kept" if result.winner == result.baseline else "★ picked")
    assert row.leads


def test_verdict_of_a_proof_fits_into_its_cell(won):
    """Its cell said "out: measured again fro…"."""
    board = Board()
    changed = [
        msgspec.structs.replace(each, proof_verdict="too noisy to tell") if each.status == "lost" else each
        for each in won.candidates
    ]
    board.finish(msgspec.structs.replace(won, candidates=tuple(changed)))
    other = next(row for row in board.rows.values() if row.name.startswith("other"))
    assert other.short == "proof: too noisy to tell"
    assert other.outcome == "out: measured again from the written bundle: no difference seen"
    (winner,) = [row for row in board.rows.values() if row.leads]
    assert winner.short == "★ winner"
    assert "looked faster in the race" in winner.outcome


def test_over_a_limit_is_said_in_short_and_in_full():
    (row,) = Board().apply(events.Standing("a", "over a limit", "it takes 90 MiB of memory; the limit is 70"))
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
    board.apply(events.Progress("making variants"))
    assert board.place == 6
    assert board.progress is not None
    assert board.progress.phase == "making variants"


def test_warnings_are_kept():
    board = Board()
    board.apply(events.Log("warning", "No data was given."))
    board.apply(events.Log("info", "of no interest"))
    assert board.warnings == ["No data was given."]


def test_a_later_standing_keeps_what_it_does_not_say():
    board = Board()
    board.apply(events.Standing("a", "racing", accuracy_db=40.0))
    board.apply(events.Standing("a", "racing", latency_ms=2.0, speedup=1.5, speedup_low=1.4, speedup_high=1.6))
    (row,) = board.apply(events.Standing("a", "lost", "43 % slower than b", of_best=0.7))
    assert row == Row("a", "lost", "43 % slower than b", 2.0, 1.5, 1.4, 1.6, 40.0, of_best=0.7)
    assert row.outcome == "43 % slower than b"
    assert row.short == "43 % slower than the best"


def test_the_best_is_in_the_race_and_faster_than_the_model():
    board = Board()
    board.apply(events.Standing("source", "racing", speedup=1.0))
    assert board.best is None
    board.apply(events.Standing("quick", "racing", speedup=2.0))
    board.apply(events.Standing("wrong", "below the floor", "12 dB", speedup=9.0))
    assert board.best is not None
    assert board.best.name == "quick"


@pytest.mark.parametrize("speeds", [[], [1.0], [0.2, 5.0], [100.0], [0.001]])
def test_the_axis_holds_every_middle_and_the_model(speeds):
    rows = [Row(str(k), "racing", speedup=speed) for k, speed in enumerate(speeds)]
    low, high = axis(rows)
    assert low < 1.0 < high
    for speed in speeds:
        assert 0 < place_on((low, high), speed) < 1


@pytest.mark.parametrize("end", [(0.9, 1.3, 4.0), (0.2, 1.0, 1.1)])
def test_the_bar_of_an_interval_is_not_cut_by_the_axis(end):
    low, middle, high = end
    span = axis([Row("a", "racing", speedup=middle, low=low, high=high)])
    assert place_on(span, high) < 1
    assert place_on(span, low) > 0


def test_a_far_end_does_not_squeeze_the_axis():
    assert axis([Row("a", "racing", speedup=1.0, low=0.9, high=900.0)])[1] < 10


def test_twice_and_half_are_equally_far_from_one():
    span = (0.25, 4.0)
    assert place_on(span, 1.0) == pytest.approx(0.5)
    assert place_on(span, 2.0) - 0.5 == pytest.approx(0.5 - place_on(span, 0.5))
    assert (place_on(span, 99.0), place_on(span, 0.0)) == (1.0, 0.0)


def test_an_interval_goes_with_the_speed_that_it_was_measured_with():
    board = Board()
    board.apply(events.Standing("a", "racing", speedup=2.8, speedup_low=2.6, speedup_high=3.0))
    (row,) = board.apply(events.Standing("a", "racing", speedup=4.1))
    assert (row.speedup, row.low, row.high) == (4.1, None, None)


@pytest.mark.parametrize(
    ("status", "word"), [("baseline", "your model"), ("winner", "★ winner"), ("failed", "✕ failed: it crashed")]
)
def test_only_who_lost_is_told_by_a_share_of_the_best(status, word):
    row = Row("a", status, "it crashed" if status == "failed" else "", of_best=0.52)
    assert row.short == word
    assert Row("a", "lost", "1.9x the latency of b", of_best=0.52).short == "1.9x the latency of the best"


def test_what_cannot_be_told_apart_is_tied():
    assert Row("a", "lost", "tied with b", of_best=0.99).short == "tied with the best"
    row = Row("a", "lost", "4 % slower than b", of_best=0.96, against="the winner")
    assert row.short == "4 % slower than the winner"


def test_a_row_says_screening_until_it_races_and_leading_while_nothing_is_proved():
    board = Board()
    (row,) = board.apply(events.Standing("a", "racing", accuracy_db=40.0))
    assert row.short == "▸ screening"
    (row,) = board.apply(events.Standing("a", "racing", speedup=2.0))
    assert row.short == "▸ leading, not proved"
    first, second = board.apply(events.Standing("b", "racing", speedup=3.0))
    assert (first.name, first.short) == ("b", "▸ leading, not proved")
    assert (second.name, second.short) == ("a", "▸ racing")


def test_the_source_is_as_fast_as_itself_while_it_races(recorded):
    board = Board()
    board.apply(events.Standing("source · onnxruntime-cpu", "racing"))
    (row,) = board.apply(events.Standing("source · onnxruntime-cpu", "racing", speedup=1.09, speedup_low=0.9))
    assert (row.speedup, row.low) == (1.0, None)


def test_the_source_is_as_fast_as_itself_in_the_end(won):
    board = Board()
    board.finish(won)
    row = board.rows[won.baseline.name]
    assert (row.speedup, row.proved, row.interval) == (1.0, False, (None, 1.0, None))
    assert row.latency_ms == won.proof.baseline_ms
    assert row.memory == won.proof.baseline_memory


def test_who_was_screened_stays_after_a_cancel():
    board = Board()
    board.apply(events.Standing("source · x", "racing", speedup=1.0))
    board.apply(events.Standing("a", "racing", accuracy_db=40.0))
    board.apply(events.Standing("b", "racing", speedup=2.0))
    board.cancel()
    assert [row.short for row in board.rows.values()] == [
        "cancelled: while it raced",
        "cancelled: after screening",
        "cancelled: while it raced",
    ]
    assert not any(row.leading for row in board.rows.values())


@pytest.fixture
def shown(qtbot, context):
    widget = Candidates()
    qtbot.addWidget(widget)
    widget.resize(900, 400)
    widget.show()
    qtbot.waitExposed(widget)
    return widget


def names(widget):
    return [row.name for row in widget.records.shown]


def test_a_recorded_race_keeps_the_model_in_order(shown, recorded):
    tester = QAbstractItemModelTester(shown.records, QAbstractItemModelTester.FailureReportingMode.Fatal, shown)
    board = Board()
    for event in recorded:
        shown.put(list(board.apply(event)))
    speeds = [row.speedup for row in shown.records.shown if row.speedup is not None and not row.leads]
    assert speeds == sorted(speeds, reverse=True)
    assert len(shown.records.shown) == len(board.rows)
    assert tester.model() is shown.records


def test_the_fastest_stands_first_as_it_changes(shown):
    shown.put([Row("a", "racing", speedup=1.5), Row("b", "racing"), Row("c", "racing", speedup=1.2)])
    assert names(shown) == ["a", "c", "b"]
    shown.put([Row("b", "racing", speedup=3.0)])
    assert names(shown) == ["b", "a", "c"]


def test_the_row_under_the_cursor_is_told_in_full(shown):
    reason = "0.30 of the speed of something with a very long name that no column could hold"
    shown.put([Row("a", "racing"), Row("b", "lost", reason)])
    shown.table.pick("b")
    assert reason in shown._details.text()
    shown.put([Row("b", "winner", speedup=2.0)])
    assert "winner" in shown._details.text()


def test_what_can_be_delivered_instead_says_what_is_traded(qtbot, shown):
    shown.put([Row("a", "winner"), Row("b", "lost", trade="Instead of the winner: 0.90x the speed.")])
    shown.table.pick("a")
    assert not shown._deliver.isVisible()
    with qtbot.waitSignal(shown.picked):
        shown.table.pick("b")
    assert "0.90x the speed" in shown._details.text()
    assert shown._deliver.isVisible()


TOKENS = events.TokenFigures(0.0123, 0.009, 0.016, 0.956, 0.94, 0.97)


@pytest.mark.parametrize(
    ("chosen", "title", "text"),
    [
        ("latency", "Tokens/s", "40.0"),
        ("tokens-per-second", "Tokens/s", "40.0"),
        ("first-token", "First token", "25.0 ms"),
    ],
)
def test_a_decoder_is_shown_by_its_tokens(shown, chosen, title, text):
    order = Order(Path("m.onnx"), None, None, Choices(objective=chosen))
    run = Run(Path("m.onnx"), Path("b"), None, None, order=order)
    shown.call_time(run.objective)
    assert shown.records.headerData(5, Qt.Orientation.Horizontal) == "Latency"
    shown.put(
        list(run.board.apply(events.Standing("a", "racing", latency_ms=25.0, accuracy_db=30.0, tokens=TOKENS)))
    )
    # The last standing of a candidate that failed has no figures.
    shown.put(list(run.board.apply(events.Standing("a", "racing", speedup=2.0, accuracy_db=30.0))))
    shown.call_time(run.objective)
    assert shown.records.headerData(5, Qt.Orientation.Horizontal) == title
    cells = [shown.records.index(0, place).data() for place in (4, 5)]
    assert cells == ["KL 0.012, 95.6 %", text]
    shown.table.pick("a")
    assert "KL 0.012 [0.009 0.016], top-1 95.6 % [94 97]" in shown._details.text()
    standing = Standing()
    standing.set(run.board, cancelling=False, objective=run.objective)
    assert "accuracy KL 0.012, 95.6 %" in standing.detail.text()
    assert ("40.0 tokens/s" if title == "Tokens/s" else "25.0 ms") in standing.detail.text()


def test_the_front_can_be_shown_alone(shown):
    board = Board()
    board.rows = {name: Row(name, "lost", front=name != "b") for name in "abc"}
    shown.show_board(board)
    assert shown.only_front.text() == "Pareto front only (2)"
    shown.only_front.click()
    assert names(shown) == ["a", "c"]
    shown.show_board(Board())
    assert not shown.only_front.isVisible()


def test_another_board_replaces_the_rows(shown):
    shown.put([Row("old", "racing")])
    board = Board()
    board.apply(events.Standing("new", "racing"))
    shown.show_board(board)
    assert names(shown) == ["new"]


def test_what_has_no_room_is_told_below(shown):
    row = Row("a", "lost", "slower", speedup=1.5, low=1.4, high=1.6, size_bytes=90 << 10, memory=MEMORY)
    shown.put([row])
    shown.resize(1200, 300)
    shown.table.pick("a")
    assert "70" not in shown._details.text()
    shown.resize(600, 300)
    shown.put([row])
    assert "Memory added 20 MiB, Size 90 KiB" in shown._details.text()


def test_memory_and_size_have_room_in_a_window_of_1280(shown):
    row = Row("cleaned · openvino-cpu · precision=bf16", "lost", "slower", speedup=1.5, memory=MEMORY)
    shown.put([row])
    shown.resize(880, 300)  # what the settings and the rail leave
    assert [column.title for place, column in enumerate(COLUMNS) if shown.table.isColumnHidden(place)] == []
    assert not shown.table.horizontalScrollBar().isVisible()


def test_names_and_outcomes_are_readable_in_a_narrow_window(shown):
    shown.put([Row("cleaned · onnxruntime-cpu · threads=1", "lost", "3 % slower than another", speedup=1.5)])
    shown.resize(800, 300)
    assert not shown.table.horizontalScrollBar().isVisible()
    letter = shown.fontMetrics().averageCharWidth()
    assert shown.table.columnWidth(0) >= letter * 20
    outcome = next(place for place, column in enumerate(COLUMNS) if column.title == "Outcome")
    assert shown.table.columnWidth(outcome) > shown.fontMetrics().horizontalAdvance("3 % slower")
    assert shown.table.columnWidth(2) >= letter * 22


def test_there_is_one_column_of_speeds_and_the_winner_stands_first(shown, won):
    board = Board()
    board.finish(won)
    shown.show_board(board)
    titles = [column.title for column in COLUMNS]
    assert titles == [
        "Candidate", "Speed", "Interval", "Outcome", "Accuracy", "Latency", "Memory added", "Size"
    ]  # fmt: skip
    winner = shown.records.shown[0]
    assert winner.name == won.winner.name
    assert [COLUMNS[place].text_of(winner) for place in (1, 2)] == ["3.04x", "[2.50 3.50], 3.04x in the proof"]
    assert [COLUMNS[place].text_of(winner) for place in (5, 6)] == ["62.2 µs", "20 MiB"]
    assert COLUMNS[6].tip(winner) == "20 MiB (process 67 MiB)"


def test_names_are_whole_where_there_is_room(shown):
    name = "source · openvino-cpu · precision=bf16 · threads=1 · group=128"
    shown.put([Row(name, "winner", speedup=1.5)])
    shown.resize(1400, 300)
    assert shown.table.columnWidth(0) > shown.fontMetrics().horizontalAdvance(name)


def test_why_the_winner_won_is_told_without_a_click(shown, won):
    board = Board()
    board.finish(won)
    shown.show_board(board)
    assert "other · onnxruntime-cpu looked faster in the race (3.20x): measured again" in shown._details.text()


WIDE, HIGH = 216, 24
SPAN = (0.25, 4.0)


def drawn(row):
    model = RecordsModel(COLUMNS, lambda r: r.name)
    model.set_rows([row])
    image = QImage(WIDE, HIGH, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFF)
    bar, option = IntervalBar(), QStyleOptionViewItem()
    bar.span = SPAN
    option.rect = image.rect()
    painter = QPainter(image)
    bar.paint(painter, option, model.index(0, 2))
    painter.end()
    return image


def columns_of(image, colour):
    """The pixels of the middle line that have this colour, about."""
    y = HIGH // 2
    found = [image.pixelColor(x, y) for x in range(WIDE)]
    near = [
        x
        for x, each in enumerate(found)
        if abs(each.red() - colour.red()) + abs(each.green() - colour.green()) + abs(each.blue() - colour.blue())
        < 60
    ]
    return [x / WIDE for x in near]


@pytest.mark.parametrize(
    ("row", "colour"),
    [
        (Row("a", "racing", speedup=2.0, low=1.8, high=2.2), colours.good),
        (Row("a", "lost", speedup=0.5, low=0.4, high=0.6), colours.bad),
        (Row("a", "winner", speedup=1.2, low=1.1, high=1.3, proved=True), colours.good),
    ],
)
def test_the_middle_stands_at_its_place_in_the_colour_of_the_verdict(qapp, context, row, colour):
    places = columns_of(drawn(row), colour())
    assert places
    middle = sum(places) / len(places)
    assert middle == pytest.approx(place_on(SPAN, row.speedup), abs=0.05)


@pytest.mark.parametrize("span", [(0.9, 1.2), (0.5, 2.0), (0.2, 40.0)])
def test_the_axis_has_a_few_ticks_and_1x_among_them(span):
    found = ticks(span)
    assert 1.0 in found
    assert len(found) >= 3
    assert all(span[0] <= tick <= span[1] for tick in found)


@pytest.mark.parametrize("speeds", [[3.5], [2.2], [1.02], [0.3, 8.0], [6.5], [40.0], [2000.0]])
def test_the_whole_axis_has_ticks(speeds):
    span = span_around(speeds)
    places = [0.0, *(place_on(span, tick) for tick in ticks(span)), 1.0]
    assert max(after - before for before, after in pairwise(places)) <= 0.35


def test_without_a_speed_only_the_line_at_1x_is_drawn(qapp, context):
    image = drawn(Row("a", "racing"))
    assert columns_of(image, colours.good()) == []
    assert len({image.pixel(WIDE // 2, y) for y in range(HIGH)} | {image.pixel(3, 3)}) > 1
