"""Work beside the GUI's thread."""

import threading

import pytest

from edgeopt.errors import EdgeoptError
from edgeopt_gui.background import Background


def test_the_answer_comes_on_the_gui_thread(qtbot):
    seen, background = [], Background()
    background.do(threading.get_ident, lambda worker: seen.append((worker, threading.get_ident())))
    qtbot.waitUntil(lambda: bool(seen))
    worker, here = seen[0]
    assert worker != here == threading.get_ident()


def test_a_refusal_is_an_answer(qtbot):
    def refuse():
        raise EdgeoptError("The disk is full.", "Free some space.")

    seen = []
    background = Background()
    background.do(refuse, seen.append)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen[0].message == "The disk is full."


def test_a_bug_is_not_swallowed(qtbot):
    background = Background()
    with qtbot.captureExceptions() as raised:
        background.do(lambda: 1 / 0, pytest.fail)
        qtbot.waitUntil(lambda: bool(raised))
    assert raised[0][0] is ZeroDivisionError
