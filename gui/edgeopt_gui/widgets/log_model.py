"""The log as a table: lines are added at the end and fall off at the beginning."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from edgeopt_gui.log_lines import MAX_LINES, Level, LogLine
from edgeopt_gui.theme import colours

Index = QModelIndex | QPersistentModelIndex
TITLES = ("Time", "Level", "Job", "What happened")
ALL: tuple[Level, ...] = ("info", "warning", "error")


class LogModel(QAbstractTableModel):
    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lines: list[LogLine] = []
        self._shown: list[LogLine] = []
        self._words: tuple[str, ...] = ()
        self._levels = ALL

    @property
    def shown(self) -> tuple[LogLine, ...]:
        return tuple(self._shown)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, lines: Sequence[LogLine]) -> None:
        """Adds lines, and removes the oldest beyond the maximum."""
        lines = lines[-MAX_LINES:]
        gone = self._lines[: max(0, len(self._lines) + len(lines) - MAX_LINES)]
        if gone:
            self._lines = self._lines[len(gone) :]
            hidden = sum(1 for line in gone if line.passes(self._words, self._levels))
            self._drop(hidden)
        self._lines += lines
        shown = [line for line in lines if line.passes(self._words, self._levels)]
        if shown:
            first = len(self._shown)
            self.beginInsertRows(QModelIndex(), first, first + len(shown) - 1)
            self._shown += shown
            self.endInsertRows()

    def show_only(self, text: str, levels: tuple[Level, ...]) -> None:
        """Shows only lines of these levels that contain every word of the text."""
        self.beginResetModel()
        self._words, self._levels = tuple(text.lower().split()), levels
        self._shown = [line for line in self._lines if line.passes(self._words, self._levels)]
        self.endResetModel()

    def clear(self) -> None:
        self.beginResetModel()
        self._lines, self._shown = [], []
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:  # noqa: N802 - Qt's name
        return 0 if parent is not None and parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index | None = None) -> int:  # noqa: N802 - Qt's name
        return 0 if parent is not None and parent.isValid() else len(TITLES)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 - Qt's signature
        if not index.isValid() or index.row() >= len(self._shown):
            return None
        line = self._shown[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return (line.clock, line.level, line.job, line.text)[index.column()]
            case Qt.ItemDataRole.ToolTipRole:
                return line.text
            case Qt.ItemDataRole.ForegroundRole if line.level == "error":
                return colours.bad()
        return None

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:  # noqa: ANN401 - Qt's signature
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(TITLES):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return TITLES[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        return None

    def _drop(self, count: int) -> None:
        if count:
            self.beginRemoveRows(QModelIndex(), 0, count - 1)
            self._shown = self._shown[count:]
            self.endRemoveRows()
