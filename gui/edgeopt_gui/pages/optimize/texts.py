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
    """In the quiet colour of the app's stylesheet."""
    label.setProperty("role", "muted")
    return label


def selectable(label: QLabel) -> QLabel:
    label.setWordWrap(True)
    label.setTextInteractionFlags(SELECTABLE)
    return label


def by_mouse(label: QLabel) -> QLabel:
    """To be copied from, without the caret that the keyboard would need."""
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def problem_label() -> QLabel:
    """What is wrong with a field, below it; hidden while nothing is."""
    label = selectable(QLabel())
    label.setProperty("role", "problem")
    label.setAccessibleName("What is wrong")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.hide()
    return label
