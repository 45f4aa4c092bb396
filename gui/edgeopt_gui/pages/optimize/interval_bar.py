"""Draws the interval of a speed on an axis that all rows share, with a line where the source model is."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionHeader,
    QStyleOptionViewItem,
)

from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.interval import MARGIN, colour_of, paint_interval, paint_labels
from edgeopt_gui.widgets.records import ROW_ROLE


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
        box = QRectF(option.rect).adjusted(MARGIN, 0, -MARGIN, 0)
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        line = option.palette.color(QPalette.ColorRole.HighlightedText if selected else QPalette.ColorRole.Dark)
        paint_interval(painter, box, self.span, row.interval, line, line if selected else _colour(row))


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
        box = QRectF(rect).adjusted(MARGIN, 0, -MARGIN, 0)
        paint_labels(painter, box, self._bar.span, rect.left(), rect.right())
        painter.restore()

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, index: int) -> None:  # noqa: N802 - Qt's name
        super().initStyleOptionForIndex(option, index)
        if index == self._place:
            option.textAlignment = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft


def _colour(row: Row) -> QColor:
    if row.out and row.status != "lost":
        return colours.muted()
    low, _, high = row.interval
    return colour_of(low, high)
