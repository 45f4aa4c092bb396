"""Bars over a logarithmic axis, with named values above them, a threshold, and another one's outline."""

import math
from collections.abc import Sequence

from PySide6.QtCore import QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QWidget

from edgeopt_gui import theme
from edgeopt_gui.plots.scale import factors
from edgeopt_gui.plots.ticks import factor_ticks
from edgeopt_gui.theme import colours

_LINES_HIGH = 7
_MIN_BAR = 2.0
_BEYOND = 10
"""A threshold as many times the highest value, or more, is outside of the axis."""


class Histogram(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._low, self._high = 1.0, 10.0
        self._axis = (1.0, 10.0)
        self._counts: tuple[int, ...] = ()
        self._outline: tuple[int, ...] = ()
        self._marks: tuple[tuple[str, float], ...] = ()
        self._threshold: float | None = None
        self.setFixedHeight(self.fontMetrics().height() * _LINES_HIGH)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        theme.scheme_changed.connect(self.update)

    @property
    def counts(self) -> tuple[int, ...]:
        return self._counts

    @property
    def outline(self) -> tuple[int, ...]:
        return self._outline

    @property
    def marks(self) -> tuple[tuple[str, float], ...]:
        return self._marks

    def show_counts(
        self,
        low: float,
        high: float,
        counts: Sequence[int],
        marks: Sequence[tuple[str, float]],
        threshold: float | None,
        outline: Sequence[int] = (),
    ) -> None:
        """Counts of bins of equal factors from `low` to `high`; values are in the unit of the axis.

        `outline` has those of another distribution. Each is drawn by the share of its own runs.
        """
        self._low, self._high, self._threshold = low, high, threshold
        self._counts, self._marks, self._outline = tuple(counts), tuple(marks), tuple(outline)
        inside = threshold is not None and low / _BEYOND < threshold < high * _BEYOND
        ends = (low, high, threshold) if threshold is not None and inside else (low, high)
        self._axis = factors(min(ends), max(ends), None)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.fontMetrics().averageCharWidth() * 60, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            metrics, palette = self.fontMetrics(), self.palette()
            line = metrics.height()
            left = metrics.horizontalAdvance("0,000.00")  # as the curves above begin
            area = QRectF(left, 2 * line, self.width() - left - line // 2, self.height() - 3.5 * line)
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Midlight), 1))
            painter.drawLine(area.bottomLeft(), area.bottomRight())
            if not self._counts:
                return
            self._paint_ticks(painter, area)
            self._paint_bars(painter, area)
            if any(self._outline):
                self._paint_outline(painter, area)
            free = [area.left()] * 2
            for label, value in self._marks:
                self._paint_mark(painter, area, label, value, free)
            if self._threshold is not None and self._axis[0] <= self._threshold <= self._axis[1]:
                painter.setPen(QPen(colours.bad(), 1, Qt.PenStyle.DashLine))
                x = round(self._x(area, self._threshold))
                painter.drawLine(QLineF(x, area.top(), x, area.bottom()))

    def _x(self, area: QRectF, value: float) -> float:
        low, high = self._axis
        return area.left() + area.width() * math.log(value / low) / math.log(high / low)

    def _paint_ticks(self, painter: QPainter, area: QRectF) -> None:
        metrics, palette = self.fontMetrics(), self.palette()
        maximum = max(2, int(area.width() / (metrics.horizontalAdvance("0,000.00") * 1.5)))
        for value, text in factor_ticks(*self._axis, maximum):
            x = round(self._x(area, value))
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Midlight), 1))
            painter.drawLine(QLineF(x, area.top(), x, area.bottom()))
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            width = metrics.horizontalAdvance(text)
            at = min(max(x - width // 2, round(area.left()) - width // 2), round(area.right()) - width)
            painter.drawText(at, round(area.bottom()) + metrics.height() + 1, text)

    def _paint_bars(self, painter: QPainter, area: QRectF) -> None:
        highest, bins = self._highest_share() * sum(self._counts), len(self._counts)
        step = (self._high / self._low) ** (1 / bins)
        for place, count in enumerate(self._counts):
            if not count:
                continue
            begin = self._low * step**place
            left, right = round(self._x(area, begin)), round(self._x(area, begin * step))
            # The tail consists of few runs, so its bars are at least a pixel high.
            height = max(area.height() * count / highest, _MIN_BAR)
            over = self._threshold is not None and begin >= self._threshold
            colour = colours.bad() if over else colours.series(0)
            painter.fillRect(QRectF(left, area.bottom() - height, max(right - left - 1, 1), height), colour)

    def _highest_share(self) -> float:
        shares = (max(each) / sum(each) for each in (self._counts, self._outline) if any(each))
        return max(shares, default=1.0)

    def _paint_outline(self, painter: QPainter, area: QRectF) -> None:
        """Paints the other distribution as a line of steps, which differs from the bars in shape, too."""
        whole, highest = sum(self._outline), self._highest_share()
        step = (self._high / self._low) ** (1 / len(self._outline))
        path = QPainterPath()
        path.moveTo(self._x(area, self._low), area.bottom())
        for place, count in enumerate(self._outline):
            height = max(area.height() * count / whole / highest, _MIN_BAR if count else 0.0)
            for edge in (place, place + 1):
                path.lineTo(self._x(area, self._low * step**edge), area.bottom() - height)
        path.lineTo(self._x(area, self._high), area.bottom())
        painter.setPen(QPen(colours.series(1), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(path)

    def _paint_mark(self, painter: QPainter, area: QRectF, label: str, value: float, free: list[float]) -> None:
        """Paints a mark, with its label in the first of two rows that has room, or without it if none has."""
        metrics = self.fontMetrics()
        x = round(self._x(area, value))
        painter.setPen(QPen(colours.muted(), 1))
        width = metrics.horizontalAdvance(label) + 6
        left = min(max(x - width / 2, area.left()), area.right() - width)
        row = next((k for k in range(len(free)) if left >= free[k]), None)
        top = area.top() if row is None else area.top() - (1 - row) * metrics.height()
        painter.drawLine(QLineF(x, top, x, area.bottom()))
        if row is None:
            return
        free[row] = left + width
        painter.setPen(self.palette().color(QPalette.ColorRole.Text))
        base = round(area.top()) - (1 - row) * metrics.height() - metrics.descent()
        painter.drawText(round(left) + 3, base, label)
