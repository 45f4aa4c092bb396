"""What an engineer does on the first day: drop a model, look, optimize, cancel, optimize, watch live, save."""

import os
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDropEvent, QKeySequence

from edgeopt.bundle.read import read_bundle
from edgeopt_gui.widgets.action_button import ActionButton

SAMPLES = Path(__file__).parents[2] / "edgeopt" / "data" / "demo"
CORPUS = os.environ.get("EDGEOPT_CORPUS", "")
LONG_MS = 120_000


def drop(window, *paths):
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    event = QDropEvent(QPoint(300, 300), Qt.DropAction.CopyAction, mime, buttons, keys)
    window.dropEvent(event)


def press(qtbot, window, key):
    """The action's own shortcut, as a person types it."""
    combination = QKeySequence(window.book[key].action.shortcut)[0]
    qtbot.keyClick(window, combination.key(), combination.keyboardModifiers())


@pytest.fixture
def window(open_window, tmp_path, monkeypatch, make_cache):
    make_cache(tmp_path / "cache/edgeopt")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    window = open_window()
    window.activateWindow()
    window.setFocus()
    return window


def journey(qtbot, window, context, tmp_path, model, data):
    drop(window, model)
    qtbot.waitUntil(lambda: window.shown_page.objectName() == "page-model", timeout=LONG_MS)
    qtbot.waitUntil(lambda: window.shown_page.state == "content", timeout=LONG_MS)

    press(qtbot, window, "app.go-device")
    qtbot.waitUntil(lambda: window.shown_page.objectName() == "page-device", timeout=LONG_MS)
    qtbot.waitUntil(lambda: window.shown_page.state == "content", timeout=LONG_MS)

    drop(window, data)
    qtbot.waitUntil(lambda: window.shown_page.objectName() == "page-optimize", timeout=LONG_MS)
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=LONG_MS)
    optimize = window.shown_page

    press(qtbot, window, "optimize.start")
    (job,) = context.jobs.jobs
    qtbot.waitUntil(lambda: getattr(job.progress, "phase", "") == "screening", timeout=LONG_MS)
    family = psutil.Process(job.pid).children(recursive=True)
    with qtbot.waitSignal(job.ended, timeout=LONG_MS) as ended:
        press(qtbot, window, "optimize.cancel")
    assert ended.args[0].how == "cancelled"
    assert psutil.wait_procs(family, timeout=60)[1] == []

    press(qtbot, window, "optimize.start")
    assert optimize.state == "busy"
    qtbot.waitUntil(lambda: optimize.state != "busy", timeout=LONG_MS)
    assert optimize.state == "content"
    assert context.bundle is not None

    window.book["optimize.live"].shown.trigger()
    qtbot.waitUntil(lambda: window.shown_page.objectName() == "page-live", timeout=LONG_MS)
    live = window.shown_page
    qtbot.waitUntil(lambda: live.view is not None, timeout=LONG_MS)
    if not context.jobs.jobs:
        press(qtbot, window, "live.start")
    qtbot.waitUntil(lambda: live.session is not None and live.session.history.moments > 20, timeout=LONG_MS)
    assert live.session.history.latest["latency_ms"] > 0
    press(qtbot, window, "live.stop")
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=LONG_MS)

    saved = tmp_path / "saved.edgeopt"
    optimize.delivery.save_to(saved)
    qtbot.waitUntil(saved.exists, timeout=LONG_MS)
    qtbot.waitUntil(lambda: context.bundle == saved, timeout=LONG_MS)
    assert read_bundle(saved).deployment.source.name == model.name


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_day_with_the_sample(qtbot, window, context, tmp_path):
    context.settings.keep("optimize.time-limit-s", 2)
    journey(qtbot, window, context, tmp_path, SAMPLES / "digits_cnn.onnx", SAMPLES / "digits_cnn.npz")


@pytest.mark.timeout(300)
def test_one_click_on_an_empty_window_makes_a_proved_bundle_of_the_sample(qtbot, window, context):
    context.settings.keep("optimize.time-limit-s", 1)
    window.show_page("model")
    (start,) = (b for b in window.shown_page.findChildren(ActionButton) if b.key == "app.optimize-sample")
    qtbot.mouseClick(start, Qt.MouseButton.LeftButton)
    page = window.shown_page
    assert (page.objectName(), page.state) == ("page-optimize", "busy")
    assert not start.isEnabled()
    qtbot.waitUntil(lambda: page.state != "busy", timeout=LONG_MS)
    assert page.state == "content"
    assert read_bundle(context.bundle).deployment.source.name == "digits_cnn.onnx"
    assert page.view.verdict.note.text().startswith("Next: ")
    assert page.view.verdict.buttons["optimize.save"].isEnabled()


def test_one_click_shows_what_this_machine_can_do(qtbot, window):
    window.show_page("model")
    (see,) = (b for b in window.shown_page.findChildren(ActionButton) if b.key == "app.see-device")
    qtbot.mouseClick(see, Qt.MouseButton.LeftButton)
    assert window.shown_page.objectName() == "page-device"


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.timeout(600)
@pytest.mark.skipif(not CORPUS, reason="EDGEOPT_CORPUS names no folder of real models")
def test_the_first_day_with_a_detector(qtbot, window, context, tmp_path):
    folder = Path(CORPUS).resolve()
    journey(qtbot, window, context, tmp_path, folder / "yolox_nano.onnx", folder / "yolox_nano.npz")
