"""Saves the bundle of a run where the user wants it, in a background thread, and reports the result."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from edgeopt.errors import EdgeoptError
from edgeopt_gui.background import Background
from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize import slow
from edgeopt_gui.pages.optimize.run import Run


class Keeper(QObject):
    note_changed = Signal(object)
    """The `Run` whose note has changed."""

    def __init__(self, context: Context, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._background = Background(self)
        self.busy = False

    def save(self, run: Run, target: Path, single_file: bool = False) -> None:
        bundle = run.folder
        if bundle is not None:
            self._do(
                run, lambda: slow.saving().save_bundle(bundle, target, single_file), self._saved, "optimize.save"
            )

    def export(self, run: Run, target: Path) -> None:
        bundle = run.folder
        if bundle is not None:
            self._do(
                run, lambda: slow.saving().export_deployment(bundle, target), self._exported, "optimize.export"
            )

    def _do(self, run: Run, work: Callable[[], Path], then: Callable[[Run, Path], None], retry: str) -> None:
        self.busy = True
        self._say(run, "Saving…")
        self._background.do(work, lambda outcome: self._ended(run, outcome, then, retry))

    def _ended(
        self, run: Run, outcome: Path | EdgeoptError, then: Callable[[Run, Path], None], retry: str
    ) -> None:
        self.busy = False
        if isinstance(outcome, EdgeoptError):
            self._say(run, f"{outcome.message} {outcome.hint}".strip(), retry)
        else:
            then(run, outcome)
            self._context.say(run.note)

    def _saved(self, run: Run, path: Path) -> None:
        follow = self._context.bundle == run.bundle
        run.saved = path
        if follow:
            self._context.use_bundle(path)
        self._say(run, f"Saved as {path}.")

    def _exported(self, run: Run, path: Path) -> None:
        self._say(run, f"Exported to {path}.")

    def _say(self, run: Run, sentence: str, retry: str = "") -> None:
        run.note, run.retry = sentence, retry
        self.note_changed.emit(run)
