"""The graph with its details: beside it in a wide window, below it in a narrow one."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

from edgeopt_gui.pages.graph.details import Details
from edgeopt_gui.widgets.icon_button import IconButton

_BESIDE_FROM = 50
"""Width of the page, in heights of a line, from which the details lie beside the graph."""
_PART_BESIDE, _PART_BELOW = 0.24, 0.4
"""Part of the width or height that the details take."""
_MIN_LINES, _MAX_LINES = 16, 22
"""Width of the details beside the graph, in heights of a line."""


class Panes(QSplitter):
    def __init__(self, graph: QWidget, details: Details) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.details = details
        self.button = toggle("panel", "Details", "Show the details when there are any")
        self.button.toggled.connect(lambda _: self.show_details())
        details.closed.connect(lambda: self.button.setChecked(False))
        self._opening = QTimer(self, singleShot=True)
        self._opening.timeout.connect(lambda: details.setVisible(self._has_details))
        self._sized_by_user = False
        self.splitterMoved.connect(self._moved)
        self.setChildrenCollapsible(False)
        self.addWidget(graph)
        self.addWidget(details)
        self.setStretchFactor(0, 1)
        details.hide()

    def show_details(self, *, after_clicks: bool = False) -> None:
        """Opens the details if there are any and the user has not closed them.

        `after_clicks`: wait until a double click is over, because the details could come between its two clicks.
        """
        shown = self._has_details
        if shown and after_clicks and self.details.isHidden():
            self._opening.start(QGuiApplication.styleHints().mouseDoubleClickInterval())
        else:
            self._opening.stop()
            self.details.setVisible(shown)

    @property
    def _has_details(self) -> bool:
        return self.button.isChecked() and self.details.has_content

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        line, width = self.fontMetrics().height(), self.width()
        way = Qt.Orientation.Vertical if width < line * _BESIDE_FROM else Qt.Orientation.Horizontal
        below = way == Qt.Orientation.Vertical
        if way != self.orientation():
            self._sized_by_user = False
            self.setOrientation(way)
            self.details.arrange(below=below)
        if self._sized_by_user:
            return
        whole = self.height() if below else width
        beside = min(line * _MAX_LINES, max(round(width * _PART_BESIDE), line * _MIN_LINES))
        part = round(whole * _PART_BELOW) if below else beside
        self.setSizes([whole - part, part])

    def _moved(self, _place: int, _border: int) -> None:
        self._sized_by_user = True


def toggle(picture: str, name: str, tip: str) -> IconButton:
    """Returns a button that shows or hides a part of the page, which is shown at first."""
    button = IconButton(picture, name, tip)
    button.setCheckable(True)
    button.setChecked(True)
    return button
