import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton

from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.widgets.states import ErrorState

ENDING = Ending(
    "failed", {}, "The model is cut short.", "Download it again.", "$ edgeopt analyze a.onnx\nexit code 3"
)


@pytest.fixture
def state(qtbot):
    state = ErrorState()
    qtbot.addWidget(state)
    state.show()
    return state


def test_an_error_says_what_happened_what_next_and_has_details_to_copy(state):
    state.set(ENDING, "")
    said = [label.text() for label in state.findChildren(QLabel) if label.isVisible()]
    assert said == ["The model is cut short.", "Download it again."]
    assert state.findChild(QPlainTextEdit).toPlainText() == ENDING.details
    copy = next(b for b in state.findChildren(QPushButton) if b.text().startswith("Copy"))
    copy.click()
    assert QGuiApplication.clipboard().text() == ENDING.details


def test_no_empty_line_stands_where_there_is_no_next_step(state):
    state.set(Ending("failed", {}, "It failed."), "")
    assert [label.text() for label in state.findChildren(QLabel) if label.isVisible()] == ["It failed."]
