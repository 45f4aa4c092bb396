"""A chart of horizontal bars: a name, a bar, a number; one of them can be chosen by mouse or keyboard."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFont, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

_LABEL_SHARE = 0.45
"""The largest share of the width for the names."""
_MARGIN = 2
_STEPS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -8, Qt.Key.Key_PageDown: 8}
_CHOOSE = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


@dataclass(frozen=True, slots=True)
class Bar:
    key: str
    label: str
    value: float
    text: str
    """The value as it is shown."""
    tip: str = ""


class BarChart(QWidget):
    chosen = Signal(str)
    """Key of the chosen bar; "" if none is chosen any more."""
    moved = Signal(QRect)
    """The position of the bar under the cursor, so that a scroll area can show it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._bars: tuple[Bar, ...] = ()
        self._current = 0
        self._choice = ""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._describe()

    @property
    def bars(self) -> tuple[Bar, ...]:
        return self._bars

    @property
    def choice(self) -> str:
        return self._choice

    def set_bars(self, bars: Sequence[Bar]) -> None:
        self._bars, self._current, self._choice = tuple(bars), 0, ""
        self.updateGeometry()
        self._describe()

    def choose(self, key: str) -> None:
        """Chooses a bar, or none if it is chosen already."""
        self._choice = "" if key == self._choice else key
        self.chosen.emit(self._choice)
        self._describe()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.fontMetrics().averageCharWidth() * 36, self._line() * len(self._bars))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.fontMetrics().averageCharWidth() * 20, self._line() * len(self._bars))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        key, last = Qt.Key(event.key()), len(self._bars) - 1
        if last < 0:
            super().keyPressEvent(event)
        elif key in _STEPS:
            self._move(min(last, max(0, self._current + _STEPS[key])))
        elif key in {Qt.Key.Key_Home, Qt.Key.Key_End}:
            self._move(0 if key == Qt.Key.Key_Home else last)
        elif key in _CHOOSE:
            self.choose(self._bars[self._current].key)
        elif key == Qt.Key.Key_Escape and self._choice:
            self.choose(self._choice)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        place = self._at(event)
        if place is not None and event.button() == Qt.MouseButton.LeftButton:
            self._move(place)
            self.choose(self._bars[place].key)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        place = self._at(event)
        self.setToolTip(self._bars[place].tip if place is not None else "")

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusInEvent(event)
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            line, letter = self._line(), self.fontMetrics().averageCharWidth()
            bold = QFont(self.font())
            bold.setBold(True)
            widths = [QFontMetrics(bold).horizontalAdvance(bar.label) for bar in self._bars]
            label_width = min(max(widths, default=0) + letter, round(self.width() * _LABEL_SHARE))
            number_width = max((self.fontMetrics().horizontalAdvance(bar.text) for bar in self._bars), default=0)
            maximum = max((bar.value for bar in self._bars), default=0) or 1
            room = max(1, self.width() - label_width - number_width - 3 * letter)
            for place, bar in enumerate(self._bars):
                box = QRect(0, place * line, self.width(), line)
                painter.setFont(bold if bar.key == self._choice else self.font())
                self._paint_texts(painter, bar, box.adjusted(_MARGIN, 0, -_MARGIN, 0), label_width)
                width = max(2.0, room * bar.value / maximum) if bar.value else 0.0
                self._paint_bar(
                    painter, bar, QRectF(label_width + letter, box.top() + line * 0.2, width, line * 0.6)
                )
                if self.hasFocus() and place == self._current:
                    painter.setPen(self.palette().color(QPalette.ColorRole.Accent))
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    painter.drawRoundedRect(QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)

    def _paint_texts(self, painter: QPainter, bar: Bar, box: QRect, label_width: int) -> None:
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        label = painter.fontMetrics().elidedText(bar.label, Qt.TextElideMode.ElideMiddle, label_width)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, label)
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, bar.text)

    def _paint_bar(self, painter: QPainter, bar: Bar, box: QRectF) -> None:
        colour = self.palette().color(QPalette.ColorRole.Accent)
        if self._choice not in {"", bar.key}:
            colour.setAlphaF(0.3)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawRoundedRect(box, 2, 2)

    def _line(self) -> int:
        return round(self.fontMetrics().height() * 1.5)

    def _at(self, event: QMouseEvent) -> int | None:
        place = int(event.position().y()) // self._line()
        return place if 0 <= place < len(self._bars) else None

    def _move(self, place: int) -> None:
        self._current = place
        self.moved.emit(QRect(0, place * self._line(), 1, self._line()))
        self._describe()

    def _describe(self) -> None:
        """Sets the texts for screen readers: the current bar as the name, all bars as the description."""
        name = self._name
        if self._bars:
            bar = self._bars[self._current]
            name = f"{name}. {bar.label}: {bar.text}{', chosen' if bar.key == self._choice else ''}"
        self.setAccessibleName(name)
        self.setAccessibleDescription(", ".join(f"{bar.label} {bar.text}" for bar in self._bars))
        self.update()
