"""The painted items of a plot: axes below its curves; markers, level, threshold and pointer line above."""

import math
from dataclasses import dataclass, field

import pyqtgraph as pg
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPainter, QPalette, QPen
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from edgeopt_gui.plots.spec import Marker
from edgeopt_gui.plots.ticks import Ticks, clock_text
from edgeopt_gui.theme import colours

_Role = QPalette.ColorRole
_MAX_ROWS = 3
"""Most rows of marker labels, one below the other."""


@dataclass
class Shown:
    """The present state of one plot, in its own units; the plot changes it and both items read it."""

    begin_s: float = 0.0
    end_s: float = 1.0
    low: float = 0.0
    high: float = 1.0
    logarithmic: bool = False
    times: Ticks = field(default_factory=list)
    values: Ticks = field(default_factory=list)
    markers: tuple[Marker, ...] = ()
    timed: bool = False
    """Whether the labels of the times stand below."""
    named: bool = False
    """Whether the markers' labels stand here."""
    level: tuple[float, str] | None = None
    threshold: tuple[float, str] | None = None
    pointer_s: float | None = None

    def on_axis(self, value: float) -> float:
        """Returns the drawn position of a value; on a logarithmic axis, both ends must be above 0."""
        return math.log10(max(value, self.low)) if self.logarithmic else value


class _Layer(QGraphicsItem):
    """Paints in the pixels of the item whose child it is."""

    def __init__(self, parent: QGraphicsItem, area: pg.ViewBox, shown: Shown, height: float) -> None:
        super().__init__(parent)
        self._area = area
        self._shown = shown
        self.setZValue(height)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)

    @property
    def area(self) -> QRectF:
        """Rectangle of the curves."""
        rect: QRectF = self._area.rect()
        return rect

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        return self.area

    def resized(self) -> None:
        self.prepareGeometryChange()

    def _x(self, time_s: float) -> float:
        rect = self.area
        return rect.left() + rect.width() * (time_s - self._shown.begin_s) / (
            self._shown.end_s - self._shown.begin_s
        )

    def _y(self, value: float) -> float:
        rect, shown = self.area, self._shown
        low, high = shown.on_axis(shown.low), shown.on_axis(shown.high)
        return rect.bottom() - rect.height() * (shown.on_axis(value) - low) / (high - low)


