"""Whether the app is light or dark, the stylesheet of its windows, and the notice that they changed."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication, QPalette


class Notice(QObject):
    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.sheet = ""


NOTICE = Notice()


def is_dark() -> bool:
    """By the palette, which is what everything is painted with."""
    palette = QGuiApplication.palette()
    return (
        palette.color(QPalette.ColorRole.Window).lightness() < palette.color(QPalette.ColorRole.Text).lightness()
    )
