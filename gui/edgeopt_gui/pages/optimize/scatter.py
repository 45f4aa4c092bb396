"""Speed against accuracy: a point for each candidate, to click."""

from collections.abc import Iterable
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from edgeopt.views.words import decibels, ratio
from edgeopt_gui.pages.optimize.board import Row, axis
from edgeopt_gui.pages.optimize.words import short_name
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.speed_axis import place_on, ticks

MAX_DB = 120.0
"""More is drawn here: the outputs are equal but for rounding."""
_STEP_DB = 20
_RADIUS, _REACH = 5.0, 12.0
_MIN_DB = 20.0


class Dot(NamedTuple):
    name: str
    speed: float
    accuracy_db: float
    row: Row


def dots(rows: Iterable[Row]) -> list[Dot]:
    """Candidates with both figures, the slowest first."""
    found = [
        Dot(row.name, speed, min(MAX_DB, row.accuracy_db), row)
        for row in rows
        if (speed := row.interval[1]) and row.accuracy_db is not None
    ]
    return sorted(found, key=lambda dot: dot.speed)


WINNER, FRONT, SLOWER, REJECTED = "winner", "Pareto front", "beaten by another", "rejected"
KINDS = (WINNER, FRONT, SLOWER, REJECTED)


def kind_of(row: Row) -> str:
    """Returns the word for a candidate's point in the legend."""
    if row.leads:
        return WINNER
    if row.front:
        return FRONT
    return REJECTED if row.out and row.status != "lost" else SLOWER


def _look_of(row: Row) -> tuple[QColor, bool]:
    """Returns the colour of a candidate's point, and whether the point is filled."""
    kind = kind_of(row)
    if kind == WINNER:
        return colours.good(), True
    return (colours.muted() if kind == REJECTED else colours.series(0)), kind == FRONT


