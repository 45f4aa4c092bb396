"""The opportunities of the model: possible gain, reason, nodes, and the command that uses each."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from edgeopt import units
from edgeopt.graph.analysis.records import Opportunity
from edgeopt_gui.pages.model import findings
from edgeopt_gui.pages.model.details import Detailed
from edgeopt_gui.pages.model.tables import OPPORTUNITY_COLUMNS
from edgeopt_gui.widgets.command_line import CommandLine
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.records import RecordsModel


class Opportunities(Detailed):
    looked_at = Signal(object)
    """The `Opportunity` whose details are shown; None if there is none."""
    nodes_requested = Signal(object)
    """The `Opportunity` whose nodes are to be shown."""

    def __init__(self) -> None:
        self.facts = FactsView(name_letters=12)
        self.command = CommandLine()
        self.nodes = QPushButton()
        self.nodes.setToolTip("Show only these in the table of nodes")
        actions = QWidget()
        row = QHBoxLayout(actions)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.command, 1)
        row.addWidget(self.nodes)
        records = RecordsModel(OPPORTUNITY_COLUMNS, key=lambda each: (each.kind, each.title, each.reason))
        super().__init__(records, "Opportunities", (actions, self.facts), lines=17)
        self.nodes.clicked.connect(lambda: self._request_nodes(self.table.current))
        self.table.chosen.connect(self._request_nodes)
        self.table.picked.connect(self._show)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        self.looked_at.emit(self.table.current)

    def _request_nodes(self, opportunity: Opportunity) -> None:
        if opportunity.nodes:
            self.nodes_requested.emit(opportunity)

    def _show(self, opportunity: Opportunity | None) -> None:
        self.command.set(findings.command_of(opportunity) if opportunity is not None else None)
        named = len(opportunity.nodes) if opportunity is not None else 0
        self.nodes.setVisible(named > 0)
        self.nodes.setText("Show its node" if named == 1 else f"Show its {units.count(named, 'node')}")
        self.facts.set_groups(findings.opportunity_facts(opportunity) if opportunity is not None else ())
        if self.isVisible() or opportunity is None:
            self.looked_at.emit(opportunity)
