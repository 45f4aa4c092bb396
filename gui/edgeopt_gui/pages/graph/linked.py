"""Two canvases that move together, with the counterpart of what is selected in one selected in the other."""

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QObject, Signal

from edgeopt.diagram.beside import Beside
from edgeopt.diagram.outline import Path
from edgeopt_gui.pages.graph.canvas import Canvas


class LinkedCanvases(QObject):
    picked = Signal(int)
    """The side in which something was selected."""

    def __init__(self, first: Canvas, second: Canvas) -> None:
        super().__init__(first)
        self.canvases = (first, second)
        self.pair: Beside | None = None
        """The pair of drawings; None if only the first canvas is used."""
        self._busy = False
        for side, canvas in enumerate(self.canvases):
            canvas.moved.connect(lambda side=side: self._moved(side))
            canvas.picked.connect(lambda path, side=side: self._picked(side, path))

    def _moved(self, side: int) -> None:
        if self.pair is None or self._busy:
            return
        with self.suspended():
            self.canvases[1 - side].follow(self.canvases[side])

    def _picked(self, side: int, path: Path | None) -> None:
        if self._busy:
            return
        if self.pair is not None:
            other = self.pair.counterpart(side, path) if path is not None else None
            with self.suspended():
                self.canvases[1 - side].select(self.shown(1 - side, other), centre=False)
        self.picked.emit(side)

    def shown(self, side: int, path: Path | None) -> Path | None:
        """Returns the box of an item: its own, or that of the folded group around it."""
        walk, boxes = self.canvases[side].walk, self.canvases[side].boxes
        return path if path is None or path in boxes or walk is None else walk.shown(path)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspends the link between the canvases, so that one can change without the other."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before