class Scatter(QWidget):
    clicked = Signal(str)
    """The name of the candidate."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Speed against accuracy")
        self.setMouseTracking(True)
        self.dots: list[Dot] = []
        self.picked = ""
        self._span = (0.5, 2.0)
        self._floor_db: float | None = None

    def show_rows(self, rows: Iterable[Row], floor_db: float | None = None) -> None:
        known = list(rows)
        self.dots, self._span, self._floor_db = dots(known), axis(known), floor_db
        self.setAccessibleDescription(f"{len(self.dots)} candidates; the arrow keys go from one to the next.")
        self.update()

    def pick(self, name: str) -> None:
        """Rings the point of this candidate."""
        if name != self.picked:
            self.picked = name
            self.update()

    def place(self, dot: Dot) -> QPointF:
        box = self._box()
        x = box.left() + box.width() * place_on(self._span, dot.speed)
        return QPointF(x, self._y(box, dot.accuracy_db))

    def dot_at(self, where: QPointF) -> Dot | None:
        """Returns the nearest dot within reach; None if there is none."""
        near = [((self.place(dot) - where).manhattanLength(), place) for place, dot in enumerate(self.dots)]
        distance, place = min(near, default=(_REACH + 1, 0))
        return self.dots[place] if distance <= _REACH else None

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        self._click(self.dot_at(event.position()))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        step = steps.get(Qt.Key(event.key()))
        if step is None or not self.dots:
            super().keyPressEvent(event)
            return
        names = [dot.name for dot in self.dots]
        now = names.index(self.picked) + step if self.picked in names else 0
        self._click(self.dots[min(len(names) - 1, max(0, now))])

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            dot = self.dot_at(QPointF(event.pos()))
            tooltip = f"{short_name(dot.name)}\n{ratio(dot.speed)}, {decibels(dot.row.accuracy_db)}" if dot else ""
            QToolTip.showText(event.globalPos(), tooltip, self)
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._draw_axes(painter, self._box())
            for dot in self.dots:
                self._draw_dot(painter, dot)
            self._draw_legend(painter)

    def _click(self, dot: Dot | None) -> None:
        if dot is not None:
            self.pick(dot.name)
            self.clicked.emit(dot.name)

    def _box(self) -> QRectF:
        line = self.fontMetrics().height()
        return QRectF(self.rect()).adjusted(line * 4.5, line * 1.8, -line * 1.5, -line * 2.5)

    def _y(self, box: QRectF, value_db: float) -> float:
        minimum = min([_MIN_DB, *(dot.accuracy_db for dot in self.dots)]) - _STEP_DB / 4
        share = (value_db - minimum) / (MAX_DB + _STEP_DB / 4 - minimum)
        return box.bottom() - box.height() * share

    def _draw_axes(self, painter: QPainter, box: QRectF) -> None:
        line = self.fontMetrics().height()
        quiet = self.palette().color(QPalette.ColorRole.PlaceholderText)
        grid = QColor(quiet)
        grid.setAlphaF(0.25)
        center = Qt.AlignmentFlag.AlignCenter
        for speed in ticks(self._span):
            x = box.left() + box.width() * place_on(self._span, speed)
            painter.setPen(QPen(quiet if speed == 1 else grid, 1, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(x, box.top()), QPointF(x, box.bottom()))
            painter.setPen(quiet)
            painter.drawText(QRectF(x - 40, box.bottom() + 2, 80, line), center, f"{speed:g}x")
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for value in range(0, round(MAX_DB) + 1, _STEP_DB):
            y = self._y(box, value)
            if y > box.bottom() + 1:
                continue
            painter.setPen(QPen(grid, 1, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
            painter.setPen(quiet)
            text = f"≥ {value} dB" if value == MAX_DB else f"{value} dB"
            painter.drawText(QRectF(0, y - line / 2, box.left() - 6, line), right, text)
        painter.drawText(QRectF(box.left(), box.bottom() + line, box.width(), line * 1.4), center, "Speed")
        painter.drawText(QPointF(6, line), "Accuracy")
        if self._floor_db:
            y = self._y(box, self._floor_db)
            painter.setPen(QPen(colours.bad(), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
            painter.drawText(QPointF(box.left() + 4, y - 3), f"floor {self._floor_db:g} dB")

    def legend(self) -> list[tuple[str, QColor, bool]]:
        """Returns the word, the colour and whether it is filled for each kind of point that is drawn."""
        kinds = {kind_of(dot.row): _look_of(dot.row) for dot in self.dots}
        return [(kind, *kinds[kind]) for kind in KINDS if kind in kinds]

    def _draw_legend(self, painter: QPainter) -> None:
        line = self.fontMetrics().height()
        right = self.width() - line / 2
        for kind, colour, filled in reversed(self.legend()):
            right -= self.fontMetrics().horizontalAdvance(kind)
            painter.setPen(self.palette().color(QPalette.ColorRole.Text))
            painter.drawText(QPointF(right, line), kind)
            right -= 2 * _RADIUS
            painter.setPen(QPen(colour, 1.5))
            painter.setBrush(colour if filled else Qt.BrushStyle.NoBrush)
            painter.drawEllipse(QPointF(right, line - self.fontMetrics().xHeight() / 2), _RADIUS, _RADIUS)
            right -= line

    def _draw_dot(self, painter: QPainter, dot: Dot) -> None:
        at, row = self.place(dot), dot.row
        colour, filled = _look_of(row)
        painter.setPen(QPen(colour, 1.5))
        painter.setBrush(colour if filled else Qt.BrushStyle.NoBrush)
        painter.drawEllipse(at, _RADIUS, _RADIUS)
        if dot.name == self.picked:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self.palette().color(QPalette.ColorRole.Highlight), 2))
            painter.drawEllipse(at, _RADIUS * 2, _RADIUS * 2)
        if row.leads or dot.name == self.picked:
            painter.setPen(self.palette().color(QPalette.ColorRole.Text))
            text = short_name(dot.name)
            wide = self.fontMetrics().horizontalAdvance(text)
            x = min(at.x() + _RADIUS * 2, self.width() - wide - 4.0)
            painter.drawText(QPointF(x, at.y() - _RADIUS * 2), text)
