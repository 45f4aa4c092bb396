"""The form for the baseline in use today, if there is one; the winner must also be faster than it."""

from pathlib import Path

from PySide6.QtCore import Signal

from edgeopt.errors import EdgeoptError
from edgeopt_gui.pages.optimize.path_field import PathField
from edgeopt_gui.pages.optimize.slow import slow
from edgeopt_gui.widgets.dialogs import DEPLOYED, choose_file, choose_folder

_NOTHING = "Baseline: your model in plain ONNX Runtime."


class TodayField(PathField):
    changed = Signal()

    def __init__(self) -> None:
        super().__init__("optimize.choose-today", "optimize.choose-today-folder", "optimize.clear-today")
        self.path: Path | None = None
        self.name.setAccessibleName("What runs today")
        self.set(None)

    def set(self, path: Path | None) -> None:
        """Sets the baseline, or none, and checks it in a background thread."""
        self.path, self.problem = path, ""
        self.show_name(path, "Nothing yet")
        self.say("Looking at it…" if path is not None else _NOTHING)
        if path is not None:
            self.background.do(lambda: _about(path), lambda found: self._show_result(path, found))
        self.changed.emit()

    def choose(self) -> None:
        path = choose_file(self, "Choose what runs today", DEPLOYED, "bundle")
        if path is not None:
            self.set(path)

    def choose_folder(self) -> None:
        path = choose_folder(self, "Choose the bundle that runs today", "bundle")
        if path is not None:
            self.set(path)

    def _show_result(self, path: Path, found: str | EdgeoptError) -> None:
        if path != self.path:
            return  # another one was chosen meanwhile
        if isinstance(found, EdgeoptError):
            self.problem = found.message
            found = f"{found.message} {found.hint}".strip()
        self.say(found, wrong=bool(self.problem))
        self.changed.emit()


def _about(path: Path) -> str:
    """Describes the chosen model or bundle; raises EdgeoptError if a bundle is damaged."""
    if path.is_file() and path.suffix != ".edgeopt":
        return "The winner must be faster than this model, too; if nothing is, this is kept."
    profile = slow("edgeopt.bundle.read").read_bundle(path).deployment
    return f"A bundle of {profile.source.name}. The winner must be faster than it; if nothing is, it is kept."
