"""One live value: its name, the value now, and a small curve of the last minutes."""

from collections import deque

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.reading import Reading

KEPT = 120
_KNOWN, _UNKNOWN = QPalette.ColorRole.WindowText, QPalette.ColorRole.PlaceholderText


class Gauge(QWidget):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._text, self._note = quiet(name), heading("…", 1), quiet()
        self.curve = Sparkline()
        self._text.setWordWrap(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(self.fontMetrics().height() // 4)
        for widget in (self._name, self._text, self.curve, self._note):
            layout.addWidget(widget)
        layout.addStretch()

    @property
    def text(self) -> str:
        return self._text.text()

    @property
    def note(self) -> str:
        return self._note.text()

    def show_reading(self, reading: Reading) -> None:
        self._text.setText(reading.text)
        self._text.setForegroundRole(_KNOWN if reading.value is not None else _UNKNOWN)
        self._note.setText(reading.note)
        self._note.setToolTip(reading.note)
        self.curve.add(reading.value, reading.top)
        self.curve.setVisible(self.curve.known)
        self.setAccessibleName(f"{reading.name}: {reading.text}. {reading.note}")


class Sparkline(QWidget):
    """The last values, the newest at the right end; no axis, because the value is beside it."""

    def __init__(self) -> None:
        super().__init__()
        self._values: deque[float | None] = deque(maxlen=KEPT)
        self._top: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def known(self) -> bool:
        return any(value is not None for value in self._values)

    @property
    def values(self) -> tuple[float | None, ...]:
        return tuple(self._values)

    def add(self, value: float | None, top: float | None) -> None:
        self._values.append(value)
        self._top = top
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.fontMetrics().averageCharWidth() * 16, self.fontMetrics().height() * 2)

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            palette = self.palette()
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Mid), 1))
            painter.drawLine(0, self.height() - 1, self.width(), self.height() - 1)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            colour = palette.color(QPalette.ColorRole.Accent)
            fill = palette.color(QPalette.ColorRole.Accent)
            fill.setAlphaF(0.18)
            for line in self._lines():
                area = QPolygonF(
                    [QPointF(line[0].x(), self.height()), *line, QPointF(line[-1].x(), self.height())]
                )
                painter.setPen(QPen(fill, 0))
                painter.setBrush(fill)
                painter.drawPolygon(area)
                painter.setPen(QPen(colour, 1.5))
                if len(line) == 1:
                    painter.setBrush(colour)
                    painter.drawEllipse(QRectF(line[0].x() - 2, line[0].y() - 1, 2, 2))
                painter.drawPolyline(QPolygonF(line))

    def _lines(self) -> list[list[QPointF]]:
        """Returns the curve in pixels, in pieces that end at missing values."""
        known = [value for value in self._values if value is not None]
        top = self._top or max(known, default=0.0) or 1.0
        step = self.width() / (KEPT - 1)
        first = self.width() - step * (len(self._values) - 1)
        height = self.height() - 2
        lines: list[list[QPointF]] = [[]]
        for place, value in enumerate(self._values):
            if value is None:
                lines.append([])
            else:
                lines[-1].append(QPointF(first + place * step, 1 + height * (1 - min(1.0, value / top))))
        return [line for line in lines if line]
