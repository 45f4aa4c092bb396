"""A table, and below it what there is to say of the row under the cursor."""

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSplitter, QStackedLayout, QVBoxLayout, QWidget

from edgeopt_gui.pages.model.measured import Measured
from edgeopt_gui.pages.model.tables import hidden_columns
from edgeopt_gui.pages.model.work import Totals
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.heading import quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable


def over_details(table: RecordsTable, below: Sequence[QWidget], name: str, lines: int = 12) -> QSplitter:
    """Returns a splitter: the table above, scrolling widgets below, at first `lines` high."""
    line = table.fontMetrics().height()
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setAccessibleName(name)
    inner = QWidget()
    column = QVBoxLayout(inner)
    column.setContentsMargins(0, line // 2, 0, 0)
    for widget in below:
        column.addWidget(widget)
    column.addStretch(1)
    area.setWidget(inner)
    split = QSplitter(Qt.Orientation.Vertical)
    split.setChildrenCollapsible(False)
    split.addWidget(table)
    split.addWidget(area)
    split.setStretchFactor(0, 1)
    split.setSizes([line * (52 - lines), line * lines])
    return split


def show_shares(table: RecordsTable, whole: Totals, measured: Measured) -> None:
    """Shows the columns of shares that can be told, and hides the others."""
    hidden = set(hidden_columns(table.records.columns, whole, measured))
    for place in range(len(table.records.columns)):
        table.setColumnHidden(place, place in hidden)


def show_measured(table: RecordsTable, whole: Totals, measured: Measured) -> None:
    """Refreshes a table whose columns use the measured times."""
    show_shares(table, whole, measured)
    header = table.horizontalHeader()
    table.records.sort(header.sortIndicatorSection(), header.sortIndicatorOrder())
    table.fit()


class Detailed(QWidget):
    """A tab with a table and its details, or one sentence if there are no rows."""

    def __init__(self, records: RecordsModel[Any], name: str, below: Sequence[QWidget], lines: int) -> None:
        super().__init__()
        self.records = records
        self.table = RecordsTable(records, name)
        self.sentence = quiet()
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        margin = self.fontMetrics().height()
        self.sentence.setMargin(margin)
        self.now = ActionButton(text="Do it now")
        none = QWidget()
        middle = QVBoxLayout(none)
        middle.addStretch()
        middle.addWidget(self.sentence)
        middle.addWidget(self.now, 0, Qt.AlignmentFlag.AlignHCenter)
        middle.addStretch()
        full = QWidget()
        column = QVBoxLayout(full)
        column.setContentsMargins(0, margin // 2, 0, 0)
        column.addWidget(over_details(self.table, below, f"{name}: details", lines))
        self._stack = QStackedLayout(self)
        for face in (none, full):
            self._stack.addWidget(face)
        records.modelReset.connect(self._pick_one)

    def set_rows(self, rows: Iterable[Any], otherwise: str, action: str = "") -> None:
        """Sets the rows; without any, shows the sentence `otherwise` and the button of an action that helps."""
        rows = tuple(rows)
        self.now.set_key(action)
        self.sentence.setText(otherwise)
        self._stack.setCurrentIndex(1 if rows else 0)
        if rows != self.records.rows:
            self.records.set_rows(rows)
            self.table.fit()

    def _pick_one(self) -> None:
        """Selects the first row if none is selected, so that the details are not empty."""
        if self.records.shown and self.table.current is None:
            self.table.pick(self.records.key(self.records.row(0)))
