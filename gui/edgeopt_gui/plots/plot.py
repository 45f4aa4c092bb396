"""One plot: a few curves over time, with axes that are set and not found out."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QGuiApplication, QMouseEvent, QPalette, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QFrame, QGraphicsLinearLayout

from edgeopt_gui.plots.ring import Floats, Ring
from edgeopt_gui.plots.scale import around, factors, from_zero
from edgeopt_gui.plots.scene import Axes, Notes, Shown
from edgeopt_gui.plots.spec import CurveSpec, Level, Marker, PanelSpec
from edgeopt_gui.plots.ticks import clock_ticks, factor_ticks, value_ticks
from edgeopt_gui.theme import colours

_ZOOM_A_NOTCH = 0.8
_NOTCH = 120
_MAX_LINES = 7
_MIN_LINES = 2.2
# In the plot's unit; smaller values are drawn at the foot of a logarithmic axis.
_SMALLEST = 1e-9
# A threshold extends the axis at most by this factor.
_NEAR_ENOUGH = 2.5
# Distance from the pointer to a line that still drags it, as a divisor of the font's height.
_GRIP = 2


class Plot(pg.GraphicsView):  # type: ignore[misc] # pyqtgraph has no types
    """A view box, with lines and labels that are painted here.

    pyqtgraph's own PlotWidget brings menus that take 20 ms to make and axes that take a millisecond a frame, and
    passes every move of the mouse through its scene.
    """

    moved = Signal(float)
    """Forward movement, as a share of the visible length."""
    zoomed = Signal(float, float)
    """Factor of the zoom, and its centre as a share of the width."""
    reset = Signal()
    pointed = Signal(object)
    """Position of the pointer as a share of the width; None when it left."""
    threshold_dragged = Signal(float)
    """Value of the threshold before multiplication by the factor, while the button is down."""
    threshold_dropped = Signal()

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.setAccessibleName(f"{spec.title} over time")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self._area = area = pg.ViewBox(enableMouse=False, enableMenu=False)
        area.disableAutoRange()
        area.setDefaultPadding(0)
        self._around = QGraphicsLinearLayout()
        self._around.addItem(area)
        middle = pg.GraphicsWidget()
        middle.setLayout(self._around)
        self.setCentralItem(middle)
        self.shown = Shown()
        # pyqtgraph puts a view box at -100.
        self._notes = Notes(area, area, self.shown, 10)
        self._layers = (Axes(middle, area, self.shown, -200), self._notes)
        self._curves = {curve.key: self._curve() for curve in spec.curves}
        self.factor = spec.factor
        """Factor that converts a value to the unit that is shown."""
        self._level: Level | None = None
        self._threshold: Level | None = None
        self._drags_threshold = False
        self._range: tuple[float, float] | None = None
        self._logarithmic = False
        self._dragged_from: float | None = None
        self.show_times(False)
        self.dress()

    @property
    def area_width(self) -> int:
        """The width in pixels in which the curves lie."""
        return max(int(self._area.width()), 1)

    def dress(self) -> None:
        """Sets the colours of the present theme."""
        palette = QGuiApplication.palette()
        self.setBackground(palette.color(QPalette.ColorRole.Base))
        for curve in self.spec.curves:
            self._curves[curve.key].setPen(pg.mkPen(colour_of(curve), width=1))

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Returns the minimum size: a plot takes what room there is, and needs no more."""
        return QSize(self.minimumWidth(), self.minimumHeight())

    def show_times(self, on: bool) -> None:
        """Shows or hides the clock labels below, which only the lowest plot has."""
        line = self.fontMetrics().height()
        self.shown.timed = on
        # Labels are left of and below the curves; the end labels of the value axis extend half beyond it.
        left = self.fontMetrics().horizontalAdvance("0,000.00")
        self._around.setContentsMargins(left, line // 2, line // 2, round(line * 1.5) if on else line // 2)
        # Added to the minimum height, or the curves of a low plot would have no room.
        self.setMinimumHeight(round(line * (_MIN_LINES + (1.0 if on else 0.0))))
        for layer in self._layers:
            layer.resized()

    def draw(
        self, rings: Mapping[str, Ring], hidden: set[str], begin_s: float, end_s: float, until_s: float = np.inf
    ) -> None:
        """Takes what these rings hold between two times; nothing that came after `until_s`."""
        lowest, highest = np.inf, -np.inf
        for key, item in self._curves.items():
            ring = rings.get(key)
            visible = ring is not None and len(ring) > 0 and key not in hidden
            item.setVisible(visible)
            if ring is None or not visible:
                continue
            curve = ring.window(begin_s, min(end_s, until_s), self.area_width)
            # The window includes one sample beyond each end; one after `until_s` would be visible.
            known = int(np.searchsorted(curve.times, until_s, "right"))
            if not known:
                item.setVisible(False)
                continue
            values = curve.values[:known] * self.factor
            if self._logarithmic:
                values = np.log10(np.maximum(values, _SMALLEST))
            # Ends where the pixels are; what lies far outside would only cost time.
            joined = "all" if curve.joined is None else curve.joined[:known]
            item.setData(curve.times[:known] - begin_s, values, connect=joined, skipFiniteCheck=True)
            lowest, highest = min(lowest, float(values.min())), max(highest, float(values.max()))
        if self._logarithmic:
            lowest, highest = 10.0**lowest, 10.0**highest
        if self.shown.level is not None:
            lowest, highest = min(lowest, self.shown.level[0]), max(highest, self.shown.level[0])
        if self.shown.threshold is not None and self.shown.threshold[0] <= _NEAR_ENOUGH * highest:
            highest = max(highest, self.shown.threshold[0])
        # The axis does not change while the threshold is dragged.
        if highest >= lowest and not self._drags_threshold:
            self._show_values(lowest, highest)
        self._show_span(begin_s, end_s)
        low, high = self.shown.on_axis(self.shown.low), self.shown.on_axis(self.shown.high)
        box = QRectF(0.0, low, end_s - begin_s, high - low)
        for item in self._curves.values():
            if item.box != box:
                item.prepareGeometryChange()
                item.box = box
        # Without this call, pyqtgraph prepares during painting and paints a second time.
        self.scene().prepareForPaint()

    def use_logarithm(self, on: bool) -> None:
        """Switches the logarithmic axis on or off, from the next frame on."""
        self._logarithmic = on

    def use_factor(self, factor: float) -> None:
        """Sets the factor of another unit, from the next frame on."""
        if factor != self.factor:
            self.factor, self._range = factor, None
            self.compare(self._level)
            self.show_threshold(self._threshold)

    def is_drawn(self, key: str) -> bool:
        return bool(self._curves[key].isVisible())

    def curve(self, key: str) -> Floats:
        """Returns the drawn values of a curve, in the plot's unit."""
        values: Floats | None = self._curves[key].yData
        if values is None:
            return np.empty(0)
        return 10.0**values if self.shown.logarithmic else values

    def mark(self, markers: Sequence[Marker], named: bool) -> None:
        self.shown.markers, self.shown.named = tuple(markers), named
        self._layers[1].update()

    def compare(self, level: Level | None) -> None:
        self._level = level if level is not None and level.key in self._curves else None
        self.shown.level = None if self._level is None else (self._level.value * self.factor, self._level.label)
        self._layers[1].update()

    def show_threshold(self, level: Level | None) -> None:
        """Shows a line that the user can drag; a value far above the curves is at the upper edge."""
        self._threshold = level if level is not None and level.key in self._curves else None
        new = None if self._threshold is None else (self._threshold.value * self.factor, self._threshold.label)
        self.shown.threshold = new
        self._layers[1].update()

    def point(self, time_s: float | None) -> None:
        self.shown.pointer_s = time_s
        for layer in self._layers:
            layer.update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        for layer in getattr(self, "_layers", ()):
            layer.resized()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        notches = event.angleDelta().y() / _NOTCH
        if notches:
            self.zoomed.emit(_ZOOM_A_NOTCH**notches, self._share(event.position()))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._drags_threshold = self._is_on_threshold(event.position())
        if not self._drags_threshold:
            self._dragged_from = self._share(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if self._drags_threshold:
            self.threshold_dragged.emit(self._notes.value_at(self._y(event.position())) / self.factor)
            return
        share = self._share(event.position())
        if self._dragged_from is not None:
            self.moved.emit(self._dragged_from - share)
            self._dragged_from = share
        self.pointed.emit(share if 0 <= share <= 1 else None)
        over = Qt.CursorShape.SizeVerCursor if self._is_on_threshold(event.position()) else None
        self.viewport().unsetCursor() if over is None else self.viewport().setCursor(over)

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        self._dragged_from = None
        if self._drags_threshold:
            self._drags_threshold = False
            self.threshold_dropped.emit()

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        self.reset.emit()

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 - Qt's name
        self.setMouseTracking(True)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        self.pointed.emit(None)
        super().leaveEvent(event)

    def _curve(self) -> "_CurveItem":
        item = _CurveItem(antialias=False, skipFiniteCheck=True)
        self._area.addItem(item, ignoreBounds=True)
        return item

    def _show_values(self, lowest: float, highest: float) -> None:
        if self.shown.logarithmic != self._logarithmic:
            # Switched together with the range, because a repaint between two frames uses both.
            self.shown.logarithmic, self._range = self._logarithmic, None
        before = self._range
        if self.shown.logarithmic:
            self._range = factors(max(lowest, _SMALLEST), max(highest, _SMALLEST), before)
        elif self.spec.highest is not None:
            self._range = (0.0, self.spec.highest)
        elif self.spec.minimum is not None:
            self._range = around(lowest, highest, before, self.spec.minimum)
        else:
            self._range = (0.0, from_zero(highest, before[1] if before else 0.0))
        maximum = min(_MAX_LINES, max(2, int(self._area.height() / (self.fontMetrics().height() * 1.8)) + 1))
        if self._range == before and (len(self.shown.values) or 2) <= maximum:
            return
        self.shown.low, self.shown.high = self._range
        ticks = factor_ticks if self.shown.logarithmic else value_ticks
        self.shown.values = ticks(*self._range, maximum)
        self._area.setYRange(*map(self.shown.on_axis, self._range), padding=0)

    def _show_span(self, begin_s: float, end_s: float) -> None:
        shown = self.shown
        label = self.fontMetrics().horizontalAdvance("00:00:00") * 1.6
        shown.begin_s, shown.end_s = begin_s, end_s
        shown.times = clock_ticks(begin_s, end_s, int(self.area_width / label))
        self._area.setXRange(0.0, end_s - begin_s, padding=0)
        for layer in self._layers:
            layer.update()

    def _y(self, position: QPointF) -> float:
        """Returns the height of a position below the top of the curves' area, in pixels."""
        return float(self.mapToScene(position.toPoint()).y() - self._area.sceneBoundingRect().top())

    def _is_on_threshold(self, position: QPointF) -> bool:
        line = self._notes.threshold_y()
        return line is not None and abs(self._y(position) - line) <= self.fontMetrics().height() / _GRIP

    def _share(self, position: QPointF) -> float:
        area = self._area.sceneBoundingRect()
        return float((self.mapToScene(position.toPoint()).x() - area.left()) / max(area.width(), 1.0))


class _CurveItem(pg.PlotCurveItem):  # type: ignore[misc] # pyqtgraph has no types
    """Lies where its plot says; pyqtgraph would look through all points for that, four times a frame."""

    box = QRectF()

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        return self.box


def colour_of(curve: CurveSpec) -> QColor:
    """Returns the colour of a curve; baselines have the muted colour, mixed half with the background."""
    if curve.colour is not None:
        return colours.series(curve.colour)
    front, background = colours.muted(), QGuiApplication.palette().color(QPalette.ColorRole.Base)
    return QColor(
        (front.red() + background.red()) // 2,
        (front.green() + background.green()) // 2,
        (front.blue() + background.blue()) // 2,
    )
