"""The three faces of a page without content: nothing yet, on its way, cannot come."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.widgets.action_button import ActionButton

_WIDEST_LETTERS = 64


class _State(QWidget):
    """A sentence in the middle, and a button below it."""

    def __init__(self) -> None:
        super().__init__()
        self.sentence = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self.sentence.setObjectName("sentence")
        self.sentence.setWordWrap(True)
        self.sentence.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.sentence.setMinimumWidth(self.fontMetrics().averageCharWidth() * _WIDEST_LETTERS)
        self.button = ActionButton()
        self.middle = QVBoxLayout()
        self.middle.setSpacing(self.fontMetrics().height())
        self.middle.addWidget(self.sentence, 0, Qt.AlignmentFlag.AlignHCenter)
        buttons = QHBoxLayout()
        buttons.addStretch()
        buttons.addWidget(self.button)
        buttons.addStretch()
        self.middle.addLayout(buttons)
        outer = QVBoxLayout(self)
        outer.addStretch(2)
        outer.addLayout(self.middle)
        outer.addStretch(3)


class EmptyState(_State):
    def set(self, sentence: str, action: str) -> None:
        self.sentence.setText(sentence)
        self.button.set_key(action)


class BusyState(_State):
    def __init__(self) -> None:
        super().__init__()
        bar = QProgressBar()
        bar.setRange(0, 0)
        bar.setTextVisible(False)
        bar.setAccessibleName("In progress")
        bar.setFixedWidth(self.fontMetrics().averageCharWidth() * _WIDEST_LETTERS // 2)
        self.middle.insertWidget(1, bar, 0, Qt.AlignmentFlag.AlignHCenter)

    def set(self, sentence: str, action: str) -> None:
        self.sentence.setText(sentence)
        self.button.set_key(action)


class ErrorState(_State):
    """What happened, what next, and the details to copy."""

    def __init__(self) -> None:
        super().__init__()
        self.next_step = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self.next_step.setObjectName("next-step")
        self.next_step.setWordWrap(True)
        self.next_step.setMinimumWidth(self.sentence.minimumWidth())
        self.middle.insertWidget(1, self.next_step, 0, Qt.AlignmentFlag.AlignHCenter)
        self._details = QPlainTextEdit(readOnly=True)
        self._details.setAccessibleName("Details")
        self._details.setFixedHeight(self.fontMetrics().height() * 8)
        self._details.setMinimumWidth(self.sentence.minimumWidth())
        self._details.setTabChangesFocus(True)
        copy = QPushButton("Copy the details")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._details.toPlainText()))
        self.middle.addWidget(self._details, 0, Qt.AlignmentFlag.AlignHCenter)
        self.middle.addWidget(copy, 0, Qt.AlignmentFlag.AlignHCenter)

    def set(self, ending: Ending, action: str) -> None:
        self.sentence.setText(ending.what)
        self.next_step.setText(ending.next_step)
        self.next_step.setVisible(bool(ending.next_step))
        self._details.setPlainText(ending.details)
        self.button.set_key(action)
