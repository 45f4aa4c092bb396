"""The whole diagram in a corner: where the view is, where search hits are; a click goes there."""

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPalette, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from edgeopt_gui.pages.graph.items import BoxItem

_WIDTH, _HEIGHT = 140, 220
_MARGIN = 6.0
_MIN = 1.5
"""Pixels of a box that would be too small to see."""


class Minimap(QWidget):
    centred = Signal(QPointF)
    """A point of the scene to centre."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Overview of the graph")
        # Of any other width for another diagram, it would move the view beside it.
        self.setFixedSize(_WIDTH, _HEIGHT)
        self._whole = QRectF()
        self._view = QRectF()
        self._picture = QPixmap()
        self._hits: tuple[QPointF, ...] = ()

    def show_boxes(self, items: Iterable[BoxItem], whole: QRectF) -> None:
        self._whole = whole
        self._picture = QPixmap(self.size() * self.devicePixelRatioF())
        self._picture.setDevicePixelRatio(self.devicePixelRatioF())
        self._picture.fill(Qt.GlobalColor.transparent)
        with QPainter(self._picture) as painter:
            quiet = self.palette().color(QPalette.ColorRole.PlaceholderText)
            for item in items:
                if not item.box.is_open:
                    painter.fillRect(self._small(item.boundingRect()), item.fill or quiet)
        self.update()

    def show_view(self, view: QRectF) -> None:
        if view != self._view:
            self._view = view
            self.update()

    def show_hits(self, points: Iterable[QPointF]) -> None:
        self._hits = tuple(points)
        self.update()

    def _scale(self) -> float:
        room = QRectF(self.rect()).adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
        return min(room.width() / max(1.0, self._whole.width()), room.height() / max(1.0, self._whole.height()))

    def _origin(self) -> QPointF:
        scale = self._scale()
        return QPointF(
            (self.width() - self._whole.width() * scale) / 2, (self.height() - self._whole.height() * scale) / 2
        )

    def _small(self, area: QRectF) -> QRectF:
        scale, origin = self._scale(), self._origin()
        return QRectF(
            origin.x() + (area.left() - self._whole.left()) * scale,
            origin.y() + (area.top() - self._whole.top()) * scale,
            max(_MIN, area.width() * scale),
            max(_MIN, area.height() * scale),
        )

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            back = self.palette().color(QPalette.ColorRole.Window)
            back.setAlphaF(0.9)
            painter.fillRect(self.rect(), back)
            painter.setPen(self.palette().color(QPalette.ColorRole.Mid))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            painter.drawPixmap(0, 0, self._picture)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor("#d18b00"))
            for hit in self._hits:
                at = self._small(QRectF(hit, hit))
                painter.drawEllipse(at.topLeft(), 2.5, 2.5)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self.palette().color(QPalette.ColorRole.Highlight), 1.5))
            shown = self._small(self._view.intersected(self._whole))
            painter.drawRect(shown.intersected(QRectF(self.rect()).adjusted(1, 1, -2, -2)))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        self._go(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        self._go(event)

    def _go(self, event: QMouseEvent) -> None:
        at, origin, scale = event.position(), self._origin(), self._scale()
        self.centred.emit(
            QPointF(
                self._whole.left() + (at.x() - origin.x()) / scale,
                self._whole.top() + (at.y() - origin.y()) / scale,
            )
        )
