"""The Qt application: theme, faults, settings, the window, and the event loop."""

import os
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication

from edgeopt.errors import UsageError
from edgeopt.platform.user_folders import user_cache_folder
from edgeopt.version import __version__
from edgeopt_gui.context import Context
from edgeopt_gui.drops import Dropped, sort_out
from edgeopt_gui.end_signals import EndSignals
from edgeopt_gui.faults import Faults
from edgeopt_gui.gaps import Gap, GapMonitor
from edgeopt_gui.pages import PAGES
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import Theme
from edgeopt_gui.window import Window
from edgeopt_gui.window_state import PAGE

NAME = "edgeopt"
# The page Model shows the ways to begin; the rail leads to the others.
_FIRST_START_PAGE = "model"
# A window that starts minimized is never painted, so the first frame may not come.
_LONGEST_TO_FIRST_FRAME_MS = 500


def run(path: Path | None, page: str, data: Path | None = None, optimize: bool = False) -> int:
    """Opens the window and stays until it is closed; `page` is "" for the one of the last time.

    `data` is that of the model at `path`, and `optimize` starts its search.
    """
    keys = [entry.key for entry in PAGES]
    if page and page not in keys:
        raise UsageError(f"There is no page '{page}'.", f"These are: {', '.join(keys)}")
    dropped = sort_out([path.absolute()], has_model=False) if path is not None else Dropped()
    if (optimize or data is not None) and not dropped.refusal:
        if dropped.subject is None or dropped.subject.kind != "model":
            raise UsageError(
                f"{'--optimize' if optimize else '--data'} needs an ONNX model.",
                "edgeopt-gui MODEL.onnx --optimize; import a model of another framework first.",
            )
        if data is not None and not data.exists():
            raise UsageError(f"There is no data at '{data}'.", "Check the path.")
    page = "optimize" if optimize else page
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
    cache = user_cache_folder()
    context.jobs.lock = cache / "measuring.lock" if cache is not None else None
    if dropped.subject is not None:
        # Opened before the window is built, so that a child process reads the model meanwhile.
        context.open(dropped.subject)
        if data is not None:
            context.use_data(data.absolute())
    window = Window(context, PAGES, _first_page(path, page, settings.text(PAGE)))
    faults.happened.connect(window.show_failure)
    faults.complained.connect(lambda message: window.log.say("warning", "Qt", message))
    _after_first_frame(window, lambda: _begin(window, path, page, optimize))
    window.show()
    monitor = _watch_gaps(window)
    signals.came.connect(window.quit_now)
    code = application.exec()
    context.jobs.close()
    signals.close()
    if monitor is not None:
        monitor.stop()
    faults.remove()
    return code


def _first_page(path: Path | None, requested: str, last: str) -> str:
    """`last` is the page of the last time, "" on the first start."""
    return requested or ("model" if path is not None else last or _FIRST_START_PAGE)


def _after_first_frame(window: Window, act: Callable[[], None]) -> None:
    """Calls `act` after the first frame, or after 500 ms without one, so that it does not delay the window."""
    timer = QTimer(window)
    timer.setSingleShot(True)
    timer.timeout.connect(act)
    timer.start(_LONGEST_TO_FIRST_FRAME_MS)
    # A frame after the timeout must not call `act` a second time.
    window.first_frame.connect(lambda: timer.start(0) if timer.isActive() else None)


def _begin(window: Window, path: Path | None, page: str, optimize: bool = False) -> None:
    """Opens the path unless it is open already, shows the page that was asked for, and builds the other pages.

    With `optimize` the search for the model starts on its page.
    """
    if path is not None and window.context.subject is None:
        window.open_paths([path.absolute()], on=page or "model")
    if page:
        window.show_page(page)
    if optimize and window.context.subject is not None:
        window.book.refresh()
        window.book["optimize.start"].shown.trigger()
    window.make_one_more()


def _watch_gaps(window: Window) -> GapMonitor | None:
    """Starts a monitor that logs each stall of the event loop; None unless EDGEOPT_DEBUG is set."""
    if not os.environ.get("EDGEOPT_DEBUG"):
        return None

    def say(gap: Gap) -> None:
        window.log.say("warning", "event loop", f"no answer for {gap.length_ms:.0f} ms: {gap.stack}")

    monitor = GapMonitor()
    monitor.found.connect(say)
    monitor.start()
    return monitor
