"""A file or folder that was chosen: its name, what it is good for, and the buttons that choose another."""

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from edgeopt_gui.background import Background
from edgeopt_gui.pages.optimize.texts import quiet, selectable
from edgeopt_gui.widgets.action_button import ActionButton

_WIDEST_CHARACTERS = 36


class PathField(QWidget):
    """`background` reads the chosen file outside the GUI's thread."""

    def __init__(
        self, file: str, folder: str, none: str, texts: tuple[str, str, str] = ("File…", "Folder…", "None")
    ) -> None:
        """The actions behind the three buttons, and the texts of the buttons."""
        super().__init__()
        self.background = Background(self)
        self.problem = ""
        """The reason why the file cannot be used, as a sentence; "" if it can."""
        self.name = QLabel()
        self.name.setTextFormat(Qt.TextFormat.PlainText)
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.use = quiet(selectable(QLabel()))
        row = QHBoxLayout()
        for action, text in zip((file, folder, none), texts, strict=True):
            row.addWidget(ActionButton(action, text=text))
        row.addStretch()
        column = self.column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 3)
        column.addWidget(self.name)
        column.addWidget(self.use)
        column.addLayout(row)

    def say(self, sentence: str, *, wrong: bool = False) -> None:
        """Shows what the file is used for, or with `wrong`, why it cannot be used."""
        self.use.setText(sentence)
        role = "problem" if wrong else "muted"
        if self.use.property("role") != role:
            self.use.setProperty("role", role)
            self.use.style().unpolish(self.use)
            self.use.style().polish(self.use)

    def show_name(self, path: Path | None, otherwise: str) -> None:
        """Shows the name of the path, or `otherwise` if none is chosen."""
        shown = path.name if path is not None else otherwise
        wide = self.fontMetrics().averageCharWidth() * _WIDEST_CHARACTERS
        self.name.setText(self.fontMetrics().elidedText(shown, Qt.TextElideMode.ElideMiddle, wide))
        self.name.setToolTip(str(path) if path is not None else "")
