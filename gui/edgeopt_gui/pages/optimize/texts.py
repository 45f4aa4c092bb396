"""Labels of the kinds that this page has: large, quiet, to be copied from."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QLabel


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
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label
