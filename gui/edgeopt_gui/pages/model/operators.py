"""The operators of a model as a table: how many of each, and what they take."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from edgeopt.graph.analysis import OperatorRow
from edgeopt_gui.pages.model import tables
from edgeopt_gui.pages.model.details import show_measured, show_shares
from edgeopt_gui.pages.model.measured import Measured
from edgeopt_gui.pages.model.work import Totals
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable


class Operators(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._whole, self._measured = Totals(), Measured()
        columns = tables.operator_columns(lambda: self._whole, lambda: self._measured)
        self.records = RecordsModel(columns, key=lambda row: (row.operator, row.domain))
        self.table = RecordsTable(self.records, "Operators")
        self.table.setToolTip("Enter or a double click shows its nodes")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, self.fontMetrics().height() // 2, 0, 0)
        column.addWidget(self.table)

    def set_rows(self, rows: Sequence[OperatorRow], whole: Totals) -> None:
        if (tuple(rows), whole) == (self.records.rows, self._whole):
            return
        self._whole = whole
        show_shares(self.table, whole, self._measured)
        self.records.set_rows(rows)
        if rows and self.table.horizontalHeader().sortIndicatorSection() == -1:
            shares = tables.share_column(self.records.columns, whole)
            self.table.sortByColumn(shares, Qt.SortOrder.DescendingOrder)
        self.table.fit()

    def set_times(self, measured: Measured) -> None:
        self._measured = measured
        show_measured(self.table, self._whole, measured)
