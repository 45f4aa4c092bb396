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
    """Whether the palette is dark, that is, the background is darker than the text."""
    palette = QGuiApplication.palette()
    return (
        palette.color(QPalette.ColorRole.Window).lightness() < palette.color(QPalette.ColorRole.Text).lightness()
    )
