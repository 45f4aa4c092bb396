"""The content of the page Model: the parts of an analysis."""

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSplitter, QVBoxLayout, QWidget

from edgeopt.graph.analysis import Analysis, NodeRow, OpTimes
from edgeopt.graph.analysis.records import Opportunity
from edgeopt_gui.pages.model import tables, words, work
from edgeopt_gui.pages.model.details import over_details
from edgeopt_gui.pages.model.findings import is_named, names_of
from edgeopt_gui.pages.model.language_model import text_command
from edgeopt_gui.pages.model.measured import Measured
from edgeopt_gui.pages.model.nodes import Nodes
from edgeopt_gui.pages.model.operators import Operators
from edgeopt_gui.pages.model.opportunities import Opportunities
from edgeopt_gui.pages.model.runtimes import Runtimes
from edgeopt_gui.pages.model.weight_view import WeightView
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.bars import BarChart
from edgeopt_gui.widgets.command_line import CommandLine
from edgeopt_gui.widgets.counted_tabs import CountedTabs
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.filter_bar import FilterBar
from edgeopt_gui.widgets.heading import heading, quiet
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

_SUMMARY_LETTERS = 46
_ROOM_LETTERS = 110
"""Width in letters below which the summary is a tab instead of a column."""


class ModelContent(QWidget):
    copied = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.headline, self.notes = heading(), quiet()
        self.facts = FactsView(name_letters=12)
        self.facts.copied.connect(self.copied)
        self.ports = RecordsModel(tables.PORT_COLUMNS, key=lambda port: (port.role, port.tensor.name))
        self.ports_table = RecordsTable(self.ports, "Inputs and outputs")
        self.categories = BarChart("Categories")
        self.categories.chosen.connect(self._chose_category)
        self.categories_title = heading()
        self.measure = ActionButton("app.measure-device")
        self.source = ActionButton("app.open-source")
        self.text_command = CommandLine()
        self.operators = BarChart("Operators by type")
        self.operators.chosen.connect(self._chose_operator)
        self.operators_table = Operators()
        self.operators_table.table.chosen.connect(
            lambda row: self._choose(self.operators, words.operator_key(row.operator, row.domain))
        )
        self.nodes = Nodes()
        self.nodes.everything_requested.connect(self._show_all_nodes)
        self.opportunities = Opportunities()
        self.opportunities.looked_at.connect(self._mark)
        self.opportunities.nodes_requested.connect(self._show_nodes_of)
        self.runtimes = Runtimes()
        self.weights = RecordsModel(tables.WEIGHT_COLUMNS, key=lambda each: each.place)
        self.weights_table = RecordsTable(self.weights, "Weights")
        self.weights_bar = FilterBar(self.weights, "Search names and readers", "weights")
        self.weight = WeightView()
        self.weights_table.picked.connect(self._show_weight)
        self.weights.modelReset.connect(self._pick_weight)
        self._whole = work.Totals()
        self._analysis: Analysis | None = None
        self._notes_title = heading("Notes")
        self._left = QScrollArea()
        self._tabs = CountedTabs()
        self._split = QSplitter()
        self._lay_out()

    def show_analysis(self, analysis: Analysis) -> None:
        """Shows another model, without the nodes and opportunities, which come later."""
        self._show_all_nodes()
        self.nodes.bar.line.clear()
        self.nodes.set_nodes((), work.Totals())
        self._show(analysis)
        self.say("")
        self._left.verticalScrollBar().setValue(0)

    def show_findings(self, analysis: Analysis) -> None:
        """Shows opportunities and runtimes of the same model; filters and positions stay."""
        self._show(analysis)
        self.opportunities.set_rows(analysis.opportunities, "No opportunities found.")
        self.runtimes.set_rows(analysis.coverage, "No runtime was checked: none is installed, or a note says why.")
        self._tabs.set_count(self.opportunities, f"{len(analysis.opportunities):,}")
        self._tabs.set_count(self.runtimes, f"{len(analysis.coverage):,}")

    def say(self, sentence: str, action: str = "") -> None:
        """Shows why there are no opportunities and runtimes, and the button of an action that helps."""
        for tab in (self.opportunities, self.runtimes):
            tab.set_rows((), sentence, action)
            self._tabs.set_count(tab, "")

    def show_nodes(self, nodes: list[NodeRow]) -> None:
        self.nodes.set_nodes(nodes, self._whole)
        if self._analysis is not None:
            self._set_rows(self.weights_table, tables.weights(self._analysis, nodes))

    def show_times(self, nodes: Sequence[NodeRow], times: Sequence[OpTimes]) -> None:
        measured = Measured.of(nodes, times)
        for table in (self.nodes, self.operators_table):
            table.set_times(measured)

    def _show(self, analysis: Analysis) -> None:
        self._whole = work.totals(analysis)
        self.headline.setText(words.headline(analysis))
        self.facts.set_groups(words.summary(analysis))
        self.text_command.set(text_command(analysis))
        self.notes.setText("\n".join(analysis.warnings))
        for widget in (self._notes_title, self.notes):
            widget.setVisible(bool(analysis.warnings))
        self.categories_title.setText(work.category_title(analysis))
        self.measure.setVisible(work.awaits_peaks(analysis))
        self.source.setVisible(analysis.kind == "bundle")
        for chart, bars in (
            (self.categories, work.category_bars(analysis)),
            (self.operators, words.bars(analysis)),
        ):
            if chart.bars != bars:
                choice = chart.choice
                chart.set_bars(bars)
                self._choose_quietly(chart, choice)
        self.operators_table.set_rows(analysis.operators, self._whole)
        self._analysis = analysis
        self._set_rows(self.ports_table, tables.ports(analysis))
        if len(self.weights.rows) != len(analysis.weights):
            self._set_rows(self.weights_table, tables.weights(analysis))
        self._tabs.set_count(self.nodes, f"{analysis.nodes_count:,}")
        self._tabs.set_count(self.operators_table, f"{len(analysis.operators):,}")
        listed, all_of_them = len(analysis.weights), analysis.weights_count
        some = f"{listed} of {all_of_them:,}" if listed < all_of_them else f"{listed}"
        self._tabs.set_count(self._weights_tab, some)
        place = self._tabs.indexOf(self._weights_tab)
        self._tabs.setTabToolTip(place, "The largest of them" if listed < all_of_them else "")
        self._tabs.set_count(self._ports_tab, f"{len(self.ports.rows):,}")

    def _set_rows(self, table: RecordsTable, rows: Sequence[object]) -> None:
        if table.records.rows != rows:
            table.records.set_rows(rows)
            table.fit()

    def _show_weight(self, weight: tables.Weight | None) -> None:
        self.weight.show_weight(weight, self._analysis.weights_summary.note if self._analysis else "")

    def _pick_weight(self) -> None:
        """Selects the first weight if none is selected, so that the details are not empty."""
        if self.weights.shown and self.weights_table.current is None:
            self.weights_table.pick(self.weights.key(self.weights.row(0)))

    def begin_search(self) -> None:
        """Puts the cursor into the line that searches the nodes."""
        self._tabs.setCurrentWidget(self.nodes)
        self.nodes.bar.line.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.nodes.bar.line.selectAll()

    def _chose_operator(self, key: str) -> None:
        self._choose_quietly(self.categories, "")
        self.nodes.show_operator(key)
        self._tabs.setCurrentWidget(self.nodes)

    def _chose_category(self, category: str) -> None:
        self._choose_quietly(self.operators, "")
        self.nodes.show_only(category, (lambda node: node.category == category) if category else None)
        self._tabs.setCurrentWidget(self.nodes)

    def _show_nodes_of(self, opportunity: Opportunity) -> None:
        self._show_all_nodes()
        self.nodes.bar.line.clear()
        names = names_of(opportunity)
        self.nodes.show_only(opportunity.kind, lambda node: is_named(node, names))
        self._tabs.setCurrentWidget(self.nodes)

    def _mark(self, opportunity: Opportunity | None) -> None:
        if opportunity is None:
            self.nodes.mark(frozenset(), "")
        else:
            self.nodes.mark(names_of(opportunity), opportunity.title)

    def _show_all_nodes(self) -> None:
        for chart in (self.categories, self.operators):
            self._choose_quietly(chart, "")
        self.nodes.show_operator("")

    def _choose(self, chart: BarChart, key: str) -> None:
        if chart.choice != key:
            chart.choose(key)
        self._tabs.setCurrentWidget(self.nodes)

    def _choose_quietly(self, chart: BarChart, key: str) -> None:
        with QSignalBlocker(chart):
            chart.choose(key or chart.choice)

    def _follow(self, chart: BarChart, bar: QRect) -> None:
        place = chart.mapTo(self._summary, bar.center())
        self._left.ensureVisible(0, place.y(), 0, bar.height())

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        self._left.setFrameShape(QFrame.Shape.NoFrame)
        self._left.setWidgetResizable(True)
        self._left.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._left.setAccessibleName("Summary")
        self._summary = self._make_summary()
        self._left.setWidget(self._summary)
        for chart in (self.categories, self.operators):
            chart.moved.connect(lambda bar, chart=chart: self._follow(chart, bar))
        for part in (self._tabs, self._tabs.tabBar()):
            part.setAccessibleName("Nodes, operators, opportunities, runtimes, weights, inputs and outputs")
        self._tabs.add(self.nodes, "Nodes")
        self._tabs.add(self.operators_table, "Operators")
        self._tabs.add(self.opportunities, "Opportunities")
        self._tabs.add(self.runtimes, "Runtimes")
        self._weights_tab = self._in_tab(
            self.weights_bar, over_details(self.weights_table, (self.weight,), "Weights: details", 16)
        )
        self._ports_tab = self._in_tab(self.ports_table)
        self._tabs.add(self._weights_tab, "Weights")
        self._tabs.add(self._ports_tab, "Inputs and outputs", "I/O")
        self._split.setChildrenCollapsible(False)
        self._split.addWidget(self._left)
        self._split.addWidget(self._tabs)
        self._split.setStretchFactor(1, 1)
        letter = self.fontMetrics().averageCharWidth()
        self._split.setSizes([letter * _SUMMARY_LETTERS, letter * 96])
        self._left.setMinimumWidth(letter * 40)
        column = QVBoxLayout(self)
        column.setContentsMargins(line, line, line, line)
        column.addWidget(self.headline)
        column.addSpacing(line // 2)
        column.addWidget(self._split, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        letter = self.fontMetrics().averageCharWidth()
        narrow = self.width() < letter * _ROOM_LETTERS
        if narrow == (self._tabs.indexOf(self._left) >= 0):
            return
        if narrow:
            current = self._tabs.currentWidget()
            self._tabs.add(self._left, "Summary", at=0)
            self._tabs.setCurrentWidget(current)
        else:
            self._tabs.remove(self._left)
            self._split.insertWidget(0, self._left)
            self._split.setSizes([letter * _SUMMARY_LETTERS, self.width() - letter * _SUMMARY_LETTERS])
            self._left.show()

    def _make_summary(self) -> QWidget:
        inner = QWidget()
        line = self.fontMetrics().height()
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, 0, line, 0)
        column.setSpacing(line // 2)
        column.addWidget(self.facts)
        column.addWidget(self.text_command)
        for button in (self.measure, self.source):
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        for widget in (self._notes_title, self.notes):
            column.addWidget(widget)
        column.addSpacing(line // 2)
        column.addWidget(self.categories_title)
        column.addWidget(self.categories)
        column.addSpacing(line // 2)
        column.addWidget(heading("Operators"))
        column.addWidget(self.operators)
        column.addStretch()
        return inner

    def _in_tab(self, *widgets: QWidget) -> QWidget:
        tab = QWidget()
        column = QVBoxLayout(tab)
        column.setContentsMargins(0, self.fontMetrics().height() // 2, 0, 0)
        for widget in widgets:
            column.addWidget(widget)
        return tab
