"""The app as users start it: a process of its own, without a screen."""

import os
import signal
import subprocess
import sys

import psutil
import pytest
from PySide6.QtCore import QSettings

from edgeopt.data.demo import MODEL
from edgeopt_gui.application import _after_first_frame, _begin
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.model import page
from edgeopt_gui.subject import subject_at
from edgeopt_gui.window import Window
from edgeopt_gui.window_state import GEOMETRY, PAGE

PATIENCE_S = 60
PATIENCE_MS = PATIENCE_S * 1000


@pytest.fixture
def start(tmp_path):
    """Starts the app with settings of this test's own."""
    running = []

    def begin(*arguments):
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(tmp_path)}
        command = [sys.executable, "-m", "edgeopt_gui.main", *map(str, arguments)]
        app = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(app)
        return app

    yield begin
    for app in running:
        app.kill()
        app.communicate()


def settings(tmp_path):
    return QSettings(str(tmp_path / "edgeopt" / "gui.ini"), QSettings.Format.IniFormat)


def jobs_of(app):
    found = set()
    for child in psutil.Process(app.pid).children(recursive=True):
        try:
            found.update(child.cmdline())
        except psutil.Error:
            continue
    return found


def end(app):
    app.send_signal(signal.SIGTERM)
    _, complaints = app.communicate(timeout=PATIENCE_S)
    quiet = [line for line in complaints.splitlines() if "This plugin does not" not in line]
    return app.returncode, quiet


def test_it_opens_what_it_is_given_and_ends_cleanly_when_asked(qtbot, start, tmp_path):
    app = start(MODEL)
    qtbot.waitUntil(lambda: "analyze" in jobs_of(app), timeout=PATIENCE_MS)
    family = psutil.Process(app.pid).children(recursive=True)
    assert end(app) == (0, [])
    assert psutil.wait_procs(family, timeout=60)[1] == []
    kept = settings(tmp_path)
    assert kept.value("recent") == str(MODEL)
    assert kept.value(PAGE) == "model"
    assert not kept.value(GEOMETRY).isEmpty()


def test_it_comes_back_to_the_page_of_the_last_time(tmp_path):
    before = settings(tmp_path)
    before.setValue(PAGE, "live")
    before.sync()
    command = [sys.executable, "-c", FIRST_FRAME]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.startswith("['live'] []")
    assert settings(tmp_path).value(PAGE) == "live"


def test_a_page_that_is_not_there_is_named_with_those_that_are(start):
    app = start("--page", "kitchen")
    _, said = app.communicate(timeout=PATIENCE_S)
    assert app.returncode == 2
    assert "There is no page 'kitchen'." in said
    assert "device, model, graph, optimize, compare, live" in said


def test_killed_without_a_warning_it_takes_its_jobs_along(qtbot, start):
    app = start(MODEL)
    qtbot.waitUntil(lambda: "analyze" in jobs_of(app), timeout=PATIENCE_MS)
    family = psutil.Process(app.pid).children(recursive=True)
    app.kill()
    app.wait()
    assert psutil.wait_procs(family, timeout=60)[1] == []


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("", "model"),
        ("compare", "compare"),
        *(pytest.param(key, key, marks=pytest.mark.slow) for key in ("model", "optimize", "live")),
    ],
)
def test_a_file_that_is_not_there_is_told_on_the_page_asked_for(qtbot, open_window, tmp_path, asked, shown):
    window = open_window()
    _begin(window, tmp_path / "missing.onnx", asked)
    page = window.page(shown)
    qtbot.waitUntil(lambda: page.state == "error", timeout=PATIENCE_MS)
    assert window.shown_page is page
    assert "missing.onnx does not exist" in page._error.sentence.text()
    assert page._error.button.key == "app.open-model"
    assert str(tmp_path) in page._error._details.toPlainText()


def test_on_the_page_of_the_device_a_dialog_tells_of_the_file(open_window, tmp_path):
    window = open_window()
    _begin(window, tmp_path / "missing.onnx", "device")
    assert window.shown_page is window.page("device")
    assert window._failure.isVisible()
    assert "missing.onnx does not exist" in window._failure.what.text()
    window._failure.close()


def test_a_model_is_opened_on_the_page_asked_for(open_window):
    window = open_window()
    _begin(window, MODEL, "optimize")
    assert window.context.subject.path == MODEL
    assert window.shown_page is window.page("optimize")


# The app's own main, with what it has made and imported by its first frame.
FIRST_FRAME = """
import sys
from PySide6.QtCore import QTimer
from edgeopt_gui import main
from edgeopt_gui.window import Window
def first_frame(window):
    slow = ("numpy", "pyqtgraph", "onnx", "onnx_ir", "onnxruntime", "openvino", "rich", "typer")
    print(list(window._pages), [job.command.line.split()[1] for job in window.context.jobs.jobs])
    print([name for name in slow if name in sys.modules], flush=True)
    QTimer.singleShot(0, window.quit_now)
make = Window.__init__
def made(window, *arguments):
    make(window, *arguments)
    window.first_frame.connect(lambda: first_frame(window))
Window.__init__ = made
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "pages", "jobs"),
    [
        ((), ["model"], []),
        (("--page", "device"), ["device"], ["probe", "targets"]),
        ((str(MODEL),), ["model"], ["analyze"]),
        pytest.param(("--page", "live"), ["live"], [], marks=pytest.mark.slow),
    ],
)
def test_the_first_frame_waits_for_one_page_and_nothing_slow(tmp_path, arguments, pages, jobs):
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", FIRST_FRAME, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.splitlines() == [f"{pages} {jobs}", "[]"]


def test_a_model_that_is_open_already_is_read_before_the_page_has_widgets(qtbot, context, monkeypatch):
    order = []
    make = page.ModelContent
    context.jobs.started.connect(lambda job: order.append(job.command.arguments[-1]))
    monkeypatch.setattr(page, "ModelContent", lambda: order.append("widgets") or make())
    context.open(subject_at(MODEL))
    window = Window(context, PAGES, "model")
    qtbot.addWidget(window)
    assert order == ["--quick", "widgets"]


def test_a_page_that_is_not_there_any_more_gives_way_to_the_first(qtbot, context):
    window = Window(context, PAGES[1:], "kitchen")
    qtbot.addWidget(window)
    assert window.shown_page is window.page("model")


def test_what_can_wait_comes_after_the_first_frame_and_only_once(qtbot, context):
    order = []
    window = Window(context, PAGES, "model")
    qtbot.addWidget(window)
    window.first_frame.connect(lambda: order.append("frame"))
    _after_first_frame(window, lambda: order.append("rest"))
    window.show()
    qtbot.waitUntil(lambda: "rest" in order, timeout=PATIENCE_MS)
    window.repaint()
    assert order == ["frame", "rest"]


def test_a_window_that_is_never_painted_begins_all_the_same(qtbot, context):
    window, begun = Window(context, PAGES, "model"), []
    qtbot.addWidget(window)
    _after_first_frame(window, lambda: begun.append(True))
    qtbot.waitUntil(lambda: begun == [True], timeout=PATIENCE_MS)
