"""What the page Model shows of an analysis."""

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QSplitter, QTabWidget, QVBoxLayout, QWidget

from edgeopt.graph.analysis import Analysis, NodeRow
from edgeopt_gui.pages.model import tables, words
from edgeopt_gui.pages.model.nodes import Nodes
from edgeopt_gui.widgets.bars import BarChart
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable


class ModelContent(QWidget):
    copied = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.headline, self.notes = heading(), quiet()
        self.facts = FactsView(name_letters=12)
        self.facts.copied.connect(self.copied)
        self.ports = RecordsModel(tables.PORT_COLUMNS, key=lambda port: (port.role, port.tensor.name))
        self.ports_table = RecordsTable(self.ports, "Inputs and outputs")
        self.operators = BarChart("Operators by type")
        self.operators.chosen.connect(self._chosen)
        self.nodes = Nodes()
        self.nodes.everything_wanted.connect(lambda: self.operators.choose(self.operators.choice))
        self.weights = RecordsModel(tables.WEIGHT_COLUMNS, key=lambda each: each.place)
        self.weights_table = RecordsTable(self.weights, "Largest weights")
        self._notes_title = heading("Notes")
        self._left = QScrollArea()
        self._tabs = QTabWidget()
        self._lay_out()

    def show_analysis(self, analysis: Analysis) -> None:
        """Everything but the nodes, which come later."""
        self.headline.setText(words.headline(analysis))
        self.facts.set_groups(words.summary(analysis))
        self.notes.setText("\n".join(analysis.warnings))
        for widget in (self._notes_title, self.notes):
            widget.setVisible(bool(analysis.warnings))
        self.ports.set_rows(tables.ports(analysis))
        self.ports_table.fit()
        self.operators.set_bars(words.bars(analysis))
        self.nodes.show_operator("")
        self.nodes.bar.line.clear()
        self.nodes.set_nodes(())
        self.weights.set_rows(tables.weights(analysis))
        self.weights_table.fit()
        self._tabs.setTabText(0, f"Nodes ({analysis.nodes_count:,})")
        listed, all_of_them = len(analysis.weights), analysis.weights_count
        some = f"Largest weights ({listed} of {all_of_them:,})"
        self._tabs.setTabText(1, some if listed < all_of_them else f"Weights ({listed})")
        self._tabs.setTabText(2, f"Inputs and outputs ({len(self.ports.rows):,})")
        self._left.verticalScrollBar().setValue(0)

    def show_nodes(self, nodes: list[NodeRow]) -> None:
        self.nodes.set_nodes(nodes)

    def begin_search(self) -> None:
        """Puts the cursor into the line that searches the nodes."""
        self._tabs.setCurrentIndex(0)
        self.nodes.bar.line.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.nodes.bar.line.selectAll()

    def _chosen(self, key: str) -> None:
        self.nodes.show_operator(key)
        self._tabs.setCurrentIndex(0)

    def _follow(self, bar: QRect) -> None:
        place = self.operators.mapTo(self._summary, bar.center())
        self._left.ensureVisible(0, place.y(), 0, bar.height())

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        self._left.setFrameShape(QFrame.Shape.NoFrame)
        self._left.setWidgetResizable(True)
        self._left.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._left.setAccessibleName("Summary")
        self._summary = self._make_summary()
        self._left.setWidget(self._summary)
        self.operators.moved.connect(self._follow)
        self._tabs.setDocumentMode(True)
        for part in (self._tabs, self._tabs.tabBar()):
            part.setAccessibleName("Nodes, weights, inputs and outputs")
        self._tabs.addTab(self.nodes, "Nodes")
        self._tabs.addTab(self._in_tab(self.weights_table), "Weights")
        self._tabs.addTab(self._in_tab(self.ports_table), "Inputs and outputs")
        split = QSplitter()
        split.setChildrenCollapsible(False)
        split.addWidget(self._left)
        split.addWidget(self._tabs)
        split.setStretchFactor(1, 1)
        letter = self.fontMetrics().averageCharWidth()
        split.setSizes([letter * 52, letter * 90])
        self._left.setMinimumWidth(letter * 40)
        column = QVBoxLayout(self)
        column.setContentsMargins(line, line, line, line)
        column.addWidget(self.headline)
        column.addSpacing(line // 2)
        column.addWidget(split, 1)

    def _make_summary(self) -> QWidget:
        inner = QWidget()
        line = self.fontMetrics().height()
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, 0, line, 0)
        column.setSpacing(line // 2)
        column.addWidget(self.facts)
        for widget in (self._notes_title, self.notes):
            column.addWidget(widget)
        column.addSpacing(line // 2)
        column.addWidget(heading("Operators"))
        column.addWidget(self.operators)
        column.addStretch()
        return inner

    def _in_tab(self, widget: QWidget) -> QWidget:
        tab = QWidget()
        column = QVBoxLayout(tab)
        column.setContentsMargins(0, self.fontMetrics().height() // 2, 0, 0)
        column.addWidget(widget)
        return tab
