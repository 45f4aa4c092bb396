import gc
import threading

import pytest

from edgeopt_gui.garbage import GarbageTimer

ENDED_IN = []


class Knot:
    """Refers to itself, so that only the collector can end it; says in which thread that was."""

    def __init__(self):
        self.me = self

    def __del__(self):
        ENDED_IN.append(threading.get_ident())


@pytest.fixture
def timer(qapp):
    timer = GarbageTimer()
    yield timer
    timer.deleteLater()
    qapp.sendPostedEvents(timer, 0)
    qapp.processEvents()


def make_knots():
    for _ in range(5000):
        Knot()


def test_what_another_thread_leaves_ends_in_the_thread_of_the_window(qtbot, timer):
    gc.collect()
    ENDED_IN.clear()
    worker = threading.Thread(target=make_knots)
    worker.start()
    worker.join()
    assert ENDED_IN == []
    qtbot.waitUntil(lambda: len(ENDED_IN) == 5000, timeout=60_000)
    assert set(ENDED_IN) == {threading.get_ident()}


def test_the_interpreter_collects_again_when_the_app_is_gone(qtbot, qapp):
    timer = GarbageTimer()
    assert not gc.isenabled()
    assert gc.get_freeze_count()
    with qtbot.waitSignal(timer.destroyed):
        timer.deleteLater()
    assert gc.isenabled()
    assert not gc.get_freeze_count()
