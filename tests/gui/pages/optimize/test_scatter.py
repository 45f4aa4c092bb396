"""Speed against accuracy: where the points are, and that they can be clicked."""

import pytest
from PySide6.QtCore import Qt

from edgeopt_gui.pages.optimize.board import Board, Row
from edgeopt_gui.pages.optimize.candidates import Candidates
from edgeopt_gui.pages.optimize.scatter import Scatter, dots

ROWS = (
    Row("fast", "winner", speedup=3.0, accuracy_db=35.0),
    Row("exact", "lost", speedup=1.5, accuracy_db=200.0),
    Row("source", "baseline", speedup=1.0, accuracy_db=200.0),
    Row("unknown", "failed"),
)


@pytest.fixture
def scatter(qtbot, context):
    made = Scatter()
    qtbot.addWidget(made)
    made.resize(500, 300)
    made.show_rows(ROWS, 30.0)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_the_proof_counts_where_there_is_one():
    (dot,) = dots([Row("a", "winner", speedup=3.04, accuracy_db=35.0, proved=True)])
    assert dot.speed == 3.04


def test_faster_is_at_the_right_and_more_accurate_above(scatter):
    assert [dot.name for dot in scatter.dots] == ["source", "exact", "fast"]
    source, exact, fast = map(scatter.place, scatter.dots)
    assert source.x() < exact.x() < fast.x()
    assert source.y() == exact.y() < fast.y()


def test_a_click_picks_the_candidate(qtbot, scatter):
    fast = scatter.dots[-1]
    with qtbot.waitSignal(scatter.clicked) as clicked:
        qtbot.mouseClick(scatter, Qt.MouseButton.LeftButton, pos=scatter.place(fast).toPoint())
    assert clicked.args == ["fast"]
    assert scatter.picked == "fast"


def test_the_arrow_keys_go_from_one_to_the_next(qtbot, scatter):
    for expected in ("source", "exact", "fast", "fast"):
        with qtbot.waitSignal(scatter.clicked) as clicked:
            qtbot.keyClick(scatter, Qt.Key.Key_Right)
        assert clicked.args == [expected]


def test_what_is_clicked_is_picked_in_the_table_whatever_it_shows(qtbot, context):
    table = Candidates()
    qtbot.addWidget(table)
    board = Board()
    board.rows = {name: Row(name, "lost", front=name != "b") for name in "abc"}
    table.show_board(board)
    table.only_front.click()
    table.show_picked("b")
    assert table.table.current.name == "b"
