"""One side: the name of what was chosen, what it is, and the buttons that choose another."""

from pathlib import Path

from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from edgeopt_gui.subject import subject_at
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.elided_label import ElidedLabel
from edgeopt_gui.widgets.heading import heading, quiet


class SideField(QFrame):
    def __init__(self, side: str, file: str, folder: str) -> None:
        """`side` is A or B; then the actions behind the two buttons."""
        super().__init__()
        self.setProperty("role", "card")
        self._side = side
        self.name = ElidedLabel()
        self.what = quiet()
        line = self.fontMetrics().height()
        top = QHBoxLayout()
        letter = heading(side)
        letter.setWordWrap(False)
        top.addWidget(letter)
        top.addWidget(self.name, 1)
        for action, text in ((file, "File…"), (folder, "Folder…")):
            top.addWidget(ActionButton(action, text=text))
        column = QVBoxLayout(self)
        column.setContentsMargins(line // 2, line // 3, line // 2, line // 3)
        column.setSpacing(line // 4)
        column.addLayout(top)
        column.addWidget(self.what)
        self.set(None)

    def set(self, path: Path | None, note: str = "") -> None:
        """Shows the file of the side; `note` says where it comes from, or why it is empty."""
        shown = path.name if path is not None else "Nothing chosen"
        self.name.set(shown, str(path) if path is not None else "")
        self.name.setAccessibleName(f"Side {self._side}: {shown}")
        kind = subject_at(path).kind.capitalize() if path is not None else ""
        self.what.setText(" · ".join(part for part in (kind, note) if part) or "A model or bundle")
