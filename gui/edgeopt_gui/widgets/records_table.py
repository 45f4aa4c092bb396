"""The view of a `RecordsModel`: quiet, sorted by a click on a title, whole rows, everything by keyboard."""

from collections.abc import Hashable
from typing import Any

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPersistentModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QFont, QFontMetrics, QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QStyledItemDelegate, QStyleOptionViewItem, QTableView

from edgeopt_gui.widgets.records import RecordsModel

_ROWS_MEASURED = 60


class RecordsTable(QTableView):
    picked = Signal(object)
    """The record under the cursor; None when there is none."""
    chosen = Signal(object)
    """The record that was double-clicked or confirmed with Enter."""

    def __init__(self, records: RecordsModel[Any], name: str, header: QHeaderView | None = None) -> None:
        super().__init__()
        if header is not None:
            self.setHorizontalHeader(header)
        self.records = records
        self._key: Hashable | None = None
        self._fitting = self._sized_by_user = False
        self._natural: list[int] = []
        """Widths of the columns with room for all at the last fit."""
        self._refit = QTimer(self, singleShot=True, interval=0)
        self._refit.timeout.connect(self._fit_if_wider)
        self._left_out: list[int] = []
        """Places of the optional columns that have no room."""
        self.setAccessibleName(name)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        # One height for all rows: otherwise Qt asks for the height of each row.
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(round(self.fontMetrics().height() * 1.6))
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSortIndicatorClearable(True)
        header.setMinimumSectionSize(self.fontMetrics().averageCharWidth() * 5)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setModel(records)
        self.setSortingEnabled(True)
        for place, column in enumerate(records.columns):
            if column.cut_middle:
                self.setItemDelegateForColumn(place, _MiddleElided(self))
            if column.stretch:
                header.setSectionResizeMode(place, QHeaderView.ResizeMode.Stretch)
        header.sectionResized.connect(self._resized)
        self.selectionModel().currentRowChanged.connect(self._moved)
        self.activated.connect(lambda index: self.chosen.emit(records.row(index.row())))
        records.modelReset.connect(self._pick_again)
        records.layoutChanged.connect(self._show_current)
        for changed in (records.dataChanged, records.rowsInserted, records.layoutChanged):
            changed.connect(lambda *_: self._refit.start())
        self.fit()

    def _show_current(self) -> None:
        """Scrolls to the selected row after sorting."""
        if self.currentIndex().isValid():
            self.scrollTo(self.currentIndex())

    @property
    def current(self) -> Any:  # noqa: ANN401 - the record's own type
        index = self.currentIndex()
        return self.records.row(index.row()) if index.isValid() else None

    def pick(self, key: Hashable) -> bool:
        """Moves to the row of this key; False when it is not shown."""
        place = self.records.position(key)
        if place is None:
            return False
        index = self.records.index(place, max(0, self.currentIndex().column()))
        both = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        self.selectionModel().setCurrentIndex(index, both)
        self.scrollTo(index)
        return True

    def fit(self) -> None:
        """Fits the columns to their titles and some of the rows; cuts texts if there is less room.

        The user may change the widths afterwards.
        """
        self._sized_by_user, self._fitting = False, True
        widths, columns = self.natural_widths(), self.records.columns
        self._natural = list(widths)
        letter, room = self.fontMetrics().averageCharWidth(), self.viewport().width()
        minimum = [
            widths[place]
            if column.align == "right"
            else max(self.fontMetrics().horizontalAdvance(column.title) + 3 * letter, column.min_letters * letter)
            for place, column in enumerate(columns)
        ]
        for place in self._left_out:
            self.setColumnHidden(place, False)
        self._left_out.clear()
        shown = [place for place in range(len(columns)) if not self.isColumnHidden(place)]
        firm = [
            max(width, min(widths[place], columns[place].firm_letters * letter))
            for place, width in enumerate(minimum)
        ]
        if sum(firm[place] for place in shown) > room:
            self._left_out = [place for place in shown if columns[place].optional]
            shown = [place for place in shown if place not in self._left_out]
        for place in self._left_out:
            self.setColumnHidden(place, True)
        for floor in (firm, minimum):
            missing = sum(widths[place] for place in shown) - room
            spare = {place: max(0, widths[place] - floor[place]) for place in shown}
            spared = sum(spare.values())
            for place, width in spare.items():
                if missing > 0 and spared:
                    widths[place] -= min(width, -(-missing * width // spared))
        scrolls = sum(widths[place] for place in shown) > room
        for place, column in enumerate(columns):
            if column.stretch:
                # Qt may give a stretched column no width if the others take all of it.
                mode = QHeaderView.ResizeMode.Interactive if scrolls else QHeaderView.ResizeMode.Stretch
                self.horizontalHeader().setSectionResizeMode(place, mode)
            self.setColumnWidth(place, widths[place])
        self._fitting = False

    def _fit_if_wider(self) -> None:
        """Fits the columns again if a text has arrived that is wider than those before."""
        wider = any(now > before for now, before in zip(self.natural_widths(), self._natural, strict=True))
        if wider and not self._sized_by_user:
            self.fit()

    def natural_widths(self) -> list[int]:
        """Returns the width of each column if there is room for all."""
        letter = self.fontMetrics().averageCharWidth()
        font = QFont(self.font())
        font.setBold(self.records.has_looks)
        metrics = QFontMetrics(font)
        # Bold letters are measured, so most rows need less room around their text.
        room = letter * 5 // 2 if self.records.has_looks else letter * 3
        shown = self.records.shown
        # The last row is measured too, because row numbers are longest there.
        rows = (*shown[:_ROWS_MEASURED], *shown[-1:])
        widths = []
        for column in self.records.columns:
            texts = [column.text_of(row) for row in rows]
            widest = max((metrics.horizontalAdvance(text) for text in texts), default=0)
            # Room for the sort arrow beside the title.
            title = self.fontMetrics().horizontalAdvance(column.title) + 4 * letter
            widths.append(min(max(widest + room, title), column.max_letters * letter))
        return widths

    def show_all_rows(self, maximum: int = 50) -> None:
        """Fits the height to the rows, for a short table in a page that scrolls as a whole."""
        rows = min(maximum, self.records.rowCount()) * self.verticalHeader().defaultSectionSize()
        self.setFixedHeight(rows + self.horizontalHeader().sizeHint().height() + 2 * self.frameWidth())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width() and not self._sized_by_user:
            self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.matches(QKeySequence.StandardKey.Copy) and self.currentIndex().isValid():
            row = self.current
            texts = [column.text_of(row) for column in self.records.columns]
            QGuiApplication.clipboard().setText("\t".join(texts))
            return
        super().keyPressEvent(event)

    def _resized(self, place: int, _old: int, _new: int) -> None:
        mode = self.horizontalHeader().sectionResizeMode(place)
        if not self._fitting and mode == QHeaderView.ResizeMode.Interactive:
            self._sized_by_user = True

    def _moved(self, index: QModelIndex, _: QModelIndex) -> None:
        row = self.records.row(index.row()) if index.isValid() else None
        if row is not None:
            self._key = self.records.key(row)
        self.picked.emit(row)

    def _pick_again(self) -> None:
        """Selects the same row again after a filter has reset the model, if it is still shown.

        Once all rows are gone, others come: one with the same key is another.
        """
        if not self.records.rows:
            self._key = None
        if self._key is None or not self.pick(self._key):
            self.picked.emit(None)


class _MiddleElided(QStyledItemDelegate):
    """Cuts long names in their middle: those of candidates differ at their ends."""

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideMiddle
