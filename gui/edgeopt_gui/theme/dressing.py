"""The stylesheet on the parts of a window: set at once on what is visible, and later on hidden pages."""

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QDialog, QStackedWidget, QWidget

from edgeopt_gui import theme
from edgeopt_gui.theme.scheme import NOTICE

# Longer than Qt takes from a change to the frame that shows it.
_PAUSE_MS = 20


class Dressing(QObject):
    """Dresses the parts of one window and the pages of its stack, and all of them again in another theme.

    The window itself has no stylesheet, because Qt would style every widget of every page again with it.
    """

    def __init__(self, pages: QStackedWidget, window: QWidget) -> None:
        super().__init__(window)
        self._pages = pages
        self._parts: list[QWidget] = []
        NOTICE.changed.connect(self._change)

    def add(self, part: QWidget) -> None:
        """Dresses a part of the window now and after each change of the theme."""
        if part not in self._parts:
            self._parts.append(part)
            part.destroyed.connect(lambda _=None: self._forget(part))
            dress(part)

    def _forget(self, part: QWidget) -> None:
        self._parts = [each for each in self._parts if each is not part]

    def _change(self) -> None:
        for part in self._parts:
            dress(part)
        for page in self._all_pages():
            if page is self._pages.currentWidget() or any(d.isVisible() for d in page.findChildren(QDialog)):
                dress(page)
        QTimer.singleShot(_PAUSE_MS, self, self._dress_one_more)

    def _dress_one_more(self) -> None:
        """Dresses a hidden page, and the next one after a pause in which a page that the user chose is painted."""
        undressed = (page for page in self._all_pages() if dress(page))
        if next(undressed, None) is not None:
            QTimer.singleShot(_PAUSE_MS, self, self._dress_one_more)

    def _all_pages(self) -> list[QWidget]:
        pages = (self._pages.widget(place) for place in range(self._pages.count()))
        return [page for page in pages if page is not None]


def dress(widget: QWidget) -> bool:
    """Sets the present stylesheet on a widget unless the widget has it; whether it had another one."""
    sheet = theme.sheet()
    if widget.styleSheet() == sheet:
        return False
    widget.setStyleSheet(sheet)
    return True
