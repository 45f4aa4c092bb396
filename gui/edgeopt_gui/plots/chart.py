"""Plots one below the other over one axis of time, drawn again when there is something new."""

import time
from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QHideEvent, QKeyEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from edgeopt_gui import theme
from edgeopt_gui.plots import span
from edgeopt_gui.plots.panel import Panel
from edgeopt_gui.plots.ring import Ring
from edgeopt_gui.plots.span import Span
from edgeopt_gui.plots.spec import Level, Marker, PanelSpec

FRAME_MS = 16
_STEP = 0.2
_ZOOM = 0.7
_POINTER_STEP = 0.01
_NO_SAMPLES = (0.0, 0.0)


class Chart(QWidget):
    """Reads `rings` by the keys of its curves; call `touch` when they have new samples."""

    span_changed = Signal()
    """Emitted when the user moved or zoomed."""
    threshold_dragged = Signal(float)
    threshold_dropped = Signal()

    def __init__(self, panels: Sequence[PanelSpec], rings: Mapping[str, Ring]) -> None:
        super().__init__()
        self.panels = tuple(Panel(panel) for panel in panels)
        self.span = Span(30.0)
        self.frozen = False
        """Whether new samples are not drawn; scrolling and zooming still work."""
        self.markers: tuple[Marker, ...] = ()
        self._rings = rings
        self._ends = _NO_SAMPLES
        self._pointer: float | None = None
        self._timer = QTimer(self, interval=FRAME_MS, singleShot=True)
        self._timer.timeout.connect(self.redraw)
        self.setObjectName("chart")
        self.setAccessibleName("Charts over time")
        self.setAccessibleDescription(
            "Left and right move, plus and minus zoom, Home shows all, End follows the newest sample, "
            "Shift with left and right reads values."
        )
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        for panel in self.panels:
            rows.addWidget(panel, panel.spec.share)
            panel.toggled.connect(self.touch)
            panel.plot.moved.connect(self.move_by)
            panel.plot.zoomed.connect(self.zoom)
            panel.plot.reset.connect(self.follow)
            panel.plot.pointed.connect(self._point)
            panel.plot.threshold_dragged.connect(self.threshold_dragged)
            panel.plot.threshold_dropped.connect(self._drop_threshold)
        theme.scheme_changed.connect(self._dress)
        self._lay_out()

    @property
    def shown(self) -> tuple[float, float]:
        """The times at both edges, in seconds."""
        now = time.time()
        return span.shown(self.span, *(self._ends if self._ends != _NO_SAMPLES else (now, now)))

    @property
    def shown_samples(self) -> tuple[float, float]:
        """The times at both edges, without samples that arrived since the chart was frozen."""
        begin, end = self.shown
        return begin, min(end, self._ends[1]) if self.frozen else end

    @property
    def waiting(self) -> bool:
        """Whether a frame is about to be drawn."""
        return self._timer.isActive()

    def touch(self) -> None:
        """Schedules drawing of new samples, if the chart is visible."""
        if self.isVisible() and not self._timer.isActive():
            self._timer.start()

    def redraw(self) -> None:
        """Draws one frame."""
        self._timer.stop()
        if not self.frozen or self._ends == _NO_SAMPLES:
            self._ends = self._first_and_last()
            for panel in self.panels:
                panel.fit_axis(self._rings)
        self._lay_out()
        begin, end = self.shown
        for panel in self.panels:
            if panel.isVisible():
                panel.plot.draw(self._rings, panel.hidden, begin, end, self._ends[1])
        self._read()

    def show_span(self, new: Span) -> None:
        self.span = new
        self.touch()

    def freeze(self, frozen: bool) -> None:
        self.frozen = frozen
        self.touch()

    def clear(self) -> None:
        """Clears the screen after the samples were cleared, even if the chart is frozen."""
        self._ends = _NO_SAMPLES
        self.follow()

    def follow(self) -> None:
        """Follows the newest sample again, with the present length."""
        self._change(Span(self.span.length_s))

    def show_all(self) -> None:
        self._change(Span(None))

    def move_by(self, share: float) -> None:
        self._change(span.moved(self.span, share, *self._ends))

    def zoom(self, factor: float, share: float | None = None) -> None:
        begin, end = self.shown
        centre = None if share is None else begin + share * (end - begin)
        self._change(span.zoomed(self.span, factor, centre, *self._ends))

    def mark(self, markers: Sequence[Marker]) -> None:
        self.markers = tuple(markers)
        first = True
        for panel in self.panels:
            panel.plot.mark(self.markers, named=first and not panel.isHidden())
            first = first and panel.isHidden()

    def compare(self, level: Level | None) -> None:
        for panel in self.panels:
            panel.plot.compare(level)
        self.touch()

    def show_threshold(self, level: Level | None) -> None:
        """Shows a line that the user can drag, over the panel of its key; None removes it."""
        for panel in self.panels:
            panel.plot.show_threshold(level)
        self.touch()

    def reading(self) -> str:
        """Returns the time and the values at the pointer line of mouse or keyboard; "" without one."""
        if self._pointer is None:
            return ""
        at = self._pointed_s()
        parts = [panel.reading(self._rings, at) for panel in self.panels if not panel.isHidden()]
        return f"{time.strftime('%H:%M:%S', time.localtime(at))}  {'  ·  '.join(filter(None, parts))}"

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        reads = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        match event.key():
            case Qt.Key.Key_Left | Qt.Key.Key_Right as key:
                direction = 1 if key == Qt.Key.Key_Right else -1
                if reads:
                    start = 0.5 if self._pointer is None else self._pointer
                    self._point(min(max(start + direction * _POINTER_STEP, 0.0), 1.0))
                else:
                    self.move_by(direction * _STEP)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self.zoom(_ZOOM)
            case Qt.Key.Key_Minus:
                self.zoom(1 / _ZOOM)
            case Qt.Key.Key_Home:
                self.show_all()
            case Qt.Key.Key_End:
                self.follow()
            case _:
                super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        self._point(None)
        super().focusOutEvent(event)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        self.touch()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 - Qt's name
        self._timer.stop()
        super().hideEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self.touch()

    def _change(self, new: Span) -> None:
        self.span = new
        self.touch()
        self.span_changed.emit()

    def _first_and_last(self) -> tuple[float, float]:
        known = [ring.all()[0] for ring in self._rings.values() if len(ring)]
        if not known:
            return _NO_SAMPLES
        return min(float(times[0]) for times in known), max(float(times[-1]) for times in known)

    def _lay_out(self) -> None:
        """Panels without samples make room; the lowest one has the labels of the clock."""
        known = [panel.show_known(self._rings) for panel in self.panels]
        if not any(known):
            known = [place == 0 for place in range(len(known))]
        changed = [panel.isHidden() == show for panel, show in zip(self.panels, known, strict=True)]
        if not any(changed):
            return
        lowest = max(place for place, show in enumerate(known) if show)
        for place, (panel, show) in enumerate(zip(self.panels, known, strict=True)):
            panel.setVisible(show)
            panel.plot.show_times(place == lowest)
        self.mark(self.markers)

    def _point(self, share: float | None) -> None:
        self._pointer = share
        self._read()

    def _pointed_s(self) -> float:
        begin, end = self.shown
        return begin + (self._pointer or 0.0) * (end - begin)

    def _read(self) -> None:
        at = None if self._pointer is None else self._pointed_s()
        for panel in self.panels:
            panel.plot.point(at)
            panel.read(self._rings, at)

    def _drop_threshold(self) -> None:
        self.touch()
        self.threshold_dropped.emit()

    def _dress(self) -> None:
        for panel in self.panels:
            panel.dress()
        self.touch()
