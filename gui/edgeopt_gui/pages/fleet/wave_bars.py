"""The waves of a rollout as bars, each with a segment for what its devices do."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QFocusEvent, QHelpEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from edgeopt_gui.pages.fleet.waves import GROUPS, Wave
from edgeopt_gui.theme import colours

_MIN_WIDTH = 4.0
"""Minimum width of a segment in pixels, so that one failed device among 500 is visible."""
_LABEL_LETTERS = 9


def _brush(key: str, palette: QPalette) -> QBrush:
    """Returns the brush of a group, for some with a pattern, because not everybody can distinguish the colours."""
    solid = {
        "done": colours.good(),
        "returned": colours.series(3),
        "soaking": colours.series(5),
        "updating": palette.color(QPalette.ColorRole.Accent),
        "failed": colours.bad(),
        "waiting": palette.color(QPalette.ColorRole.Midlight),
    }
    if key in solid:
        pattern = {"soaking": Qt.BrushStyle.Dense3Pattern, "failed": Qt.BrushStyle.SolidPattern}
        return QBrush(solid[key], pattern.get(key, Qt.BrushStyle.SolidPattern))
    pattern = {"offline": Qt.BrushStyle.BDiagPattern, "left": Qt.BrushStyle.Dense6Pattern}
    return QBrush(colours.muted(), pattern[key])


class WaveBars(QWidget):
    """A line for each wave; a legend below. Screen readers get all of it as the description."""

    def __init__(self) -> None:
        super().__init__()
        self._waves: tuple[Wave, ...] = ()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Waves of the rollout")

    @property
    def waves(self) -> tuple[Wave, ...]:
        return self._waves

    def set_waves(self, waves: Sequence[Wave]) -> None:
        if self._waves != tuple(waves):
            self._waves = tuple(waves)
            self.setAccessibleDescription(". ".join(f"{wave.title}: {wave.text}" for wave in waves))
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        letter = self.fontMetrics().averageCharWidth()
        return QSize(letter * 60, self._line() * (len(self._waves) + (1 if self._waves else 0)))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.fontMetrics().averageCharWidth() * 30, self.sizeHint().height())

    def segments(self, wave: Wave, room: QRectF) -> list[tuple[str, QRectF]]:
        """Returns the key and rectangle of each group in a wave; small groups are widened to be visible."""
        widths = [max(_MIN_WIDTH, room.width() * number / wave.size) for _, number in wave.counts]
        scale = room.width() / sum(widths)
        left, found = room.left(), []
        for (group, _), width in zip(wave.counts, widths, strict=True):
            found.append((group.key, QRectF(left, room.top(), width * scale, room.height())))
            left += width * scale
        return found

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            place = event.pos().y() // self._line()
            if 0 <= place < len(self._waves):
                wave = self._waves[place]
                QToolTip.showText(event.globalPos(), f"{wave.title}: {wave.text}", self)
            return True
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusInEvent(event)
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            line, metrics = self._line(), self.fontMetrics()
            label = metrics.averageCharWidth() * _LABEL_LETTERS
            counts = max((metrics.horizontalAdvance(wave.text) for wave in self._waves), default=0)
            counts = min(counts + metrics.averageCharWidth(), self.width() // 2)
            text = self.palette().color(QPalette.ColorRole.WindowText)
            for place, wave in enumerate(self._waves):
                top = place * line
                painter.setPen(text)
                painter.drawText(QRect(2, top, label, line), Qt.AlignmentFlag.AlignVCenter, wave.title)
                bar = QRectF(label, top + line * 0.2, max(1, self.width() - label - counts - line), line * 0.6)
                self._paint_bar(painter, wave, bar)
                shown = metrics.elidedText(wave.text, Qt.TextElideMode.ElideMiddle, counts)
                painter.setPen(text)
                painter.drawText(
                    QRect(self.width() - counts - 4, top, counts, line),
                    Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
                    shown,
                )
            self._paint_legend(painter, len(self._waves) * line, label)
            if self.hasFocus():
                painter.setPen(self.palette().color(QPalette.ColorRole.Accent))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)

    def _paint_bar(self, painter: QPainter, wave: Wave, bar: QRectF) -> None:
        for key, box in self.segments(wave, bar):
            self._paint_box(painter, key, box.adjusted(0, 0, -1, 0))

    def _paint_box(self, painter: QPainter, key: str, box: QRectF) -> None:
        # The edge stands out where the fill does not.
        painter.setPen(colours.muted())
        painter.setBrush(_brush(key, self.palette()))
        painter.drawRect(box)

    def _paint_legend(self, painter: QPainter, top: int, left: float) -> None:
        """Paints the legend, with only the groups that occur."""
        metrics, line = self.fontMetrics(), self._line()
        present = {group.key for wave in self._waves for group, _ in wave.counts}
        size = metrics.height() * 0.7
        for group in (each for each in GROUPS if each.key in present):
            self._paint_box(painter, group.key, QRectF(left, top + (line - size) / 2, size, size))
            left += size + metrics.averageCharWidth()
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            width = metrics.horizontalAdvance(group.title)
            painter.drawText(QRectF(left, top, width + 4, line), Qt.AlignmentFlag.AlignVCenter, group.title)
            left += width + 2 * metrics.averageCharWidth()

    def _line(self) -> int:
        return round(self.fontMetrics().height() * 1.6)
