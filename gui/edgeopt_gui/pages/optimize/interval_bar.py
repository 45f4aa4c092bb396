"""Draws the interval of a speed on an axis that all rows share, with a line where the source model is."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette, QPen
from PySide6.QtWidgets import (
    QApplication,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionHeader,
    QStyleOptionViewItem,
)

from edgeopt_gui.pages.optimize.board import Row, place_on
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.records import ROW_ROLE

_MARGIN = 8


_TICKS = tuple(step * 10.0**power for power in (-2, -1, 0, 1, 2) for step in (1, 2, 5))
_FINE_TICKS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.7, 2.0)
_FEWEST_TICKS = 3


def ticks(span: tuple[float, float]) -> tuple[float, ...]:
    """The speeds that are written on the axis; 1x is always among them."""
    coarse = tuple(tick for tick in _TICKS if span[0] <= tick <= span[1])
    return coarse if len(coarse) >= _FEWEST_TICKS else tuple(t for t in _FINE_TICKS if span[0] <= t <= span[1])


class IntervalBar(QStyledItemDelegate):
    span: tuple[float, float] = (0.5, 2.0)
    """The speeds at the ends of the axis."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        self.initStyleOption(option, index)
        option.text = ""
        style = option.widget.style() if option.widget else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        row = index.data(ROW_ROLE)
        if isinstance(row, Row):
            painter.save()
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._draw(painter, option, row)
            painter.restore()

    def _draw(self, painter: QPainter, option: QStyleOptionViewItem, row: Row) -> None:
        box = QRectF(option.rect).adjusted(_MARGIN, 0, -_MARGIN, 0)
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        line = option.palette.color(QPalette.ColorRole.HighlightedText if selected else QPalette.ColorRole.Dark)
        for tick in ticks(self.span):
            painter.setPen(QPen(line if tick == 1 else _thin(line), 1, Qt.PenStyle.DotLine))
            x = round(self.x(box, tick)) + 0.5
            painter.drawLine(QPointF(x, box.top()), QPointF(x, box.bottom()))
        least, speed, most = row.interval
        if speed is None:
            return
        colour = line if selected else _colour(row)
        low, high = self.x(box, least or speed), self.x(box, most or speed)
        middle, thick = box.center().y(), box.height() * 0.22
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(_thin(colour))
        painter.drawRoundedRect(QRectF(low, middle - thick, max(high - low, 1.0), 2 * thick), 2, 2)
        x = self.x(box, speed)
        painter.setPen(QPen(colour, 2.5))
        painter.drawLine(QPointF(x, middle - thick * 1.5), QPointF(x, middle + thick * 1.5))

    def x(self, box: QRectF, speed: float) -> float:
        return box.left() + box.width() * place_on(self.span, speed)


class AxisHeader(QHeaderView):
    """Titles of columns, with the axis of the speeds below that of the intervals."""

    def __init__(self, place: int, bar: IntervalBar) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._place, self._bar = place, bar
        self.setSectionsClickable(True)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        hint = super().sizeHint()
        return QSize(hint.width(), max(hint.height(), round(self.fontMetrics().height() * 2.3)))

    def paintSection(self, painter: QPainter, rect: QRect, index: int) -> None:  # noqa: N802 - Qt's name
        painter.save()
        super().paintSection(painter, rect, index)
        painter.restore()
        if index != self._place:
            return
        painter.save()
        painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
        metrics, box = self.fontMetrics(), QRectF(rect).adjusted(_MARGIN, 0, -_MARGIN, 0)
        # 1x is never left out for another one, and round figures are not for finer ones.
        taken: list[tuple[float, float]] = []
        for tick in sorted(ticks(self._bar.span), key=lambda tick: (tick != 1, tick not in _TICKS)):
            text = f"{tick:g}x"
            x, wide = self._bar.x(box, tick), metrics.horizontalAdvance(text)
            x = min(max(x, rect.left() + wide / 2), rect.right() - wide / 2)
            left, right = x - wide / 2 - _MARGIN / 2, x + wide / 2 + _MARGIN / 2
            if any(left < end and begin < right for begin, end in taken):
                continue
            taken.append((left, right))
            painter.drawText(QPointF(x - wide / 2, rect.bottom() - metrics.descent()), text)
        painter.restore()

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, index: int) -> None:  # noqa: N802 - Qt's name
        super().initStyleOptionForIndex(option, index)
        if index == self._place:
            option.textAlignment = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft


def _colour(row: Row) -> QColor:
    if row.out and row.status != "lost":
        return colours.muted()
    low, _, high = row.interval
    if low is not None and low > 1:
        return colours.good()
    if high is not None and high < 1:
        return colours.bad()
    return colours.muted()


def _thin(colour: QColor) -> QColor:
    thin = QColor(colour)
    thin.setAlphaF(0.45)
    return thin
