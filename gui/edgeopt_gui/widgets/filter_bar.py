"""A line to search a table with, and how many rows it leaves."""

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QWidget

from edgeopt_gui.widgets.records import RecordsModel


class FilterBar(QWidget):
    def __init__(self, records: RecordsModel[Any], placeholder: str, noun: str) -> None:
        super().__init__()
        self._records, self._noun = records, noun
        self.line = _Line()
        self.line.setPlaceholderText(placeholder)
        self.line.setAccessibleName(placeholder)
        self.line.setClearButtonEnabled(True)
        self.line.textChanged.connect(records.search)
        self._count = QLabel()
        self._count.setObjectName("count")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.line, 1)
        layout.addWidget(self._count)
        for signal in (records.modelReset, records.rowsInserted, records.rowsRemoved):
            signal.connect(self._say_count)
        self._say_count()

    def _say_count(self) -> None:
        shown, total = len(self._records.shown), len(self._records.rows)
        counted = f"{total:,}" if shown == total else f"{shown:,} of {total:,}"
        # Without rows the table waits for them.
        self._count.setText(f"{counted} {self._noun}" if total else "")


class _Line(QLineEdit):
    """A line that Escape clears."""

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            return
        super().keyPressEvent(event)
