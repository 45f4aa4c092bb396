"""The three states of a page without content: empty, busy and error."""

from collections.abc import Sequence
from pathlib import Path

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
from edgeopt_gui.widgets.doors import Doors
from edgeopt_gui.widgets.recent_files import RecentFiles

OPENS_A_MODEL = "app.open-model"
_WIDEST_LETTERS = 64
_DOORS_LETTERS = 110
_MOST = 1000
"""Stretch of the column, which leaves the margins only what is beyond its maximum width."""


class _State(QWidget):
    """A sentence in the middle, and a button below it."""

    def __init__(self, letters: int = _WIDEST_LETTERS) -> None:
        super().__init__()
        self.sentence = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self.sentence.setObjectName("sentence")
        self.sentence.setWordWrap(True)
        self.sentence.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.button = ActionButton()
        column = QWidget()
        column.setMaximumWidth(self.fontMetrics().averageCharWidth() * letters)
        self.middle = QVBoxLayout(column)
        self.middle.setContentsMargins(0, 0, 0, 0)
        self.middle.setSpacing(self.fontMetrics().height())
        self.middle.addWidget(self.sentence)
        self.buttons = QHBoxLayout()
        self.buttons.addStretch()
        self.buttons.addWidget(self.button)
        self.buttons.addStretch()
        self.middle.addLayout(self.buttons)
        outer = QVBoxLayout(self)
        outer.addStretch(2)
        # Between stretches instead of aligned: Qt gives wrapped text enough height only in this way.
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(column, _MOST)
        row.addStretch(1)
        outer.addLayout(row)
        outer.addStretch(3)


class EmptyState(_State):
    """An empty page: a sentence and a button, or instead of the button all ways to open a model."""

    def __init__(self, letters: int = _DOORS_LETTERS) -> None:
        super().__init__(letters)
        self.button.stands_out = True
        self.doors = Doors()
        self.other = ActionButton()
        self.recent = RecentFiles()
        self.middle.addWidget(self.doors)
        for widget in (self.other, self.recent):
            self.middle.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        self._begins = False

    def set(self, sentence: str, action: str, other: str = "") -> None:
        self.sentence.setText(sentence)
        self._begins = action == OPENS_A_MODEL
        self.doors.setVisible(self._begins)
        self.button.set_key("" if self._begins else action)
        self.other.set_key("" if self._begins else other)

    def offer(self, paths: Sequence[Path]) -> None:
        """Shows the recent files, if the action is to open a model."""
        self.recent.set(paths if self._begins else ())


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
    """A page with an error: what happened, what to do next, and details to copy."""

    def __init__(self) -> None:
        super().__init__()
        self.next_step = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self.next_step.setObjectName("next-step")
        self.next_step.setWordWrap(True)
        self.middle.insertWidget(1, self.next_step)
        self.other = ActionButton()
        self.buttons.insertWidget(2, self.other)
        self._details = QPlainTextEdit(readOnly=True)
        self._details.setAccessibleName("Details")
        self._details.setFixedHeight(self.fontMetrics().height() * 8)
        self._details.setTabChangesFocus(True)
        copy = QPushButton("Copy the details")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._details.toPlainText()))
        self.middle.addWidget(self._details)
        self.middle.addWidget(copy, 0, Qt.AlignmentFlag.AlignHCenter)

    def set(self, ending: Ending, action: str, other: str = "") -> None:
        self.sentence.setText(ending.what)
        self.next_step.setText(ending.next_step)
        self.next_step.setVisible(bool(ending.next_step))
        self._details.setPlainText(ending.details)
        self.button.set_key(action)
        self.other.set_key(other)
