"""Short words, each in a frame of its own, in as many lines as they need."""

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget


class Chips(QWidget):
    INSET = 2
    """Space above the text of the first line, in pixels."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._words = tuple(words)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName(", ".join(words))

    @property
    def words(self) -> tuple[str, ...]:
        return self._words

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        places = self._places(width)
        return places[-1].bottom() + 1 if places else 0

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        width = self.fontMetrics().averageCharWidth() * 44
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        widest = max((place.width() for place in self._places(0)), default=0)
        return QSize(widest, self.fontMetrics().height())

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            palette = self.palette()
            for word, place in zip(self._words, self._places(self.width()), strict=True):
                painter.setPen(palette.color(QPalette.ColorRole.Mid))
                painter.setBrush(palette.brush(QPalette.ColorRole.Base))
                # Half a pixel in: the frame is one pixel wide and must not be cut off.
                frame = place.toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
                painter.drawRoundedRect(frame, place.height() / 4, place.height() / 4)
                painter.setPen(palette.color(QPalette.ColorRole.Text))
                painter.drawText(place, Qt.AlignmentFlag.AlignCenter, word)

    def _places(self, width: int) -> list[QRect]:
        metrics = self.fontMetrics()
        letter, height = metrics.averageCharWidth(), metrics.height() + 2 * self.INSET
        gap = letter * 2 // 3
        x = y = 0
        places = []
        for word in self._words:
            wide = metrics.horizontalAdvance(word) + 2 * letter
            if x and x + wide > width:
                x, y = 0, y + height + gap
            places.append(QRect(x, y, wide, height))
            x += wide + gap
        return places
