"""Boxes and lines of a diagram as items of a QGraphicsScene, with less detail the farther away they are."""

from bisect import bisect
from functools import cache
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QPainter, QPainterPath, QPalette, QPen
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from edgeopt.diagram.colours import Colouring
from edgeopt.diagram.figures import group_figures
from edgeopt.diagram.layered import Knots
from edgeopt.diagram.outline import OutlineGroup
from edgeopt.diagram.scene import Box, Diagram, End, Line, last_part
from edgeopt_gui.theme import colours

_TITLE_SIZE, _SECOND_SIZE = 12, 11
"""Heights of the fonts in scene units, which the layout's widths of boxes are made for."""
MIN_TEXT = 10.0
"""Smallest height in pixels at which a text is drawn."""
READABLE = 0.92
"""Scale from which both lines of a box and the labels of lines are drawn."""
TITLES_FROM = 0.4
"""Scale from which a box has room for its title at the smallest height."""
_SMOOTH_FROM = 0.25
_STRIPE = 7.0
_EDGE = 2.0
_LONG = 8
"""Knots of a line that is drawn in parts."""


class LineItem(QGraphicsItem):
    def __init__(self, line: Line, label: str = "") -> None:
        super().__init__()
        self.line = line
        self._label = label
        self.strong = False
        self._path = path_of(line.knots)
        self._heights = [y for _, y in line.knots]
        self._is_long = len(line.knots) > _LONG and self._heights == sorted(self._heights)
        if self._is_long:
            # With this flag, only the visible part of a long line is painted.
            self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemUsesExtendedStyleOption)
        self._bounds = self._path.boundingRect().adjusted(-_EDGE, -_EDGE, _EDGE, _EDGE)
        if label:
            x, y = line.knots[0]
            self._place = QRectF(x + 4, y + 1, _metrics(_SECOND_SIZE).horizontalAdvance(label) + 4, 14)
            self._bounds = self._bounds.united(self._place)
        self.setZValue(1)

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        return self._bounds

    def mark(self, strong: bool) -> None:
        if strong != self.strong:
            self.strong = strong
            self.setZValue(2 if strong else 1)
            self.update()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        scale = painter.worldTransform().m11()
        palette = QGuiApplication.palette()
        colour = palette.color(QPalette.ColorRole.Highlight) if self.strong else _line_colour(palette)
        pen = QPen(colour, 2.4 if self.strong else 1.2)
        pen.setCosmetic(scale < _SMOOTH_FROM)
        if scale < _SMOOTH_FROM:
            pen.setWidthF(2.0 if self.strong else 0.0)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, scale >= _SMOOTH_FROM)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(self._in_sight(option))
        if self._label and scale >= READABLE:
            painter.setFont(_font(_SECOND_SIZE))
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            painter.drawText(self._place, Qt.AlignmentFlag.AlignLeft, self._label)

    def _in_sight(self, option: QStyleOptionGraphicsItem) -> QPainterPath:
        if not self._is_long:
            return self._path
        shown = option.exposedRect
        first = max(0, bisect(self._heights, shown.top()) - 1)
        last = min(len(self._heights), bisect(self._heights, shown.bottom()) + 1)
        return path_of(self.line.knots[first:last]) if last - first > 1 else QPainterPath()


