"""A table of records: columns as data, lazily drawn, sorted by value, searched by text, changed by key."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QFont, QGuiApplication, QPalette

Row = TypeVar("Row")
Look = Literal["plain", "strong", "quiet"]
Index = QModelIndex | QPersistentModelIndex

ROW_ROLE = Qt.ItemDataRole.UserRole
"""The record itself."""
VALUE_ROLE = ROW_ROLE + 1
"""The value that the column sorts by."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    title: str
    value: Callable[[Row], Any]
    """The sort key; None comes last in either direction."""
    text: Callable[[Row], str] | None = None
    """Function that returns the text of a cell; None shows the value, or nothing if it is None."""
    align: Literal["left", "right"] = "left"
    """Alignment; numbers are aligned to the right."""
    tip: Callable[[Row], str] | None = None
    quiet: Callable[[Row], bool] | None = None
    """Whether the text is shown in grey."""
    title_tip: str = ""
    stretch: bool = False
    """Whether the column takes the remaining width."""
    optional: bool = False
    """Whether the column is hidden if the table would otherwise scroll sideways."""
    cut_middle: bool = False
    """Whether a long text is cut in its middle, as for names that differ at their ends."""
    max_letters: int = 44
    """Largest width in letters that the table chooses by itself; the user may widen the column."""
    min_letters: int = 11
    """Width in letters to which a text is cut before the table scrolls sideways."""
    firm_letters: int = 0
    """Width in letters that is kept until optional columns are hidden and all others are cut."""

    def text_of(self, row: Row) -> str:
        if self.text is not None:
            return self.text(row)
        value = self.value(row)
        return "" if value is None else str(value)


