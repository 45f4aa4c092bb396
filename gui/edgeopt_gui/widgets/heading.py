"""Text that stands out by its size and weight, in steps of the app's own font."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QPalette
from PySide6.QtWidgets import QLabel, QWidget

_SCALES = {1: 1.6, 2: 1.15, 3: 1.0}


def heading(text: str = "", level: int = 2) -> QLabel:
    """Returns a heading: level 1 for a page, 2 for a part of it, 3 for a group in a part."""
    label = QLabel(text)
    label.setObjectName(f"heading-{level}")
    font = QFont(label.font())
    font.setPointSizeF(font.pointSizeF() * _SCALES[level])
    font.setWeight(QFont.Weight.DemiBold)
    label.setFont(font)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def quiet(text: str = "") -> QLabel:
    """Returns a label for explanations, in the palette's colour for hints."""
    label = QLabel(text)
    label.setWordWrap(True)
    # A palette role instead of a colour, so that it changes with the theme.
    label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def keep_room(widget: QWidget) -> None:
    """Keeps the room of a widget while it is hidden, so that nothing moves."""
    policy = widget.sizePolicy()
    policy.setRetainSizeWhenHidden(True)
    widget.setSizePolicy(policy)
