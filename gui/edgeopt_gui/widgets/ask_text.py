"""Asks without holding up the app: for one line of text, or whether to go on."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

_LETTERS = 48


class AskText(QDialog):
    """The dialog; call `open`, and it deletes itself when closed."""

    submitted = Signal(str)
    forgotten = Signal(str)
    """An earlier answer that the user removed."""

    def __init__(
        self, parent: QWidget, title: str, question: str, text: str, does: str, earlier: Sequence[str] = ()
    ) -> None:
        """`does` is what the button says; `earlier` are answers that the field offers."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        label = QLabel(f"&{question}")
        self.earlier = QComboBox(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert)
        self.earlier.setAccessibleName(question)
        self.earlier.addItems(earlier)
        self.earlier.setEditText(text)
        self.earlier.setMinimumWidth(self.fontMetrics().averageCharWidth() * _LETTERS)
        self.forget = QPushButton("Forget")
        self.forget.setToolTip("Remove this address from the list")
        self.forget.setVisible(bool(earlier))
        self.forget.clicked.connect(self._forget)
        self.field = self.earlier.lineEdit() or QLineEdit()  # an editable box has one
        self.field.selectAll()
        label.setBuddy(self.earlier)
        answer = QHBoxLayout()
        answer.addWidget(self.earlier, 1)
        answer.addWidget(self.forget)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self._ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        self._ok.setText(does)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.field.textChanged.connect(self._typed)
        self._typed(text)
        rows = QVBoxLayout(self)
        line = self.fontMetrics().height()
        rows.setContentsMargins(line, line, line, line)
        rows.setSpacing(line)
        rows.addWidget(label)
        rows.addLayout(answer)
        rows.addWidget(buttons)
        self.earlier.setFocus()

    def _typed(self, text: str) -> None:
        self._ok.setEnabled(bool(text.strip()))
        self.forget.setEnabled(self.earlier.findText(text) >= 0)

    def _forget(self) -> None:
        text = self.field.text()
        self.earlier.removeItem(self.earlier.findText(text))
        self.field.clear()
        self.field.setFocus()
        self.forgotten.emit(text)

    def accept(self) -> None:
        text = self.field.text().strip()
        super().accept()
        if text:
            self.submitted.emit(text)


def ask_whether(
    parent: QWidget, question: str, consequence: str, does: str, keeps: str, then: Callable[[], None]
) -> None:
    """Asks the user, and calls `then` if the button with the text `does` is pressed.

    The button with the text `keeps` changes nothing; it is the default, also for Enter and Escape.
    """
    box = QMessageBox(QMessageBox.Icon.Question, question, question, parent=parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setObjectName("ask")
    box.setInformativeText(consequence)
    go_on = box.addButton(does, QMessageBox.ButtonRole.AcceptRole)
    keep = box.addButton(keeps, QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(keep)
    box.setEscapeButton(keep)
    box.finished.connect(lambda _: then() if box.clickedButton() is go_on else None)
    box.open()
