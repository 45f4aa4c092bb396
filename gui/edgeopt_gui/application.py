"""The Qt application: theme, faults, settings, the window, and the event loop."""

import os
from pathlib import Path

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication

from edgeopt.errors import UsageError
from edgeopt.version import __version__
from edgeopt_gui.context import Context
from edgeopt_gui.end_signals import EndSignals
from edgeopt_gui.faults import Faults
from edgeopt_gui.gaps import Gap, GapMonitor
from edgeopt_gui.pages import PAGES
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import Theme
from edgeopt_gui.window import Window
from edgeopt_gui.window_state import PAGE

NAME = "edgeopt"
# It shows the ways to begin; the rail leads to the others.
_FIRST_START_PAGE = "model"


def run(path: Path | None, page: str) -> int:
    """Opens the window and stays until it is closed; `page` is "" for the one of the last time."""
    keys = [entry.key for entry in PAGES]
    if page and page not in keys:
        raise UsageError(f"There is no page '{page}'.", f"These are: {', '.join(keys)}")
    application = QApplication([NAME])
    application.setApplicationName(NAME)
    application.setApplicationVersion(__version__)
    application.setDesktopFileName(NAME)
    settings = Settings(QSettings(QSettings.Format.IniFormat, QSettings.Scope.UserScope, NAME, "gui"))
    faults = Faults()
    faults.install()
    signals = EndSignals()
    Theme(application, settings)
    context = Context(settings)
    window = Window(context, PAGES)
    faults.happened.connect(window.told_of_fault)
    faults.complained.connect(lambda said: window.log.say("warning", "Qt", said))
    window.show()
    # After the first frame: nothing of this makes the window come later.
    QTimer.singleShot(0, window, lambda: _begin(window, path, page, settings.text(PAGE)))
    monitor = _watch_gaps(window)
    signals.came.connect(window.quit_now)
    code = application.exec()
    context.jobs.close()
    signals.close()
    if monitor is not None:
        monitor.stop()
    faults.remove()
    return code


def _begin(window: Window, path: Path | None, page: str, last: str) -> None:
    """`page` is the one asked for, `last` that of the last time, "" on the first start."""
    if path is not None:
        window.open_paths([path.absolute()], on=page or "model")
    if page or path is None:
        window.show_page(page or last or _FIRST_START_PAGE)
    window.make_one_more()


def _watch_gaps(window: Window) -> GapMonitor | None:
    """For developers: with EDGEOPT_DEBUG set, each time that the window did not answer is in the log."""
    if not os.environ.get("EDGEOPT_DEBUG"):
        return None

    def say(gap: Gap) -> None:
        window.log.say("warning", "event loop", f"no answer for {gap.length_ms:.0f} ms: {gap.stack}")

    monitor = GapMonitor()
    monitor.found.connect(say)
    monitor.start()
    return monitor
