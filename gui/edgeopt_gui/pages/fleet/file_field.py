"""The path of a file in a form: typed, or chosen."""

from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QWidget

from edgeopt_gui.widgets import dialogs


class FileField(QWidget):
    def __init__(self, name: str, key: str, text: str = "") -> None:
        """`key` names what is chosen, for the folder of the next time."""
        super().__init__()
        self._name, self._key = name, key
        self.line = QLineEdit(text)
        self.line.setAccessibleName(name)
        button = QPushButton("File…")
        button.setAccessibleName(f"Choose: {name}")
        button.clicked.connect(self._choose)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.line, 1)
        row.addWidget(button)
        self.setFocusProxy(self.line)

    @property
    def text(self) -> str:
        return self.line.text().strip()

    def _choose(self) -> None:
        path = dialogs.choose_file(self, self._name, "All files (*)", self._key)
        if path is not None:
            self.line.setText(str(path))
