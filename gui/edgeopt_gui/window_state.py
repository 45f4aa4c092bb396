"""Where the window stood and what it showed, kept from one start to the next."""

from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow

from edgeopt_gui.settings import Settings

GEOMETRY, STATE, PAGE = "window.geometry", "window.state", "window.page"
# Another layout of docks and bars must not be put over this one.
_VERSION = 1
_LETTERS_WIDE, _LINES_HIGH = 170, 50
# 1000 by 640 in the font that desktops begin with.
_LEAST_LETTERS, _LEAST_LINES = 166, 45


def keep(window: QMainWindow, settings: Settings, page: str) -> None:
    settings.keep(GEOMETRY, window.saveGeometry())
    settings.keep(STATE, window.saveState(_VERSION))
    settings.keep(PAGE, page)


def restore(window: QMainWindow, settings: Settings) -> None:
    """As it was, unless there is no screen any more where it stood."""
    arrange(window)
    window.restoreState(settings.state(STATE), _VERSION)
    if window.restoreGeometry(settings.state(GEOMETRY)) and not _is_seen(window):
        arrange(window)


def least(window: QMainWindow) -> QSize:
    """Smaller, the pages would be cut off; a screen that is smaller still has to do."""
    metrics = window.fontMetrics()
    wanted = QSize(metrics.averageCharWidth() * _LEAST_LETTERS, metrics.height() * _LEAST_LINES)
    return wanted.boundedTo(QGuiApplication.primaryScreen().availableSize())


def arrange(window: QMainWindow) -> None:
    """In the middle of the first screen, as large as the font asks for and the screen allows."""
    metrics = window.fontMetrics()
    area = QGuiApplication.primaryScreen().availableGeometry()
    width = min(metrics.averageCharWidth() * _LETTERS_WIDE, area.width())
    height = min(metrics.height() * _LINES_HIGH, area.height())
    window.setWindowState(window.windowState() & ~window.windowState().WindowMaximized)
    window.resize(width, height)
    window.move(area.center().x() - width // 2, area.center().y() - height // 2)


def _is_seen(window: QMainWindow) -> bool:
    """Enough of it to take hold of."""
    grip = window.fontMetrics().height() * 5
    for screen in QGuiApplication.screens():
        common = screen.availableGeometry().intersected(window.geometry())
        if common.width() >= grip and common.height() >= grip:
            return True
    return False
