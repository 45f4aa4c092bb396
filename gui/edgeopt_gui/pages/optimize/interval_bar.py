"""Draws the interval of a speed on an axis that all rows share, with a line where the source model is."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPalette, QPen
from PySide6.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from edgeopt_gui.pages.optimize.board import Row, place_on
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.records import ROW_ROLE

_MARGIN = 8


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
        painter.setPen(QPen(line, 1, Qt.PenStyle.DotLine))
        one = round(self._x(box, 1.0)) + 0.5
        painter.drawLine(QPointF(one, box.top()), QPointF(one, box.bottom()))
        if row.speedup is None:
            return
        colour = line if selected else _colour(row)
        low, high = self._x(box, row.low or row.speedup), self._x(box, row.high or row.speedup)
        middle, thick = box.center().y(), box.height() * 0.22
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(_thin(colour))
        painter.drawRoundedRect(QRectF(low, middle - thick, max(high - low, 1.0), 2 * thick), 2, 2)
        x = self._x(box, row.speedup)
        painter.setPen(QPen(colour, 2.5))
        painter.drawLine(QPointF(x, middle - thick * 1.5), QPointF(x, middle + thick * 1.5))

    def _x(self, box: QRectF, speed: float) -> float:
        return box.left() + box.width() * place_on(self.span, speed)


class MiddleElided(QStyledItemDelegate):
    """Cuts long names in their middle: those of candidates differ at their ends."""

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideMiddle


def _colour(row: Row) -> QColor:
    if row.out and row.status != "lost":
        return colours.muted()
    if row.low is not None and row.low > 1:
        return colours.good()
    if row.high is not None and row.high < 1:
        return colours.bad()
    return colours.muted()


def _thin(colour: QColor) -> QColor:
    thin = QColor(colour)
    thin.setAlphaF(0.45)
    return thin
