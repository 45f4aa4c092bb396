"""The nodes of a model: search, filter by operator, details of the one under the cursor."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QSplitter, QVBoxLayout, QWidget

from edgeopt.graph.analysis import NodeRow
from edgeopt_gui.pages.model.tables import NODE_COLUMNS, searched
from edgeopt_gui.pages.model.words import node_facts, operator_key
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.filter_bar import FilterBar
from edgeopt_gui.widgets.heading import quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable


class Nodes(QWidget):
    everything_wanted = Signal()
    """The filter by operator is to go."""

    def __init__(self) -> None:
        super().__init__()
        self.records = RecordsModel(NODE_COLUMNS, key=lambda node: (node.inside, node.position), searched=searched)
        self.table = RecordsTable(self.records, "Nodes")
        self.bar = FilterBar(self.records, "Search names, operators and tensors", "nodes")
        self.all = QPushButton()
        self.all.setToolTip("Show the nodes of all operators again")
        self.all.clicked.connect(self.everything_wanted)
        self.details = FactsView(name_letters=11)
        self._nothing = quiet("No node fits the search.")
        self.table.picked.connect(self._show_details)
        self.records.modelReset.connect(self._pick_one)
        self._lay_out()
        self.show_operator("")

    def set_nodes(self, nodes: Sequence[NodeRow]) -> None:
        self.records.set_rows(nodes)
        self.table.fit()

    def show_operator(self, key: str) -> None:
        """Only the nodes of this operator; "" is all of them."""
        self.records.accept((lambda node: operator_key(node.operator, node.domain) == key) if key else None)
        self.all.setVisible(bool(key))
        self.all.setText(f"Only {key}: show all")

    def _pick_one(self) -> None:
        """The details below never stand empty beside a table with rows."""
        if self.records.shown and self.table.current is None:
            self.table.pick(self.records.key(self.records.row(0)))

    def _show_details(self, node: NodeRow | None) -> None:
        self._nothing.setVisible(node is None)
        self.details.setVisible(node is not None)
        if node is not None:
            self.details.set_groups(node_facts(node))

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        self._show_details(None)
        below = QScrollArea()
        below.setFrameShape(QFrame.Shape.NoFrame)
        below.setWidgetResizable(True)
        below.setAccessibleName("The node's details")
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, line // 2, 0, 0)
        column.addWidget(self.details)
        column.addWidget(self._nothing)
        column.addStretch()
        below.setWidget(inner)
        split = QSplitter(Qt.Orientation.Vertical)
        split.setChildrenCollapsible(False)
        split.addWidget(self.table)
        split.addWidget(below)
        split.setStretchFactor(0, 1)
        split.setSizes([line * 40, line * 12])
        head = QHBoxLayout()
        head.addWidget(self.bar, 1)
        head.addWidget(self.all)
        page = QVBoxLayout(self)
        page.setContentsMargins(0, line // 2, 0, 0)
        page.addLayout(head)
        page.addWidget(split, 1)
