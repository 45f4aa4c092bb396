"""The files that were open lately, a button each."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

_MAX = 5
_LETTERS_WIDE = 56


class RecentFiles(QWidget):
    chosen = Signal(object)
    """The `Path`."""

    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(self.fontMetrics().height() // 4)
        title = QLabel("Recent", alignment=Qt.AlignmentFlag.AlignCenter)
        title.setProperty("role", "muted")
        self._column.addWidget(title)
        self._paths: tuple[Path, ...] = ()
        self._buttons: list[QPushButton] = []
        self.hide()

    @property
    def buttons(self) -> tuple[QPushButton, ...]:
        return tuple(self._buttons)

    def set(self, paths: Sequence[Path]) -> None:
        paths = tuple(paths[:_MAX])
        if paths != self._paths:
            self._paths = paths
            for button in self._buttons:
                self._column.removeWidget(button)
                button.deleteLater()
            self._buttons = [self._button(path) for path in paths]
        self.setVisible(bool(paths))

    def _button(self, path: Path) -> QPushButton:
        metrics = self.fontMetrics()
        maximum = metrics.averageCharWidth() * _LETTERS_WIDE
        whole = f"{path.name}  ·  {path.parent}"
        button = QPushButton(metrics.elidedText(whole, Qt.TextElideMode.ElideMiddle, maximum).replace("&", "&&"))
        button.setProperty("flat", True)
        button.setAccessibleName(f"Open {path.name}")
        button.setToolTip(str(path))
        button.clicked.connect(lambda: self.chosen.emit(path))
        self._column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        return button
