"""The nodes of a model: search, filter by operator, details of the one under the cursor."""

from collections.abc import Callable, Hashable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from edgeopt.graph.analysis import NodeRow
from edgeopt_gui.pages.model.details import over_details, show_measured, show_shares
from edgeopt_gui.pages.model.findings import is_named
from edgeopt_gui.pages.model.links import NO_LINKS, Links
from edgeopt_gui.pages.model.measured import Measured
from edgeopt_gui.pages.model.tables import node_columns, searched, share_column
from edgeopt_gui.pages.model.words import node_facts, operator_key
from edgeopt_gui.pages.model.work import Totals
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.filter_bar import FilterBar
from edgeopt_gui.widgets.heading import quiet
from edgeopt_gui.widgets.records import Look, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

_CONSTANT = "Constant"


class Nodes(QWidget):
    everything_requested = Signal()
    """Emitted to remove the filter by operator, category or opportunity."""

    def __init__(self) -> None:
        super().__init__()
        self._whole, self._measured = Totals(), Measured()
        self._links = NO_LINKS
        self._marked: frozenset[str] = frozenset()
        self.records = RecordsModel(
            node_columns(lambda: self._whole, lambda: self._measured),
            key=lambda node: (node.inside, node.position),
            look=self._look,
            searched=searched,
        )
        self.table = RecordsTable(self.records, "Nodes")
        self.bar = FilterBar(self.records, "Search names, operators and tensors", "nodes")
        self._only: Callable[[NodeRow], bool] | None = None
        self.constants = QCheckBox()
        self.constants.setToolTip("Nodes that contain a constant and compute nothing")
        self.constants.toggled.connect(lambda _: self._filter())
        self.constants.hide()
        self.all = QPushButton()
        self.all.setToolTip("Show all nodes again")
        self.marks = quiet()
        self.marks.hide()
        self.all.clicked.connect(self.everything_requested)
        self.details = FactsView(name_letters=11)
        self.details.followed.connect(self.follow)
        self._nothing = quiet("No node matches the search.")
        self.table.picked.connect(self._show_details)
        self.records.modelReset.connect(self._pick_one)
        self._lay_out()
        self.show_operator("")

    def set_nodes(self, nodes: Sequence[NodeRow], whole: Totals) -> None:
        if self.records.rows == tuple(nodes) and self._whole == whole:
            return
        self._whole = whole
        self._links = Links.of(nodes)
        show_shares(self.table, whole, self._measured)
        self.records.set_rows(nodes)
        constants = sum(node.operator == _CONSTANT for node in nodes)
        self.constants.setText(f"Constants ({constants:,})")
        self.constants.setVisible(0 < constants < len(nodes))
        self._filter()
        shares = share_column(self.records.columns, whole)
        sorted_by = self.table.horizontalHeader().sortIndicatorSection()
        if nodes and (sorted_by == -1 or self.table.isColumnHidden(sorted_by)):
            self.table.sortByColumn(shares, Qt.SortOrder.DescendingOrder)
            self.table.pick(self.records.key(self.records.row(0)))
        self.table.fit()

    def set_times(self, measured: Measured) -> None:
        self._measured = measured
        show_measured(self.table, self._whole, measured)

    def show_operator(self, key: str) -> None:
        """Shows only the nodes of an operator; "" shows all."""
        self.show_only(key, (lambda node: operator_key(node.operator, node.domain) == key) if key else None)

    def show_only(self, what: str, accept: Callable[[NodeRow], bool] | None) -> None:
        """Shows only the nodes that `accept` accepts, or all if it is None; `what` describes them."""
        self._only = accept
        self._filter()
        self.all.setVisible(accept is not None)
        self.all.setText(f"Only {what}: show all")

    def pick(self, position: int) -> None:
        """Marks the row of a node that was picked elsewhere, if it is shown."""
        node = next((row for row in self.records.rows if row.position == position), None)
        current = self.table.current
        if node is not None and (current is None or current.position != position):
            self.table.pick(self.records.key(node))

    def follow(self, link: str) -> None:
        """Selects the node that a link leads to; lists the nodes if there are several."""
        positions = self._links.positions(link)
        if len(positions) > 1:
            self.show_only(f"{link}", lambda node: node.position in positions)
        elif positions:
            shown = self.records.position(self._key_of(positions[0])) is not None
            if not shown:
                self.everything_requested.emit()
                self.bar.line.clear()
            self.pick(positions[0])

    def _key_of(self, position: int) -> Hashable:
        return next((self.records.key(row) for row in self.records.rows if row.position == position), None)

    def _filter(self) -> None:
        """Constants are folded away, unless these nodes were asked for."""
        folded = self._only is None and not self.constants.isChecked() and not self.constants.isHidden()
        self.records.accept((lambda node: node.operator != _CONSTANT) if folded else self._only)

    def mark(self, names: frozenset[str], why: str) -> None:
        """Shows these in bold letters, and says above the table why."""
        self._marked = names
        self.marks.setText(f"In bold: {why}")
        self.marks.setVisible(bool(names))
        self.table.viewport().update()

    def _look(self, node: NodeRow) -> Look:
        return "strong" if self._marked and is_named(node, self._marked) else "plain"

    def _pick_one(self) -> None:
        """Selects the first node if none is selected, so that the details are not empty."""
        if self.records.shown and self.table.current is None:
            self.table.pick(self.records.key(self.records.row(0)))

    def _show_details(self, node: NodeRow | None) -> None:
        self._nothing.setVisible(node is None)
        self.details.setVisible(node is not None)
        if node is not None:
            self.details.set_groups(node_facts(node, self._links))

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        self._show_details(None)
        head = QHBoxLayout()
        head.addWidget(self.bar, 1)
        head.addWidget(self.constants)
        head.addWidget(self.all)
        page = QVBoxLayout(self)
        page.setContentsMargins(0, line // 2, 0, 0)
        page.addLayout(head)
        page.addWidget(self.marks)
        page.addWidget(over_details(self.table, (self.details, self._nothing), "The node's details"), 1)
