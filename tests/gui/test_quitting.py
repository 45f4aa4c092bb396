import psutil
import pytest
from PySide6.QtWidgets import QMessageBox

from edgeopt.data.demo import DATA, MODEL
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.optimize.page import ENTRY as OPTIMIZE

PATIENCE_MS = 60_000


@pytest.fixture
def searching(qtbot, open_window, context, tmp_path):
    """A window while a search runs."""
    window = open_window((OPTIMIZE,))
    out = str(tmp_path / "out.edgeopt")
    job = context.jobs.run(Command("Optimizing", ("optimize", str(MODEL), "--data", str(DATA), "-o", out)))
    with qtbot.waitSignal(job.told, timeout=PATIENCE_MS):
        pass
    return window, job


def question(window):
    return window.findChild(QMessageBox, "quit")


def test_quitting_asks_while_a_search_runs_and_may_be_taken_back(searching):
    window, job = searching
    window.book["app.quit"].shown.trigger()
    box = question(window)
    assert window.isVisible()
    assert "Optimizing" in box.text()
    assert "The search ends without a bundle" in box.informativeText()
    assert "Finished bundles" not in box.informativeText()
    next(b for b in box.buttons() if b.text() == "Stay").click()
    assert window.isVisible()
    assert window.isEnabled()
    assert job.running


def test_quitting_ends_what_runs_and_leaves_nothing_behind(qtbot, searching, tmp_path):
    window, job = searching
    family = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
    window.close()
    next(b for b in question(window).buttons() if "quit" in b.text()).click()
    qtbot.waitUntil(lambda: not window.isVisible(), timeout=60_000)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert list(tmp_path.glob("*.edgeopt")) == []


@pytest.mark.slow
def test_it_is_not_asked_where_the_user_does_not_want_it(qtbot, searching, context):
    window, _ = searching
    context.settings.keep("confirm-quit", False)
    window.close()
    assert question(window) is None
    qtbot.waitUntil(lambda: not window.isVisible(), timeout=60_000)
    assert context.jobs.jobs == ()


@pytest.mark.slow
def test_what_only_reads_is_not_asked_about(qtbot, open_window, context):
    window = open_window((OPTIMIZE,))
    context.jobs.run(Command("Reading", ("analyze", str(MODEL))))
    window.close()
    assert question(window) is None
    qtbot.waitUntil(lambda: not window.isVisible(), timeout=60_000)


def test_a_watch_alone_is_not_asked_about(qtbot, open_window, context):
    window = open_window((OPTIMIZE,))
    context.jobs.run(Command("Watching", ("watch", str(MODEL))))
    window.close()
    assert question(window) is None
    qtbot.waitUntil(lambda: not window.isVisible(), timeout=PATIENCE_MS)


def test_a_watch_beside_a_search_is_not_counted_as_lost(searching, context):
    window, _ = searching
    context.jobs.run(Command("Watching it", ("watch", str(MODEL))))
    window.close()
    assert "Watching" not in question(window).text()
