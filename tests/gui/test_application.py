"""The app as users start it: a process of its own, without a screen."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
from PySide6.QtCore import QSettings

from edgeopt.data.demo import DATA, MODEL
from edgeopt.errors import EdgeoptError, MissingError
from edgeopt_gui import display
from edgeopt_gui.actions.shell import of_the_window
from edgeopt_gui.application import _after_first_frame, _begin
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.drops import sort_out
from edgeopt_gui.end_signals import EndSignals
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.model import page
from edgeopt_gui.settings import Settings
from edgeopt_gui.subject import Subject, subject_at
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
    assert done.stdout.splitlines() == ["['live'] []", "[]"]
    assert settings(tmp_path).value(PAGE) == "live"


def test_a_page_that_is_not_there_is_named_with_those_that_are(start):
    app = start("--page", "kitchen")
    _, said = app.communicate(timeout=PATIENCE_S)
    assert app.returncode == 2
    assert "There is no page 'kitchen'." in said
    assert "device, model, graph, optimize, precision, compare, live" in said


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


def test_a_search_starts_with_the_app(qtbot, start):
    app = start(MODEL, "--data", DATA, "--optimize")
    qtbot.waitUntil(lambda: {"optimize", "--data", str(DATA)} <= jobs_of(app), timeout=PATIENCE_MS)
    assert end(app) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--optimize"], "--optimize needs an ONNX model."),
        (["model.edgeopt", "--data", DATA], "--data needs an ONNX model."),
        ([MODEL, "--data", "missing.npz"], "There is no data at 'missing.npz'."),
    ],
)
def test_a_search_without_its_files_is_wrong_usage(start, tmp_path, monkeypatch, arguments, says):
    (tmp_path / "model.edgeopt").mkdir()
    monkeypatch.chdir(tmp_path)
    app = start(*arguments)
    _, said = app.communicate(timeout=PATIENCE_S)
    assert (app.returncode, says in said) == (2, True), said


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
        pytest.param((), ["model"], [], marks=pytest.mark.slow),
        pytest.param(("--page", "device"), ["device"], ["probe", "targets"], marks=pytest.mark.slow),
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


@pytest.fixture
def shared(qapp, tmp_path):
    return Context(Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)))


def test_opening_another_model_lets_go_of_the_data_of_the_first(shared, qtbot):
    shared.open(Subject(Path("a.onnx"), "model"))
    shared.use_data(Path("a.npz"))
    shared.open(Subject(Path("a.onnx"), "model"))
    assert shared.data == Path("a.npz"), "opened again, it keeps its data"
    with qtbot.waitSignals([shared.data_changed, shared.subject_changed]):
        shared.open(Subject(Path("b.onnx"), "model"))
    assert shared.data is None


def test_an_opened_bundle_is_the_one_to_watch_and_to_deploy(shared):
    shared.open(Subject(Path("a.edgeopt"), "bundle"))
    assert shared.bundle == Path("a.edgeopt")
    shared.open(Subject(Path("b.onnx"), "model"))
    assert shared.bundle == Path("a.edgeopt")


def test_what_was_opened_is_remembered_newest_first_and_once(shared):
    for name in ("a.onnx", "b.onnx", "a.onnx"):
        shared.open(Subject(Path(name), "model"))
    assert shared.settings.recent() == (Path("a.onnx"), Path("b.onnx"))


def test_a_folder_is_a_bundle_and_a_file_a_model(tmp_path):
    file = tmp_path / "m.onnx"
    file.touch()
    assert subject_at(file).kind == "model"
    assert subject_at(tmp_path).kind == "bundle"


NOWHERE = Path("no-such-folder")


def test_no_screen_at_all_is_said_with_a_next_step():
    with pytest.raises(MissingError, match="No display") as caught:
        display.check({}, NOWHERE)
    assert "edgeopt --help" in caught.value.hint


def test_a_platform_that_needs_no_screen_is_let_through():
    display.check({"QT_QPA_PLATFORM": "offscreen"}, NOWHERE)


def test_an_x_screen_that_does_not_answer_is_named(monkeypatch):
    class DeadXcb:
        def __init__(self):
            self.xcb_connect = lambda *_: 1
            self.xcb_connection_has_error = lambda _: 1
            self.xcb_disconnect = lambda _: None

    # No test machine has a dead X server to ask, and many have no libxcb.
    functions = DeadXcb()
    for name in ("xcb_connect", "xcb_connection_has_error", "xcb_disconnect"):
        setattr(functions, name, type("Function", (), {"__call__": staticmethod(getattr(functions, name))})())
    monkeypatch.setattr(display.ctypes, "CDLL", lambda _: functions)
    with pytest.raises(MissingError, match=r"':99' does not answer"):
        display.check({"DISPLAY": ":99"}, NOWHERE)


def test_a_wayland_screen_that_does_not_answer_is_named(tmp_path):
    with pytest.raises(MissingError, match="wayland-7 does not answer"):
        display.check({"WAYLAND_DISPLAY": "wayland-7", "XDG_RUNTIME_DIR": str(tmp_path)}, NOWHERE)


def test_a_plugin_that_cannot_be_loaded_names_the_library(tmp_path):
    (tmp_path / "libqxcb.so").write_bytes(b"\x7fELF and then nothing")
    with pytest.raises(MissingError, match="needs the system library"):
        display.check({"DISPLAY": ":99"}, tmp_path)


@pytest.mark.parametrize(
    ("said", "package"),
    [
        ("libEGL.so.1: cannot open shared object file: No such file or directory", "libegl1"),
        ("libxcb-cursor.so.0: cannot open shared object file", "libxcb-cursor0"),
        ("libxkbcommon-x11.so.0: cannot open", "libxkbcommon-x11-0"),
    ],
)
def test_the_package_of_a_missing_library_is_named(said, package):
    error = display.missing_library(ImportError(said))
    assert error.hint == f"Install it with: sudo apt-get install {package}"
    assert said.partition(":")[0] in error.message


TEXT = (Path(__file__).parents[2] / "docs" / "gui.md").read_text(encoding="utf-8")


def test_the_shortcuts_are_those_of_the_table_of_actions():
    actions = (*of_the_window(PAGES), *(action for entry in PAGES for action in entry.actions))
    expected = [(action.title, action.shortcut) for action in actions if action.shortcut]
    section = TEXT.partition("## Shortcuts")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (.+) \| `(.+)` \|$", section, re.MULTILINE) == expected


def test_every_page_is_described():
    section = TEXT.partition("## The pages")[2].partition("\n## ")[0]
    assert re.findall(r"^\| \*\*(\w+)\*\*", section, re.MULTILINE) == [entry.title for entry in PAGES]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "a.onnx"
    path.touch()
    return path


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "a.npz"
    path.touch()
    return path


def test_a_model_is_what_the_app_looks_at(model):
    assert sort_out([model], has_model=False).subject == Subject(model, "model")


@pytest.mark.parametrize("name", ["weights.gguf", "net.pb", "broken"])
def test_what_people_take_for_a_model_is_judged_by_the_command_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"no")
    assert sort_out([tmp_path / name], has_model=False).subject == Subject(tmp_path / name, "model")


def test_bundles_are_folders_or_files(tmp_path):
    folder = tmp_path / "a.edgeopt"
    folder.mkdir()
    unnamed = tmp_path / "unpacked"
    unnamed.mkdir()
    (unnamed / "deployment.toml").touch()
    file = tmp_path / "b.edgeopt"
    file.touch()
    for path in (folder, unnamed, file):
        assert sort_out([path], has_model=False).subject == Subject(path, "bundle")


def test_data_comes_with_its_model_or_after_it(model, data):
    both = sort_out([data, model], has_model=False)
    assert (both.subject, both.data) == (Subject(model, "model"), data)
    assert sort_out([data], has_model=True).data == data
    assert "open the model that it belongs to first" in sort_out([data], has_model=False).refusal


def test_a_folder_of_arrays_is_data(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(1))
    assert sort_out([tmp_path], has_model=True).data == tmp_path
    assert "drop the folder" in sort_out([tmp_path / "x.npy"], has_model=True).refusal


def test_texts_and_audio_are_data(tmp_path):
    text, voices = tmp_path / "mine.txt", tmp_path / "voices"
    voices.mkdir()
    for path in (text, voices / "a.WAV"):
        path.touch()
    for path in (text, voices, voices / "a.WAV"):
        assert sort_out([path], has_model=True).data == path
        assert "open the model that it belongs to first" in sort_out([path], has_model=False).refusal


def test_what_is_of_no_use_is_refused_with_one_sentence(tmp_path, model, data):
    picture = tmp_path / "photo.png"
    picture.touch()
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "b.onnx"
    other.touch()
    cases = {
        (): "Only files",
        (picture,): "photo.png cannot be opened",
        (empty,): "not a bundle",
        (tmp_path / "gone.onnx",): "gone.onnx does not exist",
        (model, other): "one model or bundle at a time",
        (data, data, model): "data as one .npz, .txt or .wav file",
        (model, picture): "photo.png",
    }
    for paths, said in cases.items():
        dropped = sort_out(paths, has_model=True)
        assert said in dropped.refusal
        assert dropped.subject is None
        assert dropped.data is None
        assert dropped.refusal.count("\n") == 0


# Not in a worker of many tests: what ends by the signal must be this process alone.
@pytest.mark.timing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_told_in_the_event_loop_and_ends_nothing_by_itself(qtbot, number):
    before = signal.getsignal(number)
    signals = EndSignals()
    with qtbot.waitSignal(signals.came, timeout=60_000):
        os.kill(os.getpid(), number)
    signals.close()
    assert signal.getsignal(number) is before
