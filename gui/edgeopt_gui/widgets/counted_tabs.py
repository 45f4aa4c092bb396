"""Tabs with a count in each title; the counts are left out where not all tabs have room with them."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTabWidget, QWidget

_READABLE = 0.8
"""Titles are cut to this share of their width at the most; then the tabs scroll."""


class CountedTabs(QTabWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setDocumentMode(True)
        self._titles: dict[QWidget, tuple[str, str]] = {}

    def add(self, page: QWidget, title: str) -> None:
        self._titles[page] = (title, "")
        self.addTab(page, title)

    def set_count(self, page: QWidget, count: str) -> None:
        """ "" for a tab that says none."""
        title, _ = self._titles[page]
        self._titles[page] = (title, count)
        self._retitle()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._retitle()

    def _retitle(self) -> None:
        self._write(counted=True)
        room = self.width() - self._corner_width()
        if not self.isVisible() or self.tabBar().sizeHint().width() <= room:
            return
        self._write(counted=False)
        scrolls = self.tabBar().sizeHint().width() * _READABLE > room
        self.setUsesScrollButtons(scrolls)
        self.setElideMode(Qt.TextElideMode.ElideNone if scrolls else Qt.TextElideMode.ElideRight)

    def _write(self, *, counted: bool) -> None:
        for page, (title, count) in self._titles.items():
            whole = f"{title} ({count})" if count else title
            place = self.indexOf(page)
            self.setTabText(place, whole if counted else title)

    def _corner_width(self) -> int:
        corner = self.cornerWidget()
        return corner.sizeHint().width() if corner is not None and not corner.isHidden() else 0
