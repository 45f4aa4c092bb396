"""The table of candidates: sorted by speed, told in full, drawn on one axis."""

import pytest
from PySide6.QtTest import QAbstractItemModelTester

from edgeopt import events
from edgeopt_gui.pages.optimize.board import Board, Row
from edgeopt_gui.pages.optimize.candidates import COLUMNS, Candidates


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
        shown.put(list(board.hear(event)))
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
    board.hear(events.Standing("new", "racing"))
    shown.show_board(board)
    assert names(shown) == ["new"]


def test_what_has_no_room_is_told_below(shown):
    row = Row("a", "lost", "slower", speedup=1.5, low=1.4, high=1.6, memory_bytes=70 << 20, size_bytes=90 << 10)
    shown.put([row])
    shown.resize(1200, 300)
    shown.table.pick("a")
    assert "70" not in shown._details.text()
    shown.resize(600, 300)
    shown.put([row])
    assert "Memory 70 MiB, Size 90 KiB" in shown._details.text()


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
        "Candidate", "Speed", "Interval", "Outcome", "Accuracy", "Latency", "Memory", "Size"
    ]  # fmt: skip
    winner = shown.records.shown[0]
    assert winner.name == won.winner.name
    assert [COLUMNS[place].text_of(winner) for place in (1, 2)] == ["3.04x", "2.50x to 3.50x, 3.04x in the proof"]
    assert COLUMNS[6].text_of(winner) == "67 MiB"


def test_names_are_whole_where_there_is_room(shown):
    name = "source · openvino-cpu · precision=bf16 · threads=1 · group=128"
    shown.put([Row(name, "winner", speedup=1.5)])
    shown.resize(1400, 300)
    assert shown.table.columnWidth(0) > shown.fontMetrics().horizontalAdvance(name)


def test_why_the_winner_won_is_told_without_a_click(shown, won):
    board = Board()
    board.finish(won)
    shown.show_board(board)
    assert "had 3.20x in the race, but was rejected" in shown._details.text()
