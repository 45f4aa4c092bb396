"""The list of changes between two models, with links to their nodes in the drawings."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from edgeopt.diagram.changes import ChangeEntry
from edgeopt.diagram.colours import CHANGED, FUSED, KEPT, NEW, REMOVED
from edgeopt.graph.analysis import OpTimes
from edgeopt.graph.diff import GraphDiff
from edgeopt.views.words import milliseconds
from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.records import Column, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable


def saved(time_ms: float | None) -> str:
    """Returns a saved time as text, with a minus sign if the new model is slower; "" if it is unknown."""
    return "" if time_ms is None else f"{'-' * (time_ms < 0)}{milliseconds(abs(time_ms))}"


def change_summary(diff: GraphDiff, times: Sequence[Sequence[OpTimes]], backend: str) -> str:
    """Returns `251 kept, 3 changed, 1 fused. openvino-cpu: 2.1 ms → 1.8 ms in kernels.`"""
    counts = [(diff.kept, KEPT), (diff.count("changed"), CHANGED), (diff.count("fused into"), FUSED)]
    counts += [(diff.count("gone"), REMOVED), (diff.count("new"), NEW)]
    summary = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    found = [next((each for each in its if each.backend == backend), None) for its in times]
    if not backend or None in found:
        return f"{summary}. Measure the nodes to see the time that each change saves."
    spent = " → ".join(milliseconds(each.kernels_ms) for each in found if each is not None)
    return f"{summary}. {backend}: {spent} in kernels."


CHANGE_COLUMNS: tuple[Column[ChangeEntry], ...] = (
    Column("Change", lambda each: each.status),
    Column(
        "Nodes",
        lambda each: ", ".join(each.first) or each.second,
        tip=lambda each: "\n".join(filter(None, (*each.first, each.second and f"→ {each.second}", each.what))),
        stretch=True,
        cut_middle=True,
    ),
    Column(
        "Saved",
        lambda each: each.saved_ms,
        text=lambda each: saved(each.saved_ms),
        align="right",
        tip=lambda each: (
            "" if each.saved_ms is None else f"{milliseconds(each.before_ms)} → {milliseconds(each.after_ms)}"
        ),
        title_tip="Measured time of the nodes in the first model, less that in the second",
    ),
)


class ChangeList(QWidget):
    entry_requested = Signal(object)
    """The change whose node the drawings are to show."""

    def __init__(self) -> None:
        super().__init__()
        self.records: RecordsModel[ChangeEntry] = RecordsModel(
            CHANGE_COLUMNS, key=lambda each: (each.side, each.position)
        )
        self.table = RecordsTable(self.records, "What changed")
        self.table.setToolTip("Enter or a double click shows the node in both drawings")
        self.table.chosen.connect(self.entry_requested)
        self.summary = quiet()
        line = self.fontMetrics().height()
        column = QVBoxLayout(self)
        column.setContentsMargins(line // 2, 0, 0, line // 2)
        for widget in (heading("What changed", 3), self.summary, self.table):
            column.addWidget(widget)
        self.hide()

    def set_entries(self, entries: Sequence[ChangeEntry], summary: str) -> None:
        self.summary.setText(summary)
        if self.records.rows != tuple(entries):
            self.records.set_rows(list(entries))
            self.table.fit()
