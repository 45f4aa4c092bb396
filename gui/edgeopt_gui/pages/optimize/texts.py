"""Labels of the kinds that this page has: large, quiet, to be copied from."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QLabel

SELECTABLE = Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard


def large(label: QLabel, factor: float) -> QLabel:
    font = QFont(label.font())
    font.setPointSizeF(font.pointSizeF() * factor)
    font.setWeight(QFont.Weight.DemiBold)
    label.setFont(font)
    return label


def quiet(label: QLabel) -> QLabel:
    """Gives a label the muted colour of the app's stylesheet, and returns it."""
    label.setProperty("role", "muted")
    return label


def selectable(label: QLabel) -> QLabel:
    label.setWordWrap(True)
    label.setTextInteractionFlags(SELECTABLE)
    return label


def by_mouse(label: QLabel) -> QLabel:
    """Makes a label's text selectable by mouse only, without a caret for the keyboard, and returns the label."""
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def problem_label() -> QLabel:
    """Returns a hidden label for the problem of the field above it."""
    label = selectable(QLabel())
    label.setProperty("role", "problem")
    label.setAccessibleName("What is wrong")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.hide()
    return label
