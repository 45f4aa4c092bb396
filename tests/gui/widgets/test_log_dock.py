"""The log of the window: its lines, and what of them is shown."""

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QMainWindow, QPushButton
from pytestqt.exceptions import capture_exceptions

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.log_lines import MAX_LINES, LogLine
from edgeopt_gui.pages.live.page import ENTRY as LIVE
from edgeopt_gui.widgets.log_dock import LogDock
from edgeopt_gui.widgets.log_model import LogModel

PATIENCE_MS = 60_000


@pytest.fixture
def runner(qapp):
    made = JobRunner()
    yield made
    made.close()


def test_a_job_that_ends_after_the_log_leaves_no_error(qtbot, runner):
    """Two tests ended with an error, because a job told its end to a log that was deleted with its window."""
    window = QMainWindow()
    log = LogDock(runner, window)
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, log)
    job = runner.run(Command("Looking", ("presets",)))
    shiboken6.delete(window)
    with capture_exceptions() as failures:
        qtbot.waitUntil(lambda: job.ending is not None, timeout=PATIENCE_MS)
    assert failures == []


def lines(count, first=0):
    return [LogLine("warning" if k % 10 == 0 else "info", "job", f"line {k}") for k in range(first, first + count)]


@pytest.fixture
def model(qapp):
    made = LogModel()
    QAbstractItemModelTester(made, QAbstractItemModelTester.FailureReportingMode.Fatal)
    return made


def test_the_oldest_lines_fall_off(model):
    model.add(lines(MAX_LINES - 5))
    model.add(lines(10, MAX_LINES - 5))
    assert len(model) == MAX_LINES
    assert model.shown[0].text == "line 5"
    assert model.shown[-1].text == f"line {MAX_LINES + 4}"


def test_it_shows_what_is_asked_for_while_more_comes(model):
    model.add(lines(100))
    model.show_only("LINE 3", ("info",))
    assert [line.text for line in model.shown] == [f"line {k}" for k in range(100) if "3" in str(k) and k % 10]
    model.add([LogLine("info", "job", "line 3 again"), LogLine("error", "job", "line 3 broke")])
    assert model.shown[-1].text == "line 3 again"
    model.add(lines(MAX_LINES))
    assert len(model) == MAX_LINES
    model.clear()
    assert model.rowCount() == 0


def test_a_job_is_told_with_its_command_line_and_its_end(qtbot, open_window, context):
    window = open_window((LIVE,))
    job = context.jobs.run(Command("Naming the passes", ("passes", "--no-such-option")))
    with qtbot.waitSignal(job.ended, timeout=60_000):
        pass
    window.log.flush()
    told = [(line.level, line.text) for line in window.log.model.shown if line.job == "Naming the passes"]
    assert told[0] == ("info", "$ edgeopt passes --no-such-option")
    assert told[-1][0] == "error"
    assert "no-such-option" in told[-1][1]


def test_it_is_filtered_and_copied_by_the_user(qtbot, open_window):
    dock = open_window((LIVE,)).log
    dock.model.clear()
    dock.say("info", "Probing", "all is well")
    dock.say("error", "Probing", "the disk is full")
    dock.flush()
    dock.show()
    dock.levels.setCurrentText("Errors")
    assert [line.text for line in dock.model.shown] == ["the disk is full"]
    dock.filter.setText("well")
    assert dock.model.rowCount() == 0
    dock.filter.clear()
    copy = next(button for button in dock.findChildren(QPushButton) if button.text() == "Copy")
    copy.click()
    assert QGuiApplication.clipboard().text().endswith("error\tProbing\tthe disk is full")


def test_opened_it_shows_the_newest_lines(qtbot, open_window):
    window = open_window((LIVE,))
    for line in lines(300):
        window.log.say(line.level, line.job, line.text)
    window.log.flush()
    window.book["app.log"].shown.trigger()
    bar = window.log._table.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    assert window.book["app.log"].title == "Hide the log"
    window.log.close()
    assert window.book["app.log"].shown.text() == "Show the log"


def test_who_reads_further_up_is_left_there(qtbot, open_window):
    window = open_window((LIVE,))
    window.toggle_log()
    bar = window.log._table.verticalScrollBar()
    window.log.model.add(lines(300))
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    bar.setValue(40)
    window.log.model.add(lines(50))
    assert bar.value() == 40
    bar.setValue(bar.maximum())
    window.log.model.add(lines(50))
    assert bar.value() == bar.maximum()