class Axes(_Layer):
    """The lines and labels of both axes, around the area that clips the curves."""

    @property
    def area(self) -> QRectF:
        rect: QRectF = self._area.geometry()
        return rect

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        rect: QRectF = self.parentItem().boundingRect()
        return rect

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        rect, palette, metrics = self.area, QGuiApplication.palette(), painter.fontMetrics()
        columns = [(round(self._x(at)), text) for at, text in self._shown.times]
        rows = [(round(self._y(at)), text) for at, text in self._shown.values]
        lines = [QLineF(x, rect.top(), x, rect.bottom()) for x, _ in columns]
        lines += [QLineF(rect.left(), y, rect.right(), y) for y, _ in rows]
        painter.setPen(QPen(palette.color(_Role.Midlight), 1))
        painter.drawLines(lines)
        painter.setPen(palette.color(_Role.PlaceholderText))
        for y, text in rows:
            left = rect.left() - metrics.horizontalAdvance(text) - metrics.height() // 3
            painter.drawText(round(left), y + metrics.ascent() // 2 - 1, text)
        if self._shown.timed:
            for x, text in columns:
                half = metrics.horizontalAdvance(text) // 2
                if rect.left() <= x - half and x + half <= rect.right() + metrics.height() // 2:
                    painter.drawText(x - half, round(rect.bottom()) + metrics.height() + 1, text)
            if self._shown.pointer_s is not None:
                self._paint_pointer(painter, self._shown.pointer_s)

    def _paint_pointer(self, painter: QPainter, time_s: float) -> None:
        """Paints the time at the pointer over the labels of the axis."""
        rect, palette, metrics = self.area, QGuiApplication.palette(), painter.fontMetrics()
        text = clock_text(time_s)
        width = metrics.horizontalAdvance(text) + metrics.height()
        left = min(max(self._x(time_s) - width / 2, rect.left()), rect.right() - width)
        box = QRectF(left, rect.bottom() + 1, width, metrics.height() + 4)
        painter.fillRect(box, palette.color(_Role.Text))
        painter.setPen(palette.color(_Role.Base))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


class Notes(_Layer):
    """Markers with their labels, the level, the line under the pointer."""

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        rect = self.area
        painter.setClipRect(rect)
        palette = QGuiApplication.palette()
        if self._shown.level is not None:
            self._paint_level(painter, *self._shown.level)
        self._paint_markers(painter, palette)
        if self._shown.threshold is not None:
            self._paint_threshold(painter, *self._shown.threshold)
        if self._shown.pointer_s is not None:
            painter.setPen(QPen(palette.color(_Role.Text), 1))
            x = round(self._x(self._shown.pointer_s))
            painter.drawLine(QLineF(x, rect.top(), x, rect.bottom()))

    def _paint_level(self, painter: QPainter, value: float, label: str) -> None:
        if not self._shown.low <= value <= self._shown.high:
            return
        rect, y = self.area, round(self._y(value))
        painter.setPen(QPen(colours.muted(), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QLineF(rect.left(), y, rect.right(), y))
        metrics = painter.fontMetrics()
        height, width = metrics.height(), metrics.horizontalAdvance(label) + 8
        top = y - height - 1 if y - height > rect.top() else y + 2
        painter.fillRect(QRectF(rect.left() + 4, top, width, height), _veiled())
        painter.drawText(round(rect.left()) + 8, round(top) + metrics.ascent(), label)

    def threshold_y(self) -> float | None:
        """Returns the threshold's line in pixels, limited to the area; None without a threshold."""
        if self._shown.threshold is None:
            return None
        value = min(max(self._shown.threshold[0], self._shown.low), self._shown.high)
        return min(max(self._y(value), self.area.top() + 1), self.area.bottom() - 1)

    def value_at(self, y: float) -> float:
        """Returns the value at a height in the area."""
        rect, shown = self.area, self._shown
        low, high = shown.on_axis(shown.low), shown.on_axis(shown.high)
        share = min(max((rect.bottom() - y) / max(rect.height(), 1.0), 0.0), 1.0)
        at = low + share * (high - low)
        return 10.0**at if shown.logarithmic else at

    def _paint_threshold(self, painter: QPainter, value: float, label: str) -> None:
        """Paints the threshold with its label on the right, where it does not cover that of a level."""
        y = self.threshold_y()
        if y is None:
            return
        rect, metrics = self.area, painter.fontMetrics()
        beyond = " ↑" if value > self._shown.high else " ↓" if value < self._shown.low else ""
        painter.setPen(QPen(colours.bad(), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QLineF(rect.left(), round(y), rect.right(), round(y)))
        width = metrics.horizontalAdvance(label + beyond) + 8
        top = y - metrics.height() - 1 if y - metrics.height() > rect.top() else y + 2
        painter.fillRect(QRectF(rect.right() - width - 4, top, width, metrics.height()), _veiled())
        painter.drawText(round(rect.right() - width), round(top) + metrics.ascent(), label + beyond)

    def _paint_markers(self, painter: QPainter, palette: QPalette) -> None:
        rect, metrics = self.area, painter.fontMetrics()
        rows = min(_MAX_ROWS, max(1, int(rect.height() / (4 * metrics.height()))))
        free = [rect.right()] * rows
        # Newest first: old markers lose their labels if there is no room for all.
        for marker in reversed(self._shown.markers):
            x = round(self._x(marker.time_s))
            if not rect.left() <= x <= rect.right():
                continue
            painter.setPen(QPen(colours.muted(), 1, Qt.PenStyle.DotLine))
            painter.drawLine(QLineF(x, rect.top(), x, rect.bottom()))
            width = metrics.horizontalAdvance(marker.label) + 8
            left = min(x + 1.0, rect.right() - width)
            row = next((k for k in range(rows) if left + width <= free[k]), None)
            if row is None or not self._shown.named:
                continue
            top = rect.top() + 1 + row * metrics.height()
            painter.fillRect(QRectF(left, top, width, metrics.height()), _veiled())
            painter.setPen(palette.color(_Role.Text))
            painter.drawText(round(left) + 4, round(top) + metrics.ascent(), marker.label)
            free[row] = left


def _veiled() -> QColor:
    """Lets curves shine through below letters, and the letters stay readable."""
    veil = QColor(QGuiApplication.palette().color(_Role.Base))
    veil.setAlpha(130)
    return veil
