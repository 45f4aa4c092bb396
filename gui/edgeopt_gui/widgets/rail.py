"""The rail at the left: the pages in the order of work."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QResizeEvent
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
        self._full_height = 0
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

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Returns a minimum that has room for the names alone."""
        lines = 2 * len(self._buttons) * self.fontMetrics().lineSpacing()
        return QSize(super().minimumSizeHint().width(), lines)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """Leaves out the icons in a low window, where the names would be cut."""
        super().resizeEvent(event)
        styles = Qt.ToolButtonStyle
        if self._is_full:
            self._full_height = super().minimumSizeHint().height()
        style = styles.ToolButtonTextUnderIcon if self.height() >= self._full_height else styles.ToolButtonTextOnly
        for button in self._buttons.values():
            button.setToolButtonStyle(style)

    @property
    def _is_full(self) -> bool:
        under = Qt.ToolButtonStyle.ToolButtonTextUnderIcon
        return all(button.toolButtonStyle() == under for button in self._buttons.values())

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
