"""The legend of the graph's colours."""

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

from edgeopt_gui.theme import colours

_GAP = 14


class Legend(QWidget):
    """Squares with words, in as many lines as they need."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: tuple[tuple[str, str], ...] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def set_entries(self, entries: Sequence[tuple[str, str]]) -> None:
        self.entries = tuple(entries)
        self.setAccessibleName(f"Legend: {', '.join(text for _, text in entries)}")
        self.setVisible(bool(entries))
        self.updateGeometry()
        self.update()

    def places(self, width: int) -> Iterator[QRect]:
        """Yields the rectangle of each entry, with entries wrapped at `width` pixels."""
        x = y = 0
        line = round(self.fontMetrics().height() * 1.3)
        for _, text in self.entries:
            wide = line + self.fontMetrics().horizontalAdvance(text)
            if x and x + wide > width:
                x, y = 0, y + line
            yield QRect(x, y, wide, line)
            x += wide + _GAP

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        return max((place.bottom() + 1 for place in self.places(width)), default=0)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        width = max(self.width(), 200)
        return QSize(width, self.heightForWidth(width))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            side = round(self.fontMetrics().height() * 0.7)
            for (colour, text), place in zip(self.entries, self.places(self.width()), strict=True):
                painter.setPen(self.palette().color(QPalette.ColorRole.Mid))
                painter.setBrush(colours.swatch(colour))
                painter.drawRect(place.left(), place.top() + (place.height() - side) // 2, side, side)
                painter.setPen(self.palette().color(QPalette.ColorRole.Text))
                words = place.adjusted(side + 6, 0, 0, 0)
                painter.drawText(words, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
