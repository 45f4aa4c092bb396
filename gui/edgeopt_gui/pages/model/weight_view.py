"""The details of a weight: a histogram of its values, their range, zeros, and the nodes that read it."""

from collections.abc import Sequence

from PySide6.QtCore import QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from edgeopt import units
from edgeopt.views.words import dimensions
from edgeopt_gui import theme
from edgeopt_gui.pages.model.tables import Weight
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.fact import Fact, FactGroup
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.heading import heading, quiet

_LINES_HIGH = 5
_WIDEST_LETTERS = 70
_MIN_BAR = 2.0
_MAX_READERS = 8


class WeightView(QWidget):
    def __init__(self, name_letters: int = 12) -> None:
        super().__init__()
        self.facts = FactsView(name_letters)
        self.title = heading(level=3)
        self.bars = ValueBars()
        self.sample = quiet()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        for widget in (self.title, self.bars, self.sample, self.facts):
            column.addWidget(widget)
        self.hide()

    def show_weight(self, weight: Weight | None, unread: str = "") -> None:
        """`unread` is why nobody looked at the values."""
        self.setVisible(weight is not None)
        if weight is None:
            return
        row = weight.row
        self.title.setText(f"Weight {row.name}")
        self.bars.show_counts(row.histogram, row.minimum or 0.0, row.maximum or 0.0)
        self.bars.setVisible(bool(row.histogram))
        self.sample.setText(_sampled(weight, unread))
        self.sample.setVisible(bool(self.sample.text()))
        facts = [
            Fact("Type", f"{row.dtype} {dimensions(row.shape)}"),
            Fact("Size", f"{units.size(row.size_bytes)}, {units.percent(weight.share)} of all weights"),
            Fact("Range", _range(weight)),
            Fact("Zeros", _zeros(weight)),
            *(Fact("Read by", reader) for reader in weight.readers[:_MAX_READERS]),
        ]
        if len(weight.readers) > _MAX_READERS:
            facts.append(Fact("Read by", f"and {units.count(len(weight.readers) - _MAX_READERS)} more"))
        self.facts.set_groups((FactGroup("", tuple(fact for fact in facts if fact.value)),))


class ValueBars(QWidget):
    """Counts of values in equal steps from the smallest to the largest, with a line at zero."""

    def __init__(self) -> None:
        super().__init__()
        self._low, self._high = 0.0, 1.0
        self._counts: tuple[int, ...] = ()
        self.setFixedHeight(self.fontMetrics().height() * _LINES_HIGH)
        self.setMaximumWidth(self.fontMetrics().averageCharWidth() * _WIDEST_LETTERS)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Histogram of the values")
        theme.scheme_changed.connect(self.update)

    @property
    def counts(self) -> tuple[int, ...]:
        return self._counts

    def show_counts(self, counts: Sequence[int], low: float, high: float) -> None:
        self._counts, self._low, self._high = tuple(counts), low, high
        maximum = max(counts, default=0)
        if maximum:
            # Divided before subtracting: the difference of the largest numbers would overflow.
            place = (counts.index(maximum) + 0.5) / len(counts)
            text = f"Most values are near {low * (1 - place) + high * place:.3g}; {low:.3g} to {high:.3g}"
            self.setAccessibleDescription(text)
            self.setToolTip(text)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.fontMetrics().averageCharWidth() * 30, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        palette = self.palette()
        with QPainter(self) as painter:
            area = QRectF(0, 2, self.width(), self.height() - self.fontMetrics().height() - 5)
            maximum, wide = max(self._counts, default=0), area.width() / max(1, len(self._counts))
            for place, count in enumerate(self._counts):
                if count:
                    # Rare values decide the range, so their bars are at least a pixel high.
                    height = max(area.height() * count / maximum, _MIN_BAR)
                    left, right = round(place * wide), round((place + 1) * wide)
                    bar = QRectF(left, area.bottom() - height, max(right - left - 1, 1), height)
                    painter.fillRect(bar, colours.series(0))
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Mid), 1))
            painter.drawLine(area.bottomLeft(), area.bottomRight())
            low, high = f"{self._low:.3g}", f"{self._high:.3g}"
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            labels = QRectF(0, area.bottom() + 2, self.width(), self.fontMetrics().height())
            painter.drawText(labels, Qt.AlignmentFlag.AlignLeft, low)
            painter.drawText(labels, Qt.AlignmentFlag.AlignRight, high)
            if self._low < 0 < self._high:
                self._mark_zero(painter, area, labels, low, high)

    def _mark_zero(self, painter: QPainter, area: QRectF, labels: QRectF, low: str, high: str) -> None:
        scale = max(-self._low, self._high)
        x = round(area.width() * (-self._low / scale) / (self._high / scale - self._low / scale))
        painter.setPen(QPen(colours.muted(), 1, Qt.PenStyle.DotLine))
        painter.drawLine(QLineF(x, area.top(), x, area.bottom()))
        metrics = self.fontMetrics()
        half, gap = metrics.horizontalAdvance("0") / 2, metrics.averageCharWidth()
        free = metrics.horizontalAdvance(low) + gap, labels.right() - metrics.horizontalAdvance(high) - gap
        if free[0] < x - half and x + half < free[1]:
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            painter.drawText(QRectF(x - half, labels.top(), 2 * half + 1, labels.height()), "0")


def _sampled(weight: Weight, unread: str) -> str:
    """Returns why there is no histogram, or that it is of a sample; "" if it is of all values."""
    row = weight.row
    counted = sum(row.histogram)
    if row.zeros_share is None:
        return f"Its values were not read: {unread}." if unread else "Its values were not read."
    if row.minimum is None:
        return "No value is finite."
    if row.minimum == row.maximum:
        return "All values are equal."
    if counted < row.parameters:
        return f"Histogram of {counted:,} of {row.parameters:,} values, sampled evenly."
    return ""


def _range(weight: Weight) -> str:
    low, high = weight.row.minimum, weight.row.maximum
    return "" if low is None or high is None else f"{low:.4g} to {high:.4g}"


def _zeros(weight: Weight) -> str:
    share = weight.row.zeros_share
    if share is None:
        return ""
    return "none" if not share else units.percent(share) if share >= 0.001 else "< 0.1 %"
