"""Says what went wrong where no page does: what happened, what next, and the details to copy."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.theme.icons import icon

_LETTERS_WIDE = 70


class FailureDialog(QDialog):
    """The one dialog for failures: a second failure joins the first, so that many do not cover the window."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("failure")
        self.setWindowTitle("Something went wrong")
        self._earlier = 0
        letter, line = self.fontMetrics().averageCharWidth(), self.fontMetrics().height()
        self._sign = QLabel()
        self.what = self._label("sentence")
        self.next_step = self._label("next-step")
        self._count = self._label("earlier")
        self._count.setProperty("role", "muted")
        self.details = QPlainTextEdit(readOnly=True)
        self.details.setAccessibleName("Details")
        self.details.setTabChangesFocus(True)
        self.details.setMinimumHeight(line * 8)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._copy = buttons.addButton("Copy the details", QDialogButtonBox.ButtonRole.ActionRole)
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text()))
        buttons.rejected.connect(self.reject)
        words = QVBoxLayout()
        for label in (self.what, self.next_step, self._count):
            words.addWidget(label)
        top = QHBoxLayout()
        top.setSpacing(line)
        top.addWidget(self._sign, 0, Qt.AlignmentFlag.AlignTop)
        top.addLayout(words, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(line, line, line, line)
        column.setSpacing(line)
        column.addLayout(top)
        column.addWidget(self.details, 1)
        column.addWidget(buttons)
        self.resize(letter * _LETTERS_WIDE, self.sizeHint().height())

    def _dress(self) -> None:
        size = self.fontMetrics().height() * 2
        self._sign.setPixmap(icon("warning").pixmap(size, size))
        self._copy.setIcon(icon("copy"))

    def show_ending(self, ending: Ending) -> None:
        self._dress()
        self._earlier = self._earlier + 1 if self.isVisible() else 0
        self.what.setText(ending.what)
        self.next_step.setText(ending.next_step)
        self.next_step.setVisible(bool(ending.next_step))
        self._count.setText(
            f"{self._earlier} earlier ones are in the log."
            if self._earlier > 1
            else "One earlier one is in the log."
        )
        self._count.setVisible(self._earlier > 0)
        self.details.setPlainText(ending.details)
        self.details.setVisible(bool(ending.details))
        self.open()

    def text(self) -> str:
        """Returns all texts of the failure, for a bug report."""
        return "\n\n".join(p for p in (self.what.text(), self.next_step.text(), self.details.toPlainText()) if p)

    def _label(self, name: str) -> QLabel:
        label = QLabel(wordWrap=True)
        label.setObjectName(name)
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        return label