class BoxItem(QGraphicsItem):
    """A node, a folded group, an end of the model, or the frame of an open group."""

    def __init__(self, diagram: Diagram, box: Box) -> None:
        super().__init__()
        self.box = box
        self.selected = self.found = False
        self.title, self.second, self._plain_second = "", "", ""
        self.fill: QColor | None = None
        self._full = False
        self._bounds = QRectF(box.left, box.top, box.width, box.height)
        self._name(diagram)
        self.setZValue(-10 + len(box.path) * 0.01 if box.is_open else 3)

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        return self._bounds.adjusted(-_EDGE, -_EDGE, _EDGE, _EDGE)

    def colour_by(self, colouring: Colouring) -> None:
        item = self.box.item
        if isinstance(item, End) or self.box.is_open:
            return
        fill = colouring.of(item)
        self.fill = colours.swatch(fill.colour) if fill is not None else None
        self._full = fill is not None and fill.solid
        has_amounts = fill is not None and colouring.amounts is not None
        self.second = fill.text if fill is not None and has_amounts else self._plain_second
        self.setToolTip("\n".join(part for part in (self._tip, fill.text if fill is not None else "") if part))
        self.update()

    def mark(self, selected: bool, found: bool) -> None:
        if (selected, found) != (self.selected, self.found):
            self.selected, self.found = selected, found
            self.update()

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        scale = painter.worldTransform().m11()
        palette = QGuiApplication.palette()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, scale >= _SMOOTH_FROM)
        if self.box.is_open:
            self._paint_frame(painter, palette, scale)
            return
        full = self._full and self.fill is not None
        base = self.fill if full and self.fill is not None else palette.color(QPalette.ColorRole.Base)
        if scale < TITLES_FROM:
            painter.fillRect(self._bounds, self.fill or palette.color(QPalette.ColorRole.Button))
            self._paint_border(painter, palette, scale)
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(base)
        radius = self.box.height / 2 if isinstance(self.box.item, End) else 5.0
        painter.drawRoundedRect(self._bounds, radius, radius)
        if self.fill is not None and not full:
            painter.fillRect(self._bounds.adjusted(2, 4, _STRIPE + 2 - self._bounds.width(), -4), self.fill)
        self._paint_border(painter, palette, scale)
        light = base.lightness() > 140
        self._paint_texts(painter, QColor("#1d2126" if light else "#ffffff"), scale)

    def _paint_frame(self, painter: QPainter, palette: QPalette, scale: float) -> None:
        shade = palette.color(QPalette.ColorRole.Text)
        shade.setAlphaF(0.04)
        colour = palette.color(QPalette.ColorRole.Highlight if self.selected else QPalette.ColorRole.Mid)
        painter.setBrush(shade)
        pen = QPen(colour, 2.5 if self.selected else 1.0)
        pen.setCosmetic(True)
        painter.setPen(pen)
        painter.drawRoundedRect(self._bounds, 8, 8)
        if scale >= TITLES_FROM:
            size = title_size(scale)
            painter.setFont(_font(size))
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            area = self._bounds.adjusted(8, 2, -8, 0)
            title = _elided(self.title, area.width(), size)
            painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, title)

    def _paint_border(self, painter: QPainter, palette: QPalette, scale: float) -> None:
        colour, width = _line_colour(palette), 1.0
        if self.found:
            colour, width = QColor("#d18b00"), 2.5
        if self.selected:
            colour, width = palette.color(QPalette.ColorRole.Highlight), 3.0
        if scale < _SMOOTH_FROM and not (self.selected or self.found):
            return
        pen = QPen(colour, width)
        pen.setCosmetic(True)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        radius = self.box.height / 2 if isinstance(self.box.item, End) else 5.0
        painter.drawRoundedRect(self._bounds, radius, radius)

    def _paint_texts(self, painter: QPainter, colour: QColor, scale: float) -> None:
        area = self._text_area()
        texts = self.texts(scale)
        height = area.height() / len(texts)
        for number, (text, size) in enumerate(texts):
            painter.setFont(_font(size))
            shade = QColor(colour)
            shade.setAlphaF(0.75 if number else 1.0)
            painter.setPen(shade)
            shown = _elided(text, area.width(), size)
            place = QRectF(area.left(), area.top() + number * height, area.width(), height)
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter, shown)

    def _text_area(self) -> QRectF:
        left = _STRIPE + 4 if self.fill is not None and not self._full else 5
        return self._bounds.adjusted(left, 2, -5, -2)

    def is_readable(self, scale: float) -> bool:
        """Whether the title is drawn in full at a scale; a longer one than the layout has room for never is."""
        if self.box.is_open:
            return scale >= TITLES_FROM
        size, width = title_size(scale), self._text_area().width()
        in_full = _elided(self.title, width, size) == _elided(self.title, width, _TITLE_SIZE)
        return scale >= TITLES_FROM and in_full

    def texts(self, scale: float) -> tuple[tuple[str, int], ...]:
        """Returns the lines of text that are drawn at a scale, each with its height in scene units."""
        if scale < TITLES_FROM:
            return ()
        if scale < READABLE or not self.second:
            return ((self.title, title_size(scale)),)
        return (self.title, _TITLE_SIZE), (self.second, _SECOND_SIZE)

    def _name(self, diagram: Diagram) -> None:
        item = self.box.item
        if isinstance(item, End):
            self.title, self._tip = (
                item.tensor.name,
                f"{'Input' if item.is_input else 'Output'} {item.tensor.name}",
            )
        elif isinstance(item, OutlineGroup):
            self.title, self._plain_second = item.title, diagram.group_line(self.box.path)
            facts = group_figures(diagram, self.box.path)
            self._tip = "\n".join((item.title, *(f"{name}: {text}" for name, text in facts)))
        else:
            node = diagram.nodes[item.position]
            self.title, self._plain_second = node.operator, last_part(node.name)
            self._tip = f"{node.operator} {node.name}"
        self.second = self._plain_second
        self.setToolTip(self._tip)


def _line_colour(palette: QPalette) -> QColor:
    dark = palette.color(QPalette.ColorRole.Window).lightness() < 128
    return palette.color(QPalette.ColorRole.Mid).lighter(140) if dark else palette.color(QPalette.ColorRole.Dark)


def path_of(knots: Knots) -> QPainterPath:
    """Returns a line through the knots: straight where x is the same, else a curve with vertical ends."""
    path = QPainterPath(QPointF(*knots[0]))
    x, y = knots[0]
    for next_x, next_y in knots[1:]:
        if abs(next_x - x) < 0.5:
            path.lineTo(next_x, next_y)
        else:
            middle = (y + next_y) / 2
            path.cubicTo(x, middle, next_x, middle, next_x, next_y)
        x, y = next_x, next_y
    return path


def title_size(scale: float) -> int:
    """Returns the height of a title in scene units, larger if it would be too small on the screen."""
    return max(_TITLE_SIZE, ceil(MIN_TEXT / scale))


@cache
def _font(size: int) -> QFont:
    """Returns the font of boxes in scene units, independent of the screen's scale, as the layout assumes."""
    font = QFont(QGuiApplication.font())
    font.setPixelSize(size)
    return font


@cache
def _metrics(size: int) -> QFontMetricsF:
    return QFontMetricsF(_font(size))


@cache
def _elided(text: str, width: float, size: int) -> str:
    """Returns the text cut in its middle to fit the width; cached, as measuring it would take most of a frame."""
    return _metrics(size).elidedText(text, Qt.TextElideMode.ElideMiddle, width)
