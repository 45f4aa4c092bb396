"""Samples and pictures as files, written in a thread."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtGui import QImage

from edgeopt.errors import EdgeoptError
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.live.files import write_csv
from edgeopt_gui.pages.live.history import Snapshot
from edgeopt_gui.pages.live.picture import write_png


class Exports(QObject):
    def __init__(self, context: Context, parent: QObject) -> None:
        super().__init__(parent)
        self.writing = False
        self._context = context
        self._background = Background(self)

    def csv(self, snapshot: Snapshot, path: Path) -> None:
        self._write(path, lambda: f"{write_csv(snapshot, path):,} rows")

    def png(self, image: QImage, path: Path) -> None:
        self._write(path, lambda: write_png(image, path))

    def _write(self, path: Path, work: Callable[[], str]) -> None:
        def write() -> str:
            try:
                return work()
            except OSError as error:
                raise EdgeoptError(
                    f"'{path}' could not be written: {error.strerror or error}.",
                    "Choose another folder, or free some space.",
                ) from None

        def done(outcome: str | EdgeoptError) -> None:
            self.writing = False
            if isinstance(outcome, EdgeoptError):
                self._context.report(Ending("failed", {}, outcome.message, outcome.hint))
            else:
                self._context.say(f"Wrote {path} ({outcome}).")
            self._context.changed.emit()

        self.writing = True
        self._background.do(write, done)
        self._context.changed.emit()