class RecordsModel(QAbstractTableModel, Generic[Row]):
    """Sorts and filters in Python lists: a proxy model would ask Python for each comparison.

    Every row needs a key of its own, by which `put` finds it again. `searched` gives the text that the search
    looks into; by default that of the columns on the left.
    """

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        key: Callable[[Row], Hashable],
        look: Callable[[Row], Look] | None = None,
        parent: QObject | None = None,
        *,
        searched: Callable[[Row], str] | None = None,
    ) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.key = key
        self._look = look
        self._text_of = searched or self._left_texts
        self._rows: dict[Hashable, Row] = {}
        self._shown: list[Row] = []
        self._sorting = (-1, Qt.SortOrder.AscendingOrder)
        self._words: tuple[str, ...] = ()
        self._accept: Callable[[Row], bool] | None = None
        self._searched: dict[Hashable, str] = {}

    @property
    def has_looks(self) -> bool:
        """Whether rows may stand out, in bold letters."""
        return self._look is not None

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order in which they were given."""
        return tuple(self._rows.values())

    @property
    def shown(self) -> tuple[Row, ...]:
        """The rows that pass the filters, in the order of the table."""
        return tuple(self._shown)

    def set_rows(self, rows: Iterable[Row]) -> None:
        self.beginResetModel()
        self._rows = {self.key(row): row for row in rows}
        self._searched.clear()
        self._shown = self._arranged()
        self.endResetModel()

    def put(self, row: Row) -> None:
        """Replaces the row of the same key, or adds it; it moves to where the sorting wants it."""
        key = self.key(row)
        old = self.position(key)
        self._rows[key] = row
        self._searched.pop(key, None)
        arranged = self._arranged()
        new = next((place for place, each in enumerate(arranged) if self.key(each) == key), None)
        root = QModelIndex()
        if old is None and new is not None:
            self.beginInsertRows(root, new, new)
            self._shown = arranged
            self.endInsertRows()
        elif old is not None and new is None:
            self.beginRemoveRows(root, old, old)
            self._shown = arranged
            self.endRemoveRows()
        elif old is not None and new is not None:
            if old != new:
                # Qt counts the target place before the row is removed from its old place.
                self.beginMoveRows(root, old, old, root, new + 1 if new > old else new)
            self._shown = arranged
            if old != new:
                self.endMoveRows()
            self.dataChanged.emit(self.index(new, 0), self.index(new, len(self.columns) - 1))

    def put_all(self, rows: Iterable[Row], removed: Iterable[Hashable] = ()) -> None:
        """Updates many rows at once: selected rows stay selected, and the table is sorted once."""
        gone, root = set(removed), QModelIndex()
        new = {self.key(row): row for row in rows}
        for key in (*gone, *new):
            self._searched.pop(key, None)
        self._rows = {key: row for key, row in (self._rows | new).items() if key not in gone}
        for place in range(len(self._shown) - 1, -1, -1):
            key = self.key(self._shown[place])
            if key in gone or (key in new and not self._passes(new[key])):
                self.beginRemoveRows(root, place, place)
                del self._shown[place]
                self.endRemoveRows()
        self._shown = [new.get(key := self.key(row), row) for row in self._shown]
        shown = {self.key(row) for row in self._shown}
        added = [row for key, row in new.items() if key not in shown and self._passes(row)]
        if added:
            self.beginInsertRows(root, len(self._shown), len(self._shown) + len(added) - 1)
            self._shown += added
            self.endInsertRows()
        if [self.key(row) for row in self._arranged()] != [self.key(row) for row in self._shown]:
            self.sort(*self._sorting)
        elif new and self._shown:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._shown) - 1, len(self.columns) - 1))

    def touch_column(self, place: int) -> None:
        """Refreshes the texts of a column that depend on the time, while the rows stay the same."""
        if self._shown:
            self.dataChanged.emit(self.index(0, place), self.index(len(self._shown) - 1, place))

    def search(self, text: str) -> None:
        """Shows only the rows in which every word of the text stands."""
        self._words = tuple(text.lower().split())
        self._filter_again()

    def accept(self, accept: Callable[[Row], bool] | None) -> None:
        """Shows only the rows that it accepts, besides the search."""
        self._accept = accept
        self._filter_again()

    def position(self, key: Hashable) -> int | None:
        """Returns the position of the row in the table; None if it is not shown."""
        return next((place for place, row in enumerate(self._shown) if self.key(row) == key), None)

    def row(self, place: int) -> Row:
        return self._shown[place]

    def rowCount(self, parent: Index | None = None) -> int:  # noqa: N802 - Qt's name
        return 0 if parent is not None and parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index | None = None) -> int:  # noqa: N802 - Qt's name
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 - Qt's signature
        if not index.isValid() or index.row() >= len(self._shown):
            return None
        row, column = self._shown[index.row()], self.columns[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return column.text_of(row)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.ToolTipRole:
                return column.tip(row) if column.tip else None
            case Qt.ItemDataRole.FontRole | Qt.ItemDataRole.ForegroundRole:
                return self._appearance(row, column, role)
            case _ if role == VALUE_ROLE:
                return column.value(row)
            case _ if role == ROW_ROLE:
                return row
        return None

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:  # noqa: ANN401 - Qt's signature
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return column.title
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.ToolTipRole:
                return column.title_tip or None
            case Qt.ItemDataRole.InitialSortOrderRole:
                # A first click on a column of numbers shows the largest, which is usually wanted.
                descending = column.align == "right"
                return Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts by a column's values; -1 restores the order in which the rows were given."""
        self._sorting = (column, order)
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        keys = [self.key(self._shown[index.row()]) for index in before]
        self._shown = self._arranged()
        persistent = set(keys)
        places = {key: place for place, key in enumerate(map(self.key, self._shown)) if key in persistent}
        after = [self.index(places[key], index.column()) for key, index in zip(keys, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _filter_again(self) -> None:
        self.beginResetModel()
        self._shown = self._arranged()
        self.endResetModel()

    def _arranged(self) -> list[Row]:
        shown = [row for row in self._rows.values() if self._passes(row)]
        column, order = self._sorting
        if not 0 <= column < len(self.columns):
            return shown
        value = self.columns[column].value
        valued = [(value(row), row) for row in shown]
        known = [pair for pair in valued if pair[0] is not None]
        known.sort(key=lambda pair: pair[0], reverse=order == Qt.SortOrder.DescendingOrder)
        return [row for _, row in known] + [row for each, row in valued if each is None]

    def _passes(self, row: Row) -> bool:
        if self._accept is not None and not self._accept(row):
            return False
        if not self._words:
            return True
        key = self.key(row)
        text = self._searched.get(key)
        if text is None:
            text = self._searched[key] = self._text_of(row).lower()
        return all(word in text for word in self._words)

    def _left_texts(self, row: Row) -> str:
        return "\n".join(column.text_of(row) for column in self.columns if column.align == "left")

    def _appearance(self, row: Row, column: Column[Row], role: int) -> Any:  # noqa: ANN401 - a font, a brush or nothing
        look = self._look(row) if self._look else "plain"
        if look == "strong" and role == Qt.ItemDataRole.FontRole:
            font = QFont(QGuiApplication.font())
            font.setBold(True)
            return font
        if (look == "quiet" or (column.quiet and column.quiet(row))) and role == Qt.ItemDataRole.ForegroundRole:
            return QGuiApplication.palette().brush(QPalette.ColorRole.PlaceholderText)
        return None


def _alignment(column: Column[Row]) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.align == "right" else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
