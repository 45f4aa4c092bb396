"""A layout of widgets side by side, in as many rows as the width needs."""

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem


class FlowLayout(QLayout):
    def __init__(self, across: int, down: int) -> None:
        """`across` and `down` are the spaces between neighbours and between rows, in pixels."""
        super().__init__()
        self.setContentsMargins(0, 0, 0, 0)
        self._items: list[QLayoutItem] = []
        self._across, self._down = across, down

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802 - Qt's name
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, place: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        return self._items[place] if 0 <= place < len(self._items) else None

    def takeAt(self, place: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        return self._items.pop(place) if 0 <= place < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802 - Qt's name
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        edges = self.contentsMargins()
        inner = width - edges.left() - edges.right()
        return self._arrange(QRect(0, 0, inner, 0), move=False) + edges.top() + edges.bottom()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return self.minimumSize()

    def minimumSize(self) -> QSize:  # noqa: N802 - Qt's name
        sizes = [item.minimumSize() for item in self._items if not item.isEmpty()]
        edges = self.contentsMargins()
        width, height = (max((side(s) for s in sizes), default=0) for side in (QSize.width, QSize.height))
        return QSize(width, height).grownBy(edges)

    def setGeometry(self, box: QRect) -> None:  # noqa: N802 - Qt's name
        super().setGeometry(box)
        self._arrange(self.contentsRect(), move=True)

    def _arrange(self, box: QRect, *, move: bool) -> int:
        """Returns the height that all rows need."""
        x = y = high = 0
        for item in self._items:
            if item.isEmpty():
                continue
            size = item.sizeHint()
            if x and x + size.width() > box.width():
                x, y, high = 0, y + high + self._down, 0
            if move:
                item.setGeometry(QRect(box.x() + x, box.y() + y, min(size.width(), box.width()), size.height()))
            x, high = x + size.width() + self._across, max(high, size.height())
        return y + high
