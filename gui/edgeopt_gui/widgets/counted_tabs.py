"""Tabs with a count in each title; the counts are left out where not all tabs have room with them."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QTabBar, QTabWidget, QWidget

_READABLE = 0.9
"""Titles are cut to this share of their width at the most; then the tabs scroll."""


class FocusTabBar(QTabBar):
    """Draws a frame around the current tab while it has the focus."""

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        super().paintEvent(event)
        if self.hasFocus():
            with QPainter(self) as painter:
                painter.setPen(self.palette().color(QPalette.ColorRole.Accent))
                painter.drawRect(self.tabRect(self.currentIndex()).adjusted(1, 1, -2, -2))


class CountedTabs(QTabWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setTabBar(FocusTabBar())
        self.setDocumentMode(True)
        self._titles: dict[QWidget, str] = {}
        self._shorter: dict[QWidget, str] = {}
        self._counts: dict[QWidget, str] = {}

    def add(self, page: QWidget, title: str, shorter: str = "", at: int = -1) -> None:
        """Adds a tab, at the end by default; `shorter` is its title if even titles without counts have no room."""
        self._titles[page], self._shorter[page] = title, shorter or title
        self.insertTab(at, page, title)
        self._retitle()

    def remove(self, page: QWidget) -> None:
        self.removeTab(self.indexOf(page))
        del self._titles[page], self._shorter[page]
        self._retitle()

    def set_count(self, page: QWidget, count: str) -> None:
        """Sets the count in a tab's title; "" for none."""
        self._counts[page] = f" ({count})" if count else ""
        self._retitle()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._retitle()

    def _retitle(self) -> None:
        corner = self.cornerWidget()
        room = self.width()
        if corner is not None and not corner.isHidden():
            room -= corner.sizeHint().width()
        counted = {page: title + self._counts.get(page, "") for page, title in self._titles.items()}
        for titles in (counted, self._titles, self._shorter):
            for page, title in titles.items():
                self.setTabText(self.indexOf(page), title)
            if not self.isVisible() or self.tabBar().sizeHint().width() <= room:
                return
        scrolls = self.tabBar().sizeHint().width() * _READABLE > room
        self.setUsesScrollButtons(scrolls)
        self.setElideMode(Qt.TextElideMode.ElideNone if scrolls else Qt.TextElideMode.ElideRight)
