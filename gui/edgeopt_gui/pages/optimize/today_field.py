"""What runs today, where something does: the winner must be faster than that, too."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from edgeopt.errors import EdgeoptError
from edgeopt_gui.background import Background
from edgeopt_gui.pages.optimize.slow import slow
from edgeopt_gui.pages.optimize.texts import quiet, selectable
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.dialogs import DEPLOYED, choose_file, choose_folder

_NOTHING = "Your model in plain ONNX Runtime is what counts."


class TodayField(QWidget):
    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._background = Background(self)
        self.path: Path | None = None
        self.problem = ""
        """Why it cannot be used, as a sentence."""
        self.name = QLabel()
        self.name.setTextFormat(Qt.TextFormat.PlainText)
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.name.setAccessibleName("What runs today")
        self.use = quiet(selectable(QLabel()))
        row = QHBoxLayout()
        row.addWidget(ActionButton("optimize.choose-today", text="File…"))
        row.addWidget(ActionButton("optimize.choose-today-folder", text="Folder…"))
        row.addWidget(ActionButton("optimize.clear-today", text="None"))
        row.addStretch()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        column.addWidget(self.name)
        column.addWidget(self.use)
        column.addLayout(row)
        self.set(None)

    def set(self, path: Path | None) -> None:
        """Another one, or none; looked at beside the GUI's thread."""
        self.path, self.problem = path, ""
        shown = path.name if path is not None else "Nothing yet"
        wide = self.fontMetrics().averageCharWidth() * 36
        self.name.setText(self.fontMetrics().elidedText(shown, Qt.TextElideMode.ElideMiddle, wide))
        self.name.setToolTip(str(path) if path is not None else "")
        self.use.setText("Looking at it…" if path is not None else _NOTHING)
        if path is not None:
            self._background.do(lambda: _about(path), lambda found: self._told(path, found))
        self.changed.emit()

    def choose(self) -> None:
        path = choose_file(self, "Choose what runs today", DEPLOYED, "bundle")
        if path is not None:
            self.set(path)

    def choose_folder(self) -> None:
        path = choose_folder(self, "Choose the bundle that runs today", "bundle")
        if path is not None:
            self.set(path)

    def why_not_clear(self) -> str:
        return "" if self.path is not None else "Nothing is chosen that runs today."

    def _told(self, path: Path, found: str | EdgeoptError) -> None:
        if path != self.path:
            return  # another one was chosen meanwhile
        if isinstance(found, EdgeoptError):
            self.problem = found.message
            found = f"{found.message} {found.hint}".strip()
        self.use.setText(found)
        self.changed.emit()


def _about(path: Path) -> str:
    """What it is, from its own papers; raises EdgeoptError for what is no sound bundle."""
    if path.is_file() and path.suffix != ".edgeopt":
        return "The winner must be faster than this model, too; if nothing is, this is kept."
    profile = slow("edgeopt.bundle.read").read_bundle(path).deployment
    return f"A bundle of {profile.source.name}. The winner must be faster than it; if nothing is, it is kept."
