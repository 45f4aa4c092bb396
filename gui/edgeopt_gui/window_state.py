"""The window's geometry, layout and page, stored between two starts."""

from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow

from edgeopt_gui.settings import Settings

GEOMETRY, STATE, PAGE = "window.geometry", "window.state", "window.page"
# A stored state of another version does not fit the present docks and bars.
_VERSION = 1
_LETTERS_WIDE, _LINES_HIGH = 170, 50
# 1000 by 640 pixels in the usual font of desktops.
_MIN_LETTERS, _MIN_LINES = 166, 45


def keep(window: QMainWindow, settings: Settings, page: str) -> None:
    settings.keep(GEOMETRY, window.saveGeometry())
    settings.keep(STATE, window.saveState(_VERSION))
    settings.keep(PAGE, page)


def restore(window: QMainWindow, settings: Settings) -> None:
    """Restores the stored window, or arranges a new one if no screen shows its old place."""
    arrange(window)
    window.restoreState(settings.state(STATE), _VERSION)
    if window.restoreGeometry(settings.state(GEOMETRY)) and not _is_seen(window):
        arrange(window)


def minimum(window: QMainWindow) -> QSize:
    """Returns the smallest size at which no page is cut off, or that of the screen if it is smaller."""
    metrics = window.fontMetrics()
    size = QSize(metrics.averageCharWidth() * _MIN_LETTERS, metrics.height() * _MIN_LINES)
    return size.boundedTo(QGuiApplication.primaryScreen().availableSize())


def arrange(window: QMainWindow) -> None:
    """Centres the window on the first screen, sized by the font and limited by the screen."""
    metrics = window.fontMetrics()
    area = QGuiApplication.primaryScreen().availableGeometry()
    width = min(metrics.averageCharWidth() * _LETTERS_WIDE, area.width())
    height = min(metrics.height() * _LINES_HIGH, area.height())
    window.setWindowState(window.windowState() & ~window.windowState().WindowMaximized)
    window.resize(width, height)
    window.move(area.center().x() - width // 2, area.center().y() - height // 2)


def _is_seen(window: QMainWindow) -> bool:
    """Whether enough of the window is visible to grab it."""
    grip = window.fontMetrics().height() * 5
    for screen in QGuiApplication.screens():
        common = screen.availableGeometry().intersected(window.geometry())
        if common.width() >= grip and common.height() >= grip:
            return True
    return False
