"""The head of a running search."""

from edgeopt import events
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.standing import Standing


def test_the_best_so_far_stands_large_with_its_interval(qtbot, context):
    standing, board = Standing(), Board()
    qtbot.addWidget(standing)
    standing.set(board, cancelling=False)
    assert standing.best.text() == "Nothing faster in the race yet"
    board.hear(events.Progress("racing", done=1, total=9, time_left_s=20))
    board.hear(
        events.Standing(
            "cleaned · x", "racing", latency_ms=0.5, speedup=2.5, speedup_low=2.1, speedup_high=2.9, accuracy_db=40
        )
    )
    standing.set(board, cancelling=False)
    assert standing.best.text() == "2.50x in the race, not proved"
    assert standing.detail.text() == "cleaned · x · between 2.10x and 2.90x · 500 µs · accuracy 40.0 dB"
    assert "round 1 of 9" in standing.line.text()


def test_a_search_that_is_being_cancelled_says_so(qtbot, context):
    standing = Standing()
    qtbot.addWidget(standing)
    standing.set(Board(), cancelling=True)
    assert standing.line.text().startswith("Stopping")
