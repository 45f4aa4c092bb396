import os
import signal
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt

from edgeopt.data.demo import DATA, MODEL
from edgeopt.events import Progress
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.widgets.jobs_bar import JobsBar

PATIENCE_MS = 60_000


@pytest.fixture
def runner(qapp):
    made = JobRunner()
    yield made
    made.close()


@pytest.fixture
def bar(qtbot, runner):
    made = JobsBar(runner)
    qtbot.addWidget(made)
    return made


def search(tmp_path, name):
    out = str(tmp_path / f"{name}.edgeopt")
    return Command(f"Optimizing {name}", ("optimize", str(MODEL), "--data", str(DATA), "-o", out))


def test_it_tells_where_the_newest_job_stands_and_cancels_it(qtbot, bar, runner, tmp_path):
    assert not bar.isVisible()
    job = runner.run(search(tmp_path, "a"))
    qtbot.waitUntil(lambda: bar.isVisible() and "·" in bar.label.text(), timeout=PATIENCE_MS)
    assert bar.label.text().startswith("Optimizing a · ")
    assert "edgeopt optimize" in bar.label.toolTip()
    assert not bar.others.isVisible()
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        qtbot.keyClick(bar.cancel, Qt.Key.Key_Space)
        assert bar.label.text() == "Cancelling: Optimizing a"
        assert not bar.cancel.isEnabled()
    assert ended.args[0].how == "cancelled"
    assert not bar.isVisible()


@pytest.mark.slow
def test_others_are_cancelled_by_their_menu(qtbot, bar, runner, tmp_path):
    first = runner.run(search(tmp_path, "a"))
    runner.run(search(tmp_path, "b"))
    qtbot.waitUntil(bar.others.isVisible, timeout=PATIENCE_MS)
    assert bar.others.text() == "+1"
    action = bar.others.menu().actions()[0]
    assert action.text() == "Cancel: Optimizing a"
    with qtbot.waitSignal(first.ended, timeout=PATIENCE_MS):
        action.trigger()
    assert not bar.others.isVisible()
    assert bar.label.text().startswith("Optimizing b")


@contextmanager
def silent(qtbot, job):
    """Stops a job before it tells anything, and cancels it afterwards."""
    os.kill(job.pid, signal.SIGSTOP)
    yield job
    os.kill(job.pid, signal.SIGCONT)
    job.cancel()
    qtbot.waitUntil(lambda: job.ending is not None, timeout=PATIENCE_MS)


@pytest.mark.cold
def test_a_search_with_a_time_limit_shows_how_much_of_it_has_passed(qtbot, bar, runner, tmp_path, monkeypatch):
    command = search(tmp_path, "a")
    limited = Command(command.title, (*command.arguments, "--time-limit", "100"))
    with silent(qtbot, runner.run(limited)):
        qtbot.waitUntil(bar.isVisible, timeout=PATIENCE_MS)
        began = time.monotonic()
        monkeypatch.setattr("edgeopt_gui.jobs.job.time", SimpleNamespace(monotonic=lambda: began + 50))
        qtbot.waitUntil(lambda: bar.bar.maximum() == 100 and bar.bar.value() in range(49, 54))
        assert bar.left.text() in {"49 s left", "50 s left"}
        monkeypatch.setattr("edgeopt_gui.jobs.job.time", SimpleNamespace(monotonic=lambda: began + 500))
        qtbot.waitUntil(lambda: bar.bar.maximum() == 0)  # how long it takes beyond the limit is not known


@pytest.mark.cold
def test_a_search_without_a_limit_of_its_own_takes_the_time_left_that_it_tells(qtbot, bar, runner, tmp_path):
    with silent(qtbot, runner.run(search(tmp_path, "a"))) as job:
        qtbot.waitUntil(bar.isVisible, timeout=PATIENCE_MS)
        assert bar.bar.maximum() == 0
        job.note(Progress("racing", time_left_s=1000.0))
        qtbot.waitUntil(lambda: bar.bar.maximum() == 100)
        job.note(Progress("racing", done=1, total=2, time_left_s=0.5))
        assert job.left_s > 900, "with a total, it is the time of a phase"
