"""Asks without holding up the app: for one line of text, or whether to go on."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QLineEdit, QMessageBox, QVBoxLayout, QWidget

_LETTERS = 48


class AskText(QDialog):
    """Call `open`; it goes away by itself."""

    given = Signal(str)

    def __init__(self, parent: QWidget, title: str, question: str, text: str, does: str) -> None:
        """`does` is what the button says."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        label = QLabel(f"&{question}")
        self.field = QLineEdit(text)
        self.field.setMinimumWidth(self.fontMetrics().averageCharWidth() * _LETTERS)
        self.field.selectAll()
        label.setBuddy(self.field)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self._ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        self._ok.setText(does)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.field.textChanged.connect(lambda text: self._ok.setEnabled(bool(text.strip())))
        rows = QVBoxLayout(self)
        line = self.fontMetrics().height()
        rows.setContentsMargins(line, line, line, line)
        rows.setSpacing(line)
        for widget in (label, self.field, buttons):
            rows.addWidget(widget)

    def accept(self) -> None:
        text = self.field.text().strip()
        super().accept()
        if text:
            self.given.emit(text)


def ask_whether(parent: QWidget, question: str, consequence: str, does: str, then: Callable[[], None]) -> None:
    """`does` is what the button says that does `then`."""
    box = QMessageBox(QMessageBox.Icon.Question, question, question, parent=parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setObjectName("ask")
    box.setInformativeText(consequence)
    go_on = box.addButton(does, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(go_on)
    box.setEscapeButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.finished.connect(lambda _: then() if box.clickedButton() is go_on else None)
    box.open()
