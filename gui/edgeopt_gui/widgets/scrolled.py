"""The content of a scroll area, as high as its texts are when wrapped at the available width."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLayout, QVBoxLayout, QWidget


class Scrolled(QWidget):
    """A column. Qt would make it at least as high as if all its texts were wrapped as narrow as can be."""

    def __init__(self) -> None:
        super().__init__()
        self.column = QVBoxLayout(self)
        self.column.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.column.minimumSize().width(), 0)
