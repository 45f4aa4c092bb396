"""The rail at the left: the pages in the order of work."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QButtonGroup, QToolButton, QVBoxLayout, QWidget

from edgeopt_gui import theme
from edgeopt_gui.pages.base import Entry
from edgeopt_gui.theme.icons import icon

_LETTERS = 13


class Rail(QWidget):
    chosen = Signal(str)
    """The key of the page."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__()
        self.setObjectName("rail")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Pages")
        self._icons = {entry.key: entry.icon for entry in entries}
        self._buttons = {entry.key: self._button(place, entry) for place, entry in enumerate(entries, 1)}
        group = QButtonGroup(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, self.fontMetrics().height() // 2, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        for button in self._buttons.values():
            group.addButton(button)
            column.addWidget(button)
        column.addStretch()
        theme.scheme_changed.connect(self._dress)
        self._dress()

    def mark(self, key: str) -> None:
        """Marks the page that is shown; a focus in the rail moves to it."""
        focused = any(button.hasFocus() for button in self._buttons.values())
        self._buttons[key].setChecked(True)
        if focused:
            self._buttons[key].setFocus(Qt.FocusReason.OtherFocusReason)

    def button(self, key: str) -> QToolButton:
        return self._buttons[key]

    def _button(self, place: int, entry: Entry) -> QToolButton:
        button = QToolButton()
        button.setCheckable(True)
        button.setText(entry.title)
        button.setAccessibleName(f"Page {entry.title}")
        shortcut = QKeySequence(f"Ctrl+{place}").toString(QKeySequence.SequenceFormat.NativeText)
        button.setToolTip(f"{entry.title} ({shortcut})")
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        size = round(self.fontMetrics().height() * 1.6)
        button.setIconSize(QSize(size, size))
        button.setFixedWidth(self.fontMetrics().averageCharWidth() * _LETTERS)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(lambda: self.chosen.emit(entry.key))
        return button

    def _dress(self) -> None:
        for key, button in self._buttons.items():
            button.setIcon(icon(self._icons[key]))
