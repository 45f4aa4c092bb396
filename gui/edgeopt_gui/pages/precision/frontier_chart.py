"""The frontier of plans: time against accuracy, with measured points filled and expected ones hollow."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QWidget

from edgeopt.views.words import milliseconds
from edgeopt_gui.pages.precision.rows import PlanPoint
from edgeopt_gui.theme import colours

CHOSEN, MEASURED, EXPECTED = "chosen", "measured", "expected"
_TOP_DB = 100.0
"""Greater ratios are drawn at the top, so that they do not squeeze the others."""
_RADIUS, _REACH = 5.0, 14.0
_STEPS_DB = (5, 10, 20, 40)
_MAX_LINES = 6
_LINES = 13


def kind_of(point: PlanPoint) -> str:
    """Returns the word for a point in the legend."""
    return CHOSEN if point.chosen else MEASURED if point.measured else EXPECTED


class FrontierChart(QWidget):
    """The slow and exact plans are on the left, the fast ones on the right, as on the slider below."""

    clicked = Signal(int)
    """The index of a point."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Accuracy and time of the plans")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the slider below does the same by keyboard
        self.setFixedHeight(self.fontMetrics().height() * _LINES)
        self.points: Sequence[PlanPoint] = ()
        self.current = 0
        self._floor_db: float | None = None

    def show_points(self, points: Sequence[PlanPoint], floor_db: float | None) -> None:
        self.points, self._floor_db = points, floor_db
        self.update()

    def pick(self, index: int) -> None:
        """Rings the point of this index."""
        self.current = index
        self.update()

    def legend(self) -> tuple[str, ...]:
        """Returns the kinds of points that are drawn."""
        kinds = {kind_of(point) for point in self.points}
        return tuple(kind for kind in (CHOSEN, MEASURED, EXPECTED) if kind in kinds)

    def place(self, index: int) -> QPointF:
        """Returns the position of a point in the widget."""
        box, point = self._box(), self.points[index]
        slow = max(each.expected_ms for each in self.points)
        width = slow - min(each.expected_ms for each in self.points)
        share = (slow - point.expected_ms) / width if width > 0 else 0.5
        return QPointF(box.left() + box.width() * share, self._y(box, point.shown_db))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        near = [((self.place(i) - event.position()).manhattanLength(), i) for i in range(len(self.points))]
        distance, index = min(near, default=(_REACH + 1, 0))
        if distance <= _REACH:
            self.clicked.emit(index)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        if not self.points:
            return
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._draw_axes(painter)
            places = [self.place(index) for index in range(len(self.points))]
            painter.setPen(QPen(colours.muted(), 1))
            painter.drawPolyline(places)
            for index, point in enumerate(self.points):
                self._draw_dot(painter, places[index], kind_of(point))
                if index == self.current:
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    painter.setPen(QPen(self.palette().color(QPalette.ColorRole.Highlight), 2))
                    painter.drawEllipse(places[index], _RADIUS * 2, _RADIUS * 2)
            self._draw_legend(painter)

    def _box(self) -> QRectF:
        line = self.fontMetrics().height()
        return QRectF(self.rect()).adjusted(line * 4.5, line * 2, -line * 2, -line * 1.5)

    def _span_db(self) -> tuple[float, float]:
        values = [point.shown_db for point in self.points if point.shown_db < _TOP_DB]
        values += [self._floor_db] if self._floor_db else []
        low, high = min(values, default=0.0), max(values, default=_TOP_DB)
        room = max(2.0, (high - low) * 0.1)
        return low - room, high + 2 * room

    def _y(self, box: QRectF, value_db: float) -> float:
        low, high = self._span_db()
        return box.bottom() - box.height() * (min(high, value_db) - low) / (high - low)

    def _draw_axes(self, painter: QPainter) -> None:
        box, line = self._box(), self.fontMetrics().height()
        quiet = self.palette().color(QPalette.ColorRole.PlaceholderText)
        grid = QColor(quiet)
        grid.setAlphaF(0.25)
        low, high = self._span_db()
        step = next((each for each in _STEPS_DB if (high - low) / each <= _MAX_LINES), _STEPS_DB[-1])
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for value in range(round(low // step + 1) * step, round(high) + 1, step):
            y = self._y(box, value)
            if y < box.top() + line:
                continue  # the top is for greater ratios
            painter.setPen(QPen(grid, 1, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
            painter.setPen(quiet)
            painter.drawText(QRectF(0, y - line / 2, box.left() - line / 2, line), right, f"{value} dB")
        if any(point.shown_db >= _TOP_DB for point in self.points):
            painter.setPen(quiet)
            painter.drawText(
                QRectF(0, box.top() - line / 2, box.left() - line / 2, line), right, f"≥ {_TOP_DB:g} dB"
            )
        painter.drawText(QPointF(line / 2, line), "Accuracy")
        slow, fast = max(p.expected_ms for p in self.points), min(p.expected_ms for p in self.points)
        below = QRectF(box.left(), box.bottom() + line / 3, box.width(), line)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, milliseconds(slow))
        painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, "Expected time")
        painter.drawText(below, Qt.AlignmentFlag.AlignRight, milliseconds(fast))
        if self._floor_db:
            y = self._y(box, self._floor_db)
            painter.setPen(QPen(colours.bad(), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
            painter.drawText(QPointF(box.left() + 4, y - 3), f"floor {self._floor_db:g} dB")

    def _draw_dot(self, painter: QPainter, at: QPointF, kind: str) -> None:
        colour = colours.good() if kind == CHOSEN else colours.series(0)
        painter.setPen(QPen(colour, 1.5))
        painter.setBrush(self.palette().color(QPalette.ColorRole.Window) if kind == EXPECTED else colour)
        painter.drawEllipse(at, _RADIUS, _RADIUS)

    def _draw_legend(self, painter: QPainter) -> None:
        line = self.fontMetrics().height()
        right = self.width() - line / 2
        for kind in reversed(self.legend()):
            right -= self.fontMetrics().horizontalAdvance(kind)
            painter.setPen(self.palette().color(QPalette.ColorRole.Text))
            painter.drawText(QPointF(right, line), kind)
            right -= 2 * _RADIUS
            self._draw_dot(painter, QPointF(right, line - self.fontMetrics().xHeight() / 2), kind)
            right -= line
