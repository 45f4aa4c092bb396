"""What the tests of the app share: a context of their own, windows, and that Qt has nothing to complain about."""

import gc
import os
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QSettings, QtMsgType, qInstallMessageHandler
from pytestqt.qtbot import QtBot

import edgeopt_gui.window
from edgeopt_gui import garbage
from edgeopt_gui.context import Context
from edgeopt_gui.jobs import job
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import Theme
from tests.gui.warm_job import WarmProcess

HERE = Path(__file__).parent
# An app that ends would give back all that is frozen: after each of its tests, the collector would look through
# all other tests as well.
NOTHING_FROZEN = SimpleNamespace(**{**vars(gc), "freeze": lambda: None, "unfreeze": lambda: None})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Widgets end in this thread: the interpreter would collect them in any that happens to allocate."""
    if HERE not in item.path.parents:
        return (yield)
    gc.disable()
    if item.path.name != "test_garbage.py":
        garbage.gc = edgeopt_gui.window.gc = NOTHING_FROZEN
    try:
        return (yield)
    finally:
        garbage.gc = edgeopt_gui.window.gc = gc
        gc.collect()
        gc.freeze()  # or the next one would look through all of it again
        gc.enable()


@pytest.fixture(autouse=True)
def no_qt_warnings():
    """A warning of Qt's fails the test."""
    complaints = []

    def hear(kind, _where, message):
        # What a platform without a screen cannot do says nothing about the app.
        quiet = kind in {QtMsgType.QtInfoMsg, QtMsgType.QtDebugMsg} or message.startswith("This plugin does not")
        if not quiet:
            complaints.append(message)

    before = qInstallMessageHandler(hear)
    yield complaints
    qInstallMessageHandler(before)
    assert complaints == []


@pytest.fixture(autouse=True)
def warm_jobs(request, monkeypatch):
    """Jobs begin with everything imported, but for tests of how they start or how fast."""
    if not any(request.node.get_closest_marker(name) for name in ("cold", "timing")):
        monkeypatch.setattr(job, "QProcess", WarmProcess)


class PatientBot(QtBot):
    """Waits for a minute where nothing else is said: five seconds are too few on a busy machine."""

    def waitUntil(self, callback, *, timeout=60_000):  # noqa: N802 - Qt's spelling
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(self, signal, *, timeout=60_000, **more):  # noqa: N802 - Qt's spelling
        return super().waitSignal(signal, timeout=timeout, **more)


@pytest.fixture
def qtbot(qapp, request):
    return PatientBot(request)


@pytest.fixture
def settings(tmp_path):
    """Kept in a file of this test's own."""
    return Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))


@pytest.fixture
def context(qapp, settings):
    made = Context(settings)
    made.quiet.enabled = False  # what others do on this machine is not the test's
    dress = Theme(qapp, settings)
    yield made
    made.jobs.close()
    dress.deleteLater()


@pytest.fixture(scope="module")
def shared_window(qapp, request, tmp_path_factory):
    """Opens a window at 1200 x 800 that the tests of a module share: they leave it as they found it."""
    from edgeopt_gui.window import Window

    settings = Settings(QSettings(str(tmp_path_factory.mktemp("shared") / "s.ini"), QSettings.Format.IniFormat))
    made = Context(settings)
    made.quiet.enabled = False
    dress, opened = Theme(qapp, settings), []

    def open_it(pages):
        window = Window(made, pages)
        opened.append(window)
        window.resize(1200, 800)
        window.show()
        window.make_all()
        return window, PatientBot(request)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "QProcess", WarmProcess)
        yield open_it
    made.jobs.close()
    for window in opened:
        window.close()
        window.deleteLater()
    dress.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def open_window(qtbot, context):
    """Opens the app's window with these pages, or all of them, at 1200 x 800.

    `reads`: whether the page Device, the first one, reads the device at once, which takes a second of two cores.
    """
    from edgeopt_gui.pages import PAGES
    from edgeopt_gui.pages.device.page import DevicePage
    from edgeopt_gui.window import Window

    def open_it(pages=PAGES, reads=False):
        with pytest.MonkeyPatch.context() as patched:
            if pages is PAGES and not reads:
                patched.setattr(DevicePage, "probe", lambda _: None)
            window = Window(context, pages)
        # What still runs would tell widgets that are gone by then.
        qtbot.addWidget(window, before_close_func=lambda _: context.jobs.close())
        window.resize(1200, 800)
        with qtbot.waitActive(window):
            window.show()
            window.activateWindow()
        window.make_all()
        return window

    return open_it


@pytest.fixture
def open_page(open_window):
    """Opens one page alone in a window and gives the page."""

    def open_it(entry):
        return open_window((entry,)).page(entry.key)

    return open_it
