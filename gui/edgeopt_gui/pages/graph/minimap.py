"""The whole diagram in a corner of the canvas: where the view is, where search hits are; a click goes there."""

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QMouseEvent, QPainter, QPaintEvent, QPalette, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from edgeopt_gui import theme
from edgeopt_gui.pages.graph.items import BoxItem

_WIDTH, _HEIGHT = 150, 180
"""Largest size of the map in pixels."""
_PART_WIDE, _PART_HIGH = 0.25, 0.45
"""Largest part of the canvas that the map covers."""
_FROM_CORNER = 8
_MARGIN = 6.0
_BORDER = 40.0
"""Empty border of the diagram, which need not be in view."""
_MIN = 1.5
"""Pixels of a box that would be too small to see."""


class Minimap(QWidget):
    centred = Signal(QPointF)
    """A point of the scene to centre."""

    def __init__(self, canvas: QWidget) -> None:
        super().__init__(canvas)
        self.setAccessibleName("Overview of the graph")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self._wanted = True
        self._room = QRect()
        self._items: tuple[BoxItem, ...] = ()
        self._whole = QRectF()
        self._view = QRectF()
        self._picture = QPixmap()
        self._hits: tuple[QPointF, ...] = ()
        theme.scheme_changed.connect(self._draw)
        self.hide()

    def want(self, wanted: bool) -> None:
        """Allows the map or hides it; it also hides while the whole diagram is in view."""
        self._wanted = wanted
        self._hide_or_show()

    def lie_in(self, room: QRect) -> None:
        """Lies in the lower right corner of a rectangle of the canvas."""
        self._room = room
        wide, high = min(_WIDTH, room.width() * _PART_WIDE), min(_HEIGHT, room.height() * _PART_HIGH)
        # The map has the shape of the diagram, or it would cover more than it shows.
        scale = min(wide / max(1.0, self._whole.width()), high / max(1.0, self._whole.height()))
        size = max(24, round(self._whole.width() * scale)), max(24, round(self._whole.height() * scale))
        before = self.size()
        self.setGeometry(room.right() - size[0] - _FROM_CORNER, room.bottom() - size[1] - _FROM_CORNER, *size)
        if self.size() != before:
            self._draw()

    def show_boxes(self, items: Iterable[BoxItem], whole: QRectF) -> None:
        self._items, self._whole = tuple(items), whole
        self.lie_in(self._room)
        self._draw()

    def forget(self) -> None:
        self.show_boxes((), QRectF())
        self._hits = ()

    def _draw(self) -> None:
        self._picture = QPixmap(self.size() * self.devicePixelRatioF())
        self._picture.setDevicePixelRatio(self.devicePixelRatioF())
        self._picture.fill(Qt.GlobalColor.transparent)
        with QPainter(self._picture) as painter:
            # Not the map's own palette: on a hidden page it is still that of the last theme.
            quiet = QGuiApplication.palette().color(QPalette.ColorRole.PlaceholderText)
            for item in self._items:
                if not item.box.is_open:
                    painter.fillRect(self._small(item.boundingRect()), item.fill or quiet)
        self.update()

    def show_view(self, view: QRectF) -> None:
        if view != self._view:
            self._view = view
            self._hide_or_show()
            self.update()

    def _hide_or_show(self) -> None:
        inner = self._whole.adjusted(_BORDER, _BORDER, -_BORDER, -_BORDER)
        self.setVisible(self._wanted and bool(self._items) and not self._view.contains(inner))

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
            back.setAlphaF(0.8)
            painter.fillRect(self.rect(), back)
            edge = self.palette().color(QPalette.ColorRole.Text)
            edge.setAlphaF(0.25)
            painter.setPen(edge)
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
