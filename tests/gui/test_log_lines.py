import subprocess
import sys
import threading

import psutil
import pytest
from PySide6.QtCore import QThreadPool, qWarning
from PySide6.QtWidgets import QMessageBox

from edgeopt import events
from edgeopt.data.demo import DATA, MODEL
from edgeopt.events import Progress
from edgeopt_gui import quiet
from edgeopt_gui.faults import Faults
from edgeopt_gui.job_words import loss, percent, status
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.log_lines import JobStory, LogLine
from edgeopt_gui.pages.optimize.page import ENTRY as OPTIMIZE
from edgeopt_gui.quiet import QuietWatch

COMMAND = Command("Optimizing a.onnx", ("optimize", "my model.onnx"))


def texts(*told):
    story = JobStory(COMMAND)
    return [line.text for line in map(story.line_of, told) if line is not None]


def test_a_job_begins_with_what_one_could_type():
    line = JobStory(COMMAND).begun()
    assert (line.job, line.text) == ("Optimizing a.onnx", "$ edgeopt optimize 'my model.onnx'")


def test_a_phase_is_told_once_and_numbers_are_not():
    assert texts(
        events.Progress("screening", done=1, total=9),
        events.Metric("latency_ms", 1.0),
        events.Progress("screening", done=2, total=9),
        events.Progress("racing"),
    ) == ["screening", "racing"]


def test_what_happened_to_a_candidate_is_told_when_it_is_decided():
    racing = events.Standing("ort int8", "racing", speedup=1.2)
    lost = events.Standing("ort int8", "lost", "2.0 % slower than the best")
    assert texts(racing, racing, lost) == ["ort int8: lost: 2.0 % slower than the best"]


def test_endings_are_errors_unless_they_were_wanted():
    story = JobStory(COMMAND)
    failed = story.ended(Ending("failed", {}, "The disk is full.", "Free some space."))
    assert (failed.level, failed.text) == ("error", "The disk is full. Free some space.")
    assert story.ended(Ending("cancelled", {}, "Cancelled; nothing was changed.")).level == "info"
    assert story.ended(Ending("done", {})).text == "Done."


def test_a_warning_keeps_its_level_and_stands_on_one_line():
    line = JobStory(COMMAND).line_of(events.Log("warning", "two\nlines"))
    assert (line.level, line.text) == ("warning", "two lines")


def test_a_line_is_copied_with_its_time_and_job():
    line = LogLine("error", "Probing", "No.", time_s=0.0)
    assert line.plain.split("\t")[1:] == ["error", "Probing", "No."]
    assert line.plain.startswith(("1970-01-01", "1969-12-31"))


COMMAND_JOB_WORDS = Command("Optimizing a.onnx", ("optimize",))


def test_where_a_job_stands_is_one_short_line():
    assert status(COMMAND_JOB_WORDS, None) == "Optimizing a.onnx"
    assert status(COMMAND_JOB_WORDS, Progress("racing", done=3, total=9)) == "Optimizing a.onnx · racing · 3 of 9"


def test_the_share_that_is_done_is_not_invented():
    assert percent(Progress("racing")) is None
    assert percent(Progress("racing", done=1, total=0)) is None
    assert percent(Progress("racing", done=3, total=4)) == 75
    assert percent(Progress("racing", done=9, total=4)) == 100
    assert percent(Progress("racing", done=3, total=4), share_of_time=0.2) == 20


def test_what_happens_at_an_agent_is_not_how_far_watching_it_has_come():
    watching = Command("Watching the agent", ("fleet", "watch", "--url", "pi"))
    assert status(watching, Progress("failed", subject="deployment 3")) == "Watching the agent"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("watch m.onnx", ""),
        ("fleet watch --url pi", ""),
        ("fleet status --url pi", ""),
        ("analyze m.onnx --quick", ""),
        ("optimize m.onnx -o o.edgeopt", "The search ends without a bundle"),
        ("optimize m.onnx -o o.edgeopt --pick 3", "The other candidate is not delivered."),
        ("optimize m.onnx -o o.edgeopt --device pi5.json", "The plan is not written."),
        ("export o.edgeopt -o o", "The files are not written."),
        ("fleet deploy o.edgeopt --url pi", "The agent may still finish"),
    ],
)
def test_what_is_lost_with_a_job_is_told(line, said):
    told = loss(Command("", tuple(line.split())))
    assert told.startswith(said)
    assert bool(told) == bool(said)


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


PATIENCE_MS = 60_000


@pytest.fixture
def searching(qtbot, open_window, context, tmp_path):
    """A window while a search runs."""
    window = open_window((OPTIMIZE,))
    out = str(tmp_path / "out.edgeopt")
    job = context.jobs.run(Command("Optimizing", ("optimize", str(MODEL), "--data", str(DATA), "-o", out)))
    with qtbot.waitSignal(job.event_received, timeout=PATIENCE_MS):
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


@pytest.fixture
def faults(qapp):
    installed = Faults()
    installed.install()
    yield installed
    installed.remove()


def test_what_nobody_caught_in_a_slot_is_told_with_its_place():
    """In a process of its own: pytest-qt would take the exception for itself."""
    program = """
from PySide6.QtCore import QCoreApplication, QTimer
from edgeopt_gui.faults import Faults
application = QCoreApplication([])
faults = Faults()
faults.install()
def break_it():
    raise ValueError("no such thing")
def tell(ending):
    print(ending.how, "|", ending.what, "|", "break_it" in ending.details)
    QTimer.singleShot(0, application.quit)
faults.happened.connect(tell)
QTimer.singleShot(0, break_it)
application.exec()
print("goes on")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    expected = "crashed | Internal error of the app: ValueError: no such thing | True\ngoes on\n"
    assert done.stdout == expected


def test_a_fault_in_a_thread_is_told_too(qtbot, faults):
    def break_it():
        raise RuntimeError("in a thread")

    with qtbot.waitSignal(faults.happened, timeout=60_000) as told:
        thread = threading.Thread(target=break_it)
        thread.start()
        thread.join()
    assert "RuntimeError: in a thread" in told.args[0].what
    assert told.args[0].next_step


def test_what_qt_complains_about_is_told(qtbot, faults):
    with qtbot.waitSignal(faults.complained, timeout=60_000) as told:
        qWarning("something is odd")
    assert told.args == ["something is odd"]
