"""The result of a comparison: the verdict, and tabs for latency, memory, accuracy, operators and precision."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QTabWidget, QVBoxLayout, QWidget

from edgeopt import units
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.compare import rows
from edgeopt_gui.pages.compare.rows import LayerRow, OutputRow
from edgeopt_gui.pages.compare.section import FigureTable, Section
from edgeopt_gui.pages.compare.sides import Part
from edgeopt_gui.plots.histogram import Histogram
from edgeopt_gui.widgets.counted_tabs import FocusTabBar
from edgeopt_gui.widgets.heading import heading, keep_room, quiet
from edgeopt_gui.widgets.interval import IntervalView
from edgeopt_gui.widgets.records import Column, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

if TYPE_CHECKING:
    from edgeopt.commands.compare.records import ModelComparison
    from edgeopt.graph.analysis import Analysis
    from edgeopt.measure.report import ContestReport, SideReport
    from edgeopt.measure.workloads.records import GenerateReport, GenerateSide
    from edgeopt_gui.pages.compare.found import Verdict

_NODE_LETTERS, _TABS_LINES = 70, 20
_OUTPUT_COLUMNS: tuple[Column[OutputRow], ...] = (
    Column("output", lambda row: row.name, tip=lambda row: row.problem),
    Column("accuracy", lambda row: row.snr_db, lambda row: row.accuracy, align="right"),
    Column("max abs", lambda row: row.max_abs, lambda row: f"{row.max_abs:.1e}", align="right"),
    Column("cosine", lambda row: row.cosine, lambda row: f"{row.cosine:.6f}", align="right"),
    Column("equal", lambda row: row.agreement, lambda row: units.percent(row.agreement, 0), align="right"),
)
_LAYER_COLUMNS: tuple[Column[LayerRow], ...] = (
    Column("", lambda row: row.is_first, lambda row: "▶ first" if row.is_first else ""),
    Column("value", lambda row: row.value, tip=lambda row: row.value, cut_middle=True),
    Column(
        "node in A", lambda row: row.node, tip=lambda row: row.node, cut_middle=True, max_letters=_NODE_LETTERS
    ),
    Column(
        "node in B",
        lambda row: row.other_node,
        tip=lambda row: row.other_node,
        cut_middle=True,
        max_letters=_NODE_LETTERS,
    ),
    Column("accuracy", lambda row: row.snr_db, lambda row: row.accuracy, align="right"),
    Column("max abs", lambda row: row.max_abs, lambda row: f"{row.max_abs:.1e}", align="right"),
)


class _Column(QVBoxLayout):
    """A column in a scroll area, which would give texts that wrap their preferred height and scroll too early."""

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        return False


class CompareView(QWidget):
    layer_chosen = Signal(object)
    """The `LayerRow` that was clicked or confirmed with Enter."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = heading(level=1)
        self.interval = IntervalView()
        self.accuracy = QLabel()
        self.accuracy.setWordWrap(True)
        self.accuracy.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.accuracy.setFixedHeight(self.fontMetrics().height() * 2)
        keep_room(self.interval)
        self.histogram_title = quiet()
        self.histogram = Histogram()
        self.latencies = FigureTable("Latencies", "latency")
        self.memory = FigureTable("Memory by phase", "memory")
        self.sizes = FigureTable("Size and nodes", "model")
        self.outputs = RecordsTable(RecordsModel(_OUTPUT_COLUMNS, key=lambda row: row.name), "Outputs")
        self.layers_line = QLabel()
        self.layers_line.setWordWrap(True)
        # With no table of layers below it, the line would be centred vertically.
        self.layers_line.setAlignment(Qt.AlignmentFlag.AlignTop)
        layers = RecordsModel(_LAYER_COLUMNS, lambda row: row.value, lambda r: "strong" if r.is_first else "plain")
        self.layers = RecordsTable(layers, "Layers")
        self.layers.setToolTip("A click or Enter shows the node in the graph")
        self.operators = FigureTable("Operators", "operator")
        self.precision = FigureTable("Precision", "type")
        self.latency_part = Section("Latency", self.histogram_title, self.histogram, self.latencies, stretch=2)
        self.memory_part = Section("Memory by phase", self.memory, stretch=-1)
        self.size_part = Section("Size and nodes", self.sizes, stretch=-1)
        self.output_part = Section("Outputs", self.outputs, self.layers_line, self.layers, stretch=2)
        self.operator_part = Section("Operators", self.operators)
        self.precision_part = Section("Precision", self.precision)
        self.layers.clicked.connect(lambda index: self.layer_chosen.emit(self.layers.records.row(index.row())))
        self.layers.chosen.connect(self.layer_chosen)
        self.tabs = QTabWidget()
        self.tabs.setTabBar(FocusTabBar())
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setAccessibleName("Parts of the comparison")
        self._notes = ""
        """Notes of the latency measurement."""
        self._lay_out()

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        for title, sections in (
            ("Latency", (self.latency_part,)),
            ("Memory and size", (self.memory_part, self.size_part)),
            ("Accuracy", (self.output_part,)),
            ("Operators", (self.operator_part,)),
            ("Precision", (self.precision_part,)),
        ):
            page = QWidget()
            inside = QVBoxLayout(page)
            inside.setContentsMargins(0, line // 2, 0, 0)
            inside.setSpacing(line)
            for section in sections:
                inside.addWidget(section)
            if len(sections) > 1:
                inside.addStretch()
            self.tabs.addTab(page, title)
        column = _Column(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(line // 3)
        for widget in (self.headline, self.interval, self.accuracy):
            column.addWidget(widget)
        column.addSpacing(line // 2)
        column.addWidget(self.tabs, 1)
        self.tabs.setMinimumHeight(line * _TABS_LINES)

    def parts(self) -> tuple[tuple[Section, tuple[Part, ...]], ...]:
        """Returns each section with the jobs that it needs."""
        return (
            (self.latency_part, ("bench",)),
            (self.memory_part, ("bench",)),
            (self.size_part, ("compare",)),
            (self.output_part, ("compare",)),
            (self.operator_part, ("compare",)),
            (self.precision_part, ("first", "second")),
        )

    def begin(self, commands: dict[Part, Command]) -> None:
        """Clears the results for another comparison."""
        self.headline.setText("Comparing…")
        self.accuracy.setText("")
        self.layers.records.set_rows(())
        self.interval.hide()
        for section, needed in self.parts():
            section.wait("Waiting for its job.", [commands[part] for part in needed])

    def show_status(self, part: Part, status: str) -> None:
        """Shows the job's status in the sections that wait for its result."""
        for section, needed in self.parts():
            if part in needed and not section.content.isVisibleTo(section):
                section.message.setText(status)

    def fail(self, part: Part, ending: Ending, commands: dict[Part, Command]) -> None:
        for section, needed in self.parts():
            if part in needed:
                section.fail(ending, [commands[each] for each in needed])
        if part == "bench":
            self.headline.setText("Cancelled" if ending.how == "cancelled" else "Not measured")

    def show_verdict(self, verdict: "Verdict") -> None:
        self.headline.setText(verdict.sentence)
        found = verdict.interval
        self.interval.setVisible(found is not None)
        if found is not None:
            text = f"Speed-up of B: {found}"
            self.interval.show_interval((found.low, found.median, found.high), text)
        self._notes = " ".join(verdict.notes)

    def show_measured(
        self, report: "ContestReport | GenerateReport", names: tuple[str, str], commands: Sequence[Command]
    ) -> None:
        from edgeopt.measure.report import ContestReport
        from edgeopt_gui.pages.compare.found import in_order

        if isinstance(report, ContestReport):
            first, second = in_order(report.sides)
            self.latencies.show_rows(rows.latency_rows(first, second), names)
            self.memory.show_rows(rows.memory_rows(first, second), names)
            medians = [side.figures.p50_ms for side in (first, second) if side.figures is not None]
            self._show_histogram((first, second), medians, names, "Single runs by latency", "p50")
        else:
            one, other = in_order(report.sides)
            self.latencies.show_rows(rows.answer_rows(one, other), names)
            self.memory.show_rows(rows.memory_rows(one, other), names)
            medians = [side.token_ms for side in (one, other) if side.token_ms is not None]
            self._show_histogram((one, other), medians, names, "Answers by mean time of a token", "median")
        self.memory.show_all_rows()
        self.latency_part.show_content(commands, self._notes)
        self.memory_part.show_content(commands)

    def show_compared(
        self, found: "ModelComparison", summary: str, names: tuple[str, str], command: Command
    ) -> None:
        self.accuracy.setText(summary)
        self.sizes.show_rows(rows.size_rows(found), names)
        self.sizes.show_all_rows()
        _fill(self.outputs, rows.output_rows(found))
        self.outputs.show_all_rows(6)
        layers = rows.layer_rows(found)
        _fill(self.layers, layers)
        self.layers.setVisible(bool(layers))
        self.layers_line.setText(rows.layers_line(found))
        self.operators.show_rows(rows.operator_rows(found), names)
        for section in (self.size_part, self.output_part, self.operator_part):
            section.show_content([command], " ".join(found.notes) if section is self.output_part else "")
        self._mark_first(layers)

    def show_precision(
        self, first: "Analysis", second: "Analysis", names: tuple[str, str], commands: Sequence[Command]
    ) -> None:
        self.precision.show_rows(rows.precision_rows(first, second), names)
        self.precision_part.show_content(commands)

    def _mark_first(self, layers: Sequence[LayerRow]) -> None:
        """Selects the first layer that differs, and scrolls to it."""
        first = next((row for row in layers if row.is_first), None)
        if first is not None:
            self.layers.pick(first.value)

    def _show_histogram(
        self,
        sides: "tuple[SideReport, SideReport] | tuple[GenerateSide, GenerateSide]",
        medians: Sequence[float],
        names: tuple[str, str],
        what: str,
        mark: str,
    ) -> None:
        from edgeopt_gui.pages.compare.found import distributions

        found = distributions(*sides)
        for widget in (self.histogram, self.histogram_title):
            widget.setVisible(found is not None)
        if found is None:
            return
        factor, unit = (1e3, "µs") if medians and max(medians) < 1 else (1.0, "ms")
        marks = [(f"{name} {mark}", value * factor) for name, value in zip("AB", medians, strict=False)]
        title = f"{what}, {unit}: {names[0]} as bars, {names[1]} as a line"
        self.histogram_title.setText(title)
        self.histogram.setAccessibleName(title)
        self.histogram.show_counts(
            found.low_ms * factor, found.high_ms * factor, found.first, marks, None, found.second
        )


def _fill(table: RecordsTable, found: Sequence[Any]) -> None:
    table.records.set_rows(found)
    table.fit()
