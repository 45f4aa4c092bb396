"""The diagram in a view: drag to pan, wheel to zoom, keys to walk along the edges, double click to open."""

from collections.abc import Callable, Collection

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QResizeEvent, QTransform, QWheelEvent
from PySide6.QtWidgets import QFrame, QGraphicsScene, QGraphicsView

from edgeopt.diagram.colours import Colouring
from edgeopt.diagram.outline import OutlineGroup, Path
from edgeopt.diagram.scene import Diagram, End, Scene
from edgeopt_gui.pages.graph.items import READABLE, BoxItem, LineItem
from edgeopt_gui.pages.graph.minimap import Minimap
from edgeopt_gui.pages.graph.walk import Walk

_MARGIN = 40.0
_ROOM = 1500.0
"""Space around the diagram, so that any box can keep its place on the screen when the rest moves."""
_MAX_SCALE, _MIN_SCALE = 3.0, 0.01
_STEP = 1.25
_RIM = 0.15
"""Margin as a share of the view's size; the view is centred on a wanted box that reaches into it."""


class Canvas(QGraphicsView):
    picked = Signal(object)
    """The path of the selected box, or None."""
    toggled = Signal(object)
    """The path of a group to open or fold."""
    moved = Signal()
    """Emitted when another part of the graph or another scale is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("graph-canvas")
        self.setAccessibleName("Graph of the model")
        self.setAccessibleDescription(
            "The arrow keys go from node to node, Enter opens or folds a group, + and - zoom."
        )
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        # What was clicked stays under the cursor when a panel opens beside it.
        self.setResizeAnchor(QGraphicsView.ViewportAnchor.NoAnchor)
        self.setViewportUpdateMode(QGraphicsView.ViewportUpdateMode.MinimalViewportUpdate)
        self.setOptimizationFlag(QGraphicsView.OptimizationFlag.DontSavePainterState)
        self.setOptimizationFlag(QGraphicsView.OptimizationFlag.DontAdjustForAntialiasing)
        self.minimap = Minimap(self)
        self.minimap.centred.connect(self._centre)
        self._scene = QGraphicsScene(self)
        self._whole = QRectF()
        self.setScene(self._scene)
        self.boxes: dict[Path, BoxItem] = {}
        self.lines: list[LineItem] = []
        self.walk: Walk | None = None
        self.diagram: Diagram | None = None
        """The diagram on the canvas; None while it is empty."""
        self.legend: tuple[tuple[str, str], ...] = ()
        """Legend of the present colours."""
        self.maximum = 0.0
        """The amount of the strongest colour."""
        self.selected: Path | None = None
        self._found: frozenset[Path] = frozenset()
        self._pressed = QPoint()
        self._pressed_path: Path | None = None
        self._view_again: Callable[[], None] | None = None
        """`begin` or `fit`, repeated when the size changes; None once the user has moved the view."""
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            bar.valueChanged.connect(lambda _: self._show_view())

    def show_scene(
        self,
        diagram: Diagram,
        scene: Scene,
        colouring: Colouring,
        keep: Path | None = None,
        becomes: Path | None = None,
    ) -> None:
        """Draws another scene; the box of `keep`, now that of `becomes`, stays where it is on the screen."""
        before = self._screen_place(keep)
        if becomes is not None:
            self.selected = becomes
        self._scene.clear()
        self.boxes = {box.path: BoxItem(diagram, box) for box in scene.boxes}
        named: set[tuple[Path | None, int | None]] = set()
        frames = {box.path for box in scene.boxes if box.is_open}
        self.lines = []
        for line in scene.lines:
            # One label is enough for a value with several readers, and for all outputs of a folded group.
            folded = line.source is not None and self.is_group(line.source)
            key = (line.source, None if folded and line.source not in frames else line.value)
            label = "" if key in named else diagram.values[line.value].label
            named.add(key)
            self.lines.append(LineItem(line, label if line.source is not None else ""))
        for item in (*self.boxes.values(), *self.lines):
            self._scene.addItem(item)
        self.walk, self.diagram = Walk(diagram, scene), diagram
        whole = QRectF(0, 0, scene.width, scene.height)
        self._whole = whole.adjusted(-_MARGIN, -_MARGIN, _MARGIN, _MARGIN)
        self._scene.setSceneRect(whole.adjusted(-_ROOM, -_ROOM, _ROOM, _ROOM))
        self.colour_by(colouring)
        if self.selected is not None:
            self.select(self._visible(self.selected), centre=False)
        after = self._screen_place(keep if becomes is None else becomes)
        if before is not None and after is not None:
            self._scroll(after - before)
        self._show_view()

    def clear(self) -> None:
        self.select(None)
        self._scene.clear()
        self.boxes, self.lines, self.walk, self.diagram = {}, [], None, None
        self._found = frozenset()
        self.minimap.forget()

    def colour_by(self, colouring: Colouring, at_least: float = 0.0) -> None:
        shown = [item.box.item for item in self.boxes.values() if not item.box.is_open]
        colouring = colouring.scaled_to((item for item in shown if not isinstance(item, End)), at_least)
        self.legend, self.maximum = colouring.legend, colouring.maximum
        for item in self.boxes.values():
            item.colour_by(colouring)
        self.minimap.show_boxes(self.boxes.values(), self._whole)

    def select(self, path: Path | None, centre: bool = True) -> None:
        changed = path != self.selected
        self.selected = path
        for each, item in self.boxes.items():
            item.mark(each == path, each in self._found)
        for line in self.lines:
            line.mark(path is not None and path in (line.line.source, line.line.target))
        if path is not None:
            self._view_again = None
        if path in self.boxes and centre:
            self._bring_into_sight(self.boxes[path])
        if changed:
            self.picked.emit(path)

    def mark_found(self, paths: Collection[Path]) -> None:
        self._found = frozenset(paths)
        for each, item in self.boxes.items():
            item.mark(each == self.selected, each in self._found)
        hits = (self.boxes[path].boundingRect().center() for path in self._found if path in self.boxes)
        self.minimap.show_hits(hits)

    def fit(self) -> None:
        """Shows the whole diagram."""
        self._view_again = self.fit
        # The viewport's present size is too large: Qt shows the scroll bars only after this.
        room = self.maximumViewportSize()
        wide = room.width() - self.verticalScrollBar().sizeHint().width()
        high = room.height() - self.horizontalScrollBar().sizeHint().height()
        scale = min(1.0, wide / max(1.0, self._whole.width()), high / max(1.0, self._whole.height()))
        self.resetTransform()
        self.scale(scale, scale)
        self.centerOn(self._whole.center())
        self._show_view()

    def begin(self) -> None:
        """Shows the whole diagram if every title can be read at that scale, else its top at one where all can."""
        self.fit()
        scale = self.transform().m11()
        if not all(item.is_readable(scale) for item in self.boxes.values()):
            self._show_top()
        self._view_again = self.begin

    def _show_top(self) -> None:
        self.resetTransform()
        whole, room = self._whole, self.maximumViewportSize()
        scale = min(1.0, max(READABLE, room.width() / max(1.0, whole.width())))
        self.scale(scale, scale)
        half = room.width() / scale / 2
        first = self.walk.first() if self.walk else None
        middle = whole.center().x() if first is None else self.boxes[first].boundingRect().center().x()
        # The view does not scroll beyond the diagram, where there is nothing to see.
        middle = whole.center().x() if whole.width() <= 2 * half else self._between(middle, half)
        self.centerOn(middle, whole.top() + room.height() / scale / 2)
        self._show_view()

    def _between(self, middle: float, half: float) -> float:
        return min(max(middle, self._whole.left() + half), self._whole.right() - half)

    def follow(self, other: "Canvas") -> None:
        """Shows the same part of its diagram as the other one."""
        self.setTransform(other.transform())
        for own, its in (
            (self.horizontalScrollBar(), other.horizontalScrollBar()),
            (self.verticalScrollBar(), other.verticalScrollBar()),
        ):
            own.setValue(its.value())
        self._show_view()

    def zoom(self, factor: float) -> None:
        self._view_again = None
        scale = self.transform().m11()
        wished = min(_MAX_SCALE, max(_MIN_SCALE, scale * factor))
        self.scale(wished / scale, wished / scale)
        self._show_view()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        """Zooms at the point under the cursor; with Shift, scrolls sideways."""
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            super().wheelEvent(event)
            return
        self.zoom(_STEP ** (event.angleDelta().y() / 120))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        self._view_again = None
        self._pressed = event.position().toPoint()
        self._pressed_path = self._path_at(self._pressed)
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        super().mouseReleaseEvent(event)
        at = event.position().toPoint()
        if event.button() == Qt.MouseButton.LeftButton and (at - self._pressed).manhattanLength() < 4:
            self.select(self._path_at(at), centre=False)

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        # The first click may have opened a panel, which leaves another item under the cursor.
        path = self._pressed_path
        if path is not None and self.is_group(path):
            self.toggled.emit(path)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        key = Qt.Key(event.key())
        if key in {Qt.Key.Key_Plus, Qt.Key.Key_Equal}:
            self.zoom(_STEP)
        elif key == Qt.Key.Key_Minus:
            self.zoom(1 / _STEP)
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and self.selected and self.is_group(self.selected):
            self.toggled.emit(self.selected)
        elif key == Qt.Key.Key_Backspace and self.selected and len(self.selected) > 1:
            self.toggled.emit(self.selected[:-1])
        elif key in {Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Right}:
            self._step(key)
        else:
            super().keyPressEvent(event)

    def is_group(self, path: Path) -> bool:
        return path in self.boxes and isinstance(self.boxes[path].box.item, OutlineGroup)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self.minimap.lie_in(self.viewport().geometry())
        if self._view_again is not None:
            self._view_again()
        elif self.selected in self.boxes:
            # A panel that opens must not cover what was selected to be shown in it.
            box = self.boxes[self.selected].boundingRect()
            if self.mapToScene(QRect(QPoint(), event.oldSize())).boundingRect().contains(box):
                self.ensureVisible(box)
        self._show_view()

    def picture(self, painter: QPainter, target: QRectF) -> None:
        """Paints the whole diagram, including the parts out of sight."""
        self._scene.render(painter, target, self._whole)

    def _step(self, key: Qt.Key) -> None:
        walk = self.walk
        if walk is None:
            return
        at = self.selected if self.selected in walk.boxes else None
        if at is None:
            self.select(walk.first())
            return
        steps = {
            Qt.Key.Key_Up: lambda: walk.up(at),
            Qt.Key.Key_Down: lambda: walk.down(at),
            Qt.Key.Key_Left: lambda: walk.beside(at, to_the_right=False),
            Qt.Key.Key_Right: lambda: walk.beside(at, to_the_right=True),
        }
        self.select(steps[key]() or at)

    def _visible(self, path: Path) -> Path | None:
        return path if path in self.boxes else (self.walk.shown(path) if self.walk else None)

    def _path_at(self, at: QPoint) -> Path | None:
        """Returns the path of the innermost box at a point; None if there is none."""
        found = [item for item in self.items(at) if isinstance(item, BoxItem)]
        return max((item.box.path for item in found), key=len, default=None)

    def _bring_into_sight(self, item: BoxItem) -> None:
        if self.transform().m11() < READABLE:
            self.setTransform(QTransform.fromScale(READABLE, READABLE))
        view = self.mapToScene(self.viewport().rect()).boundingRect()
        wide, high = _RIM * view.width(), _RIM * view.height()
        inner = view.adjusted(wide, high, -wide, -high)
        if not inner.contains(item.boundingRect()):
            self.centerOn(item.boundingRect().center())
        self._show_view()

    def _screen_place(self, path: Path | None) -> QPointF | None:
        item = self.boxes.get(path) if path is not None else None
        if item is None:
            return None
        return QPointF(self.mapFromScene(QPointF(item.box.left + item.box.width / 2, item.box.top)))

    def _scroll(self, way: QPointF) -> None:
        for bar, distance in ((self.horizontalScrollBar(), way.x()), (self.verticalScrollBar(), way.y())):
            bar.setValue(bar.value() + round(distance))

    def _centre(self, point: QPointF) -> None:
        self.centerOn(point)

    def _show_view(self) -> None:
        self.minimap.show_view(self.mapToScene(self.viewport().rect()).boundingRect())
        self.moved.emit()
