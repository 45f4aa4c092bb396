"""A part of a page that can be folded away; folded, it says in few words what is set in it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QSizePolicy, QToolButton, QVBoxLayout, QWidget


class Fold(QWidget):
    toggled = Signal(bool)
    """Whether it is open now."""

    def __init__(self, title: str, content: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.head = QToolButton(autoRaise=True)
        self.head.setCheckable(True)
        self.head.setText(title)
        self.head.setProperty("role", "fold")
        self.head.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.head.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.head.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.summary = QLabel()
        self.summary.setProperty("role", "muted")
        self.summary.setWordWrap(True)
        self.content = content
        self.head.toggled.connect(self._show)
        self.head.toggled.connect(self.toggled)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        for widget in (self.head, self.summary, content):
            column.addWidget(widget)
        self._show(False)

    @property
    def open(self) -> bool:
        return self.head.isChecked()

    def set_open(self, on: bool) -> None:
        self.head.setChecked(on)

    def say(self, summary: str) -> None:
        """Shows a summary of the settings inside."""
        self.summary.setText(summary)
        self.head.setAccessibleDescription(summary)
        self._show(self.open)

    def _show(self, on: bool) -> None:
        self.head.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        self.content.setVisible(on)
        self.summary.setVisible(not on and bool(self.summary.text()))
