"""Whether it is a good moment to measure: what lasts is said, and what passes is not."""

import pytest
from PySide6.QtCore import QThreadPool

from edgeopt_gui import quiet
from edgeopt_gui.quiet import QuietWatch

BUSY = ("Other processes took 63 % of the cores.",)


@pytest.fixture
def watch(qapp, monkeypatch):
    monkeypatch.setattr(quiet, "INTERVAL_MS", 20)
    made = QuietWatch()
    yield made
    made.stop()
    QThreadPool.globalInstance().waitForDone()


def test_a_passing_moment_is_not_worth_a_word(watch):
    for bad in (BUSY, (), BUSY, ()):
        watch.take(bad)
        assert watch.problem == ""
        assert not watch.quiet


def test_a_load_that_lasts_is_said_until_it_has_gone(watch):
    watch.take(BUSY)
    watch.take(BUSY)
    assert watch.problem == BUSY[0]
    watch.take(())
    assert (watch.problem, watch.quiet) == (BUSY[0], False)
    watch.take(())
    assert (watch.problem, watch.quiet) == ("", True)


def test_the_engine_looks_while_somebody_wants_to_know(qtbot, watch, monkeypatch):
    looks = []
    monkeypatch.setattr(watch, "take", looks.append)
    watch.start()
    qtbot.waitUntil(lambda: len(looks) >= 2)
    watch.stop()
    QThreadPool.globalInstance().waitForDone()
    before = len(looks)
    with qtbot.assertNotEmitted(watch.changed, wait=100):
        pass
    assert len(looks) == before
