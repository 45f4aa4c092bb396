"""Draws the interval of a speed on an axis with a line at 1x: in a cell of a table, or as a widget of its own."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from edgeopt_gui import theme
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.speed_axis import COARSE_TICKS, Interval, Span, place_on, span_of, ticks

MARGIN = 8


def x_of(box: QRectF, span: Span, speed: float) -> float:
    return box.left() + box.width() * place_on(span, speed)


def paint_interval(
    painter: QPainter, box: QRectF, span: Span, interval: Interval, line: QColor, colour: QColor
) -> None:
    """Paints an interval; `line` is the colour of the axis, `colour` that of the interval."""
    for tick in ticks(span):
        painter.setPen(QPen(line if tick == 1 else _thin(line), 1, Qt.PenStyle.DotLine))
        x = round(x_of(box, span, tick)) + 0.5
        painter.drawLine(QPointF(x, box.top()), QPointF(x, box.bottom()))
    minimum, speed, maximum = interval
    if speed is None:
        return
    # 0 is an open end, and None one that is not known.
    low = x_of(box, span, speed if minimum is None else minimum)
    high = x_of(box, span, speed if maximum is None else maximum)
    middle, thick = box.center().y(), box.height() * 0.22
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(_thin(colour))
    painter.drawRoundedRect(QRectF(low, middle - thick, max(high - low, 1.0), 2 * thick), 2, 2)
    x = x_of(box, span, speed)
    painter.setPen(QPen(colour, 2.5))
    painter.drawLine(QPointF(x, middle - thick * 1.5), QPointF(x, middle + thick * 1.5))


def paint_labels(painter: QPainter, box: QRectF, span: Span, left: float, right: float) -> None:
    """Paints the speeds of the axis at the bottom of the box, between `left` and `right`."""
    metrics = painter.fontMetrics()
    # 1x is never left out for another one, and round figures are not for finer ones.
    taken: list[tuple[float, float]] = []
    for tick in sorted(ticks(span), key=lambda tick: (tick != 1, tick not in COARSE_TICKS)):
        text = f"{tick:g}x"
        wide = metrics.horizontalAdvance(text)
        x = min(max(x_of(box, span, tick), left + wide / 2), right - wide / 2)
        begin, end = x - wide / 2 - MARGIN / 2, x + wide / 2 + MARGIN / 2
        if any(begin < other_end and other_begin < end for other_begin, other_end in taken):
            continue
        taken.append((begin, end))
        painter.drawText(QPointF(x - wide / 2, box.bottom() - metrics.descent()), text)


def colour_of(low: float | None, high: float | None) -> QColor:
    """Returns the good colour if the whole interval is above 1x, the bad one if it is below."""
    if low is not None and low > 1:
        return colours.good()
    if high is not None and high < 1:
        return colours.bad()
    return colours.muted()


class IntervalView(QWidget):
    """One interval with its axis."""

    def __init__(self) -> None:
        super().__init__()
        self.interval: Interval = (None, None, None)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.scheme_changed.connect(self.update)

    def show_interval(self, interval: Interval, text: str) -> None:
        """Shows an interval; `text` is the interval in words."""
        self.interval = interval
        self.setAccessibleName(text)
        self.setToolTip(text)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        line = self.fontMetrics().height()
        return QSize(self.fontMetrics().averageCharWidth() * 50, line * 3)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        low, middle, high = self.interval
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            box = QRectF(self.rect()).adjusted(MARGIN, 0, -MARGIN, 0)
            span = span_of([self.interval])
            bar = box.adjusted(0, 0, 0, -self.fontMetrics().height())
            line = self.palette().color(QPalette.ColorRole.Dark)
            paint_interval(painter, bar, span, (low, middle, high), line, colour_of(low, high))
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            paint_labels(painter, box, span, 0, self.width())


def _thin(colour: QColor) -> QColor:
    thin = QColor(colour)
    thin.setAlphaF(0.45)
    return thin
