"""The overlay of the window while something is dragged over it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget


class DropHint(QWidget):
    dropped = Signal(object)
    """The `QMimeData`."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self.setObjectName("drop-hint")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAcceptDrops(True)
        sentence = QLabel("Drop a model, a bundle, or data (.npz) here", alignment=Qt.AlignmentFlag.AlignCenter)
        column = QVBoxLayout(self)
        column.addWidget(sentence, 0, Qt.AlignmentFlag.AlignCenter)
        self.hide()

    def cover(self) -> None:
        self.setGeometry(self._window.rect())
        self.raise_()
        self.show()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 - Qt's name
        event.acceptProposedAction()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:  # noqa: N802 - Qt's name
        self.hide()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 - Qt's name
        self.hide()
        event.acceptProposedAction()
        self.dropped.emit(event.mimeData())
