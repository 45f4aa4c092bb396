"""Turns the nodes of an analysis into records, a few at a time: ten thousand at once would stop the app."""

from typing import Any

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from edgeopt.decoding import thread_safe
from edgeopt.graph.analysis import NodeRow

AT_ONCE = 500


class NodeFeed(QObject):
    ready = Signal(object)
    """The list of all `NodeRow`s."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._plain: list[Any] = []
        self._rows: list[NodeRow] = []
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._next)

    def start(self, plain: list[Any]) -> None:
        """Starts converting the nodes, and discards unfinished work."""
        self._plain, self._rows = plain, []
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()
        self._plain = []

    def _next(self) -> None:
        done = len(self._rows)
        self._rows += msgspec.convert(self._plain[done : done + AT_ONCE], thread_safe(list[NodeRow]))
        if len(self._rows) == len(self._plain):
            self.stop()
            self.ready.emit(self._rows)
