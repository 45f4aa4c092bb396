"""The kernels of a run, the longest first, and the way from each to its node in the diagram."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from edgeopt.graph.analysis import OpTimes
from edgeopt.views.words import milliseconds
from edgeopt_gui.pages.model.measured import KERNEL_COLUMNS, TimedKernel, fastest, kernels
from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable


class Hottest(QWidget):
    node_requested = Signal(str)
    """The name of the node that the diagram is to show."""

    def __init__(self) -> None:
        super().__init__()
        self.records: RecordsModel[TimedKernel] = RecordsModel(KERNEL_COLUMNS, key=lambda each: each.place)
        self.table = RecordsTable(self.records, "Where the time goes")
        self.table.setToolTip("Enter or a double click shows the node in the diagram")
        self.table.chosen.connect(lambda each: self.node_requested.emit(next(iter(each.row.members), "")))
        self.summary = quiet()
        self.sizes: Sequence[str] = ()
        """Sizes of open dimensions in the measured runs: `batch = 1 (assumed)`."""
        line = self.fontMetrics().height()
        column = QVBoxLayout(self)
        column.setContentsMargins(line // 2, 0, 0, line // 2)
        for widget in (heading("Where the time goes", 3), self.summary, self.table):
            column.addWidget(widget)
        self.set_times(())

    def set_times(self, times: Sequence[OpTimes], backend: str = "") -> None:
        """Lists the kernels of the named runtime, or else of the fastest; hides the list without measurements."""
        chosen = fastest(times, backend)
        self.setVisible(chosen is not None)
        rows = kernels(chosen) if chosen is not None else []
        if chosen is not None:
            runs = f"{chosen.runs} run{'s' * (chosen.runs != 1)}"
            at = f", at {', '.join(self.sizes)}" if self.sizes else ""
            self.summary.setText(f"{chosen.backend}: {milliseconds(chosen.kernels_ms)} in kernels, {runs}{at}")
        if self.records.rows != tuple(rows):
            self.records.set_rows(rows)
            self.table.fit()
