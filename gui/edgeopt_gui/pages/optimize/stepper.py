"""The phases of a search as a row of steps: done, at work, to come."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from edgeopt_gui.pages.optimize.phases import PHASES

_ROLE = QPalette.ColorRole


class Stepper(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._place = -1
        self._share = 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Phases of the search")

    def set(self, place: int, share: float) -> None:
        """Sets the present phase and the share of it that is done; earlier phases are done."""
        if (place, share) != (self._place, self._share):
            self._place, self._share = place, share
            at = PHASES[place].sentence if place >= 0 else "Starting"
            self.setAccessibleDescription(f"Step {place + 1} of {len(PHASES)}: {at}")
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        height = self.fontMetrics().height()
        return QSize(height * 4 * len(PHASES), round(height * 2.5))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.fontMetrics().height() * 3 * len(PHASES), self.sizeHint().height())

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            height = self.fontMetrics().height()
            radius = height * 0.45
            step = self.width() / len(PHASES)
            for k in range(len(PHASES)):
                centre = QPointF((k + 0.5) * step, radius + 2)
                if k:
                    self._line(painter, centre.x() - step + radius, centre.x() - radius, centre.y(), k)
                self._circle(painter, centre, radius, k)
                box = QRectF(k * step, 2 * radius + height * 0.3, step, height * 1.2)
                self._label(painter, box, k)

    def _line(self, painter: QPainter, begin: float, end: float, y: float, place: int) -> None:
        gap = self.fontMetrics().height() * 0.2
        reached = place <= self._place
        painter.setPen(QPen(self.palette().color(_ROLE.Highlight if reached else _ROLE.Mid), 2 if reached else 1))
        painter.drawLine(QPointF(begin + gap, y), QPointF(end - gap, y))

    def _circle(self, painter: QPainter, centre: QPointF, radius: float, place: int) -> None:
        colours = self.palette()
        box = QRectF(centre.x() - radius, centre.y() - radius, 2 * radius, 2 * radius)
        accent = colours.color(_ROLE.Highlight)
        painter.setPen(QPen(accent if place <= self._place else colours.color(_ROLE.Mid), 1.5))
        painter.setBrush(accent if place < self._place else colours.color(_ROLE.Base))
        painter.drawEllipse(box)
        if place < self._place:
            painter.setPen(QPen(colours.color(_ROLE.HighlightedText), 1.8))
            tick = [(-0.45, 0.02), (-0.1, 0.36), (0.48, -0.32)]
            painter.drawPolyline([QPointF(centre.x() + x * radius, centre.y() + y * radius) for x, y in tick])
        elif place == self._place:
            inner = box.adjusted(radius * 0.35, radius * 0.35, -radius * 0.35, -radius * 0.35)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(accent)
            # Qt counts in sixteenths of a degree, from three o'clock, against the clock.
            whole = 360 * 16
            painter.drawPie(inner, 90 * 16, -round(whole * (self._share or 1.0)))

    def _label(self, painter: QPainter, box: QRectF, place: int) -> None:
        font = QFont(self.font())
        font.setBold(place == self._place)
        painter.setFont(font)
        role = _ROLE.PlaceholderText if place > self._place else _ROLE.WindowText
        painter.setPen(self.palette().color(role))
        painter.drawText(box, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop, PHASES[place].short)
