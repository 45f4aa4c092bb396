"""Short work on the disk, done beside the GUI's thread and answered on it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal

from edgeopt.errors import EdgeoptError


class Background(QObject):
    _finished = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._finished.connect(self._answer)

    def do(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Calls `then` on the GUI's thread with what `work` returned, or with the EdgeoptError that it raised."""
        self._pool.start(_Work(work, lambda outcome: self._finished.emit(then, outcome)))

    def wait(self) -> None:
        """Blocks until all work is done; for the end of the app only."""
        self._pool.waitForDone()

    def _answer(self, then: Callable[[Any], None], outcome: object) -> None:
        if isinstance(outcome, Exception) and not isinstance(outcome, EdgeoptError):
            raise outcome
        then(outcome)


class _Work(QRunnable):
    def __init__(self, work: Callable[[], Any], report: Callable[[Any], None]) -> None:
        super().__init__()
        self._work, self._report = work, report

    def run(self) -> None:
        try:
            outcome = self._work()
        except Exception as error:  # noqa: BLE001 - the thread's edge: a bug is raised again on the GUI's thread
            outcome = error
        with suppress(RuntimeError):  # the page is gone, and nobody waits for the answer
            self._report(outcome)
