"""What the colours of the graph mean."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

_GAP = 14


class Legend(QWidget):
    """Squares with words; those for which there is no room are left out at the end, and the tooltip has all."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: tuple[tuple[str, str], ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_entries(self, entries: Sequence[tuple[str, str]]) -> None:
        self.entries = tuple(entries)
        words = ", ".join(text for _, text in entries)
        self.setAccessibleName(f"Legend: {words}")
        self.setToolTip(words)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(200, round(self.fontMetrics().height() * 1.5))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(60, round(self.fontMetrics().height() * 1.5))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        side = round(self.fontMetrics().height() * 0.7)
        x = 0
        for colour, text in self.entries:
            wide = side + 6 + self.fontMetrics().horizontalAdvance(text)
            if x + wide > self.width():
                break
            painter.setPen(self.palette().color(QPalette.ColorRole.Mid))
            painter.setBrush(QColor(colour))
            painter.drawRect(x, (self.height() - side) // 2, side, side)
            painter.setPen(self.palette().color(QPalette.ColorRole.Text))
            place = self.rect().adjusted(x + side + 6, 0, 0, 0)
            painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
            x += wide + _GAP
        painter.end()
