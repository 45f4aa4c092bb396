"""The plan that was found: its proof, the frontier with a slider from accuracy to speed, and its layers."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QSlider, QVBoxLayout, QWidget

from edgeopt.views.words import decibels, milliseconds
from edgeopt_gui.pages.optimize.texts import by_mouse, quiet, selectable
from edgeopt_gui.pages.precision.frontier_chart import FrontierChart
from edgeopt_gui.pages.precision.rows import LayerRow, PlanReport, layer_rows, point_line
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.counted_tabs import CountedTabs
from edgeopt_gui.widgets.heading import heading
from edgeopt_gui.widgets.interval import IntervalView
from edgeopt_gui.widgets.records import Column, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

_ROWS = 6
COLUMNS: tuple[Column[LayerRow], ...] = (
    Column("Layer", lambda row: row.name, tip=lambda row: row.name, cut_middle=True, min_letters=18),
    Column("Scheme", lambda row: row.scheme),
    Column(
        "Error alone",
        lambda row: row.error_db,
        lambda row: decibels(row.error_db),
        "right",
        title_tip="Signal-to-noise ratio of the outputs with this layer alone in the scheme that was tried; "
        "more is better",
    ),
    Column(
        "Saves",
        lambda row: row.saves_ms,
        lambda row: milliseconds(row.saves_ms),
        "right",
        title_tip="Time that the scheme saves on this layer",
    ),
    Column("Why", lambda row: row.reason, tip=lambda row: row.reason, stretch=True, max_letters=200),
)


class PlanView(QScrollArea):
    layer_chosen = Signal(str)
    """The name of a layer that was clicked or confirmed with Enter."""
    point_changed = Signal()
    """Emitted when another point of the frontier is selected."""

    def __init__(self) -> None:
        super().__init__()
        self.report = PlanReport("")
        line = self.fontMetrics().height()
        self.headline = heading(level=2)
        self.interval = IntervalView()
        self.lines = selectable(QLabel())
        self.lines.setAccessibleName("Proof of the plan")
        self.chart = FrontierChart()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName("Plan, from accuracy to speed")
        self.slider.setTickPosition(QSlider.TickPosition.TicksBelow)
        self.slider.setPageStep(1)
        self.point = by_mouse(QLabel())
        self.point.setObjectName("point")
        # Two lines at any point, so that the table below does not move with the slider.
        self.point.setFixedHeight(self.fontMetrics().lineSpacing() * 2)
        self.point.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.for_point = ActionButton("precision.floor-of-point")
        self.layers = RecordsTable(
            RecordsModel(COLUMNS, lambda row: row.name, lambda row: "quiet" if row.stays_float else "plain"),
            "Layers",
        )
        self.layers.setToolTip("A click or Enter shows the layer in the graph")
        self.layers.setMinimumHeight(self.layers.verticalHeader().defaultSectionSize() * _ROWS)
        self.notes = by_mouse(QLabel(alignment=Qt.AlignmentFlag.AlignTop))
        self.notes.setMargin(line // 2)
        self.tabs = CountedTabs()
        self.tabs.tabBar().setAccessibleName("Layers and findings")
        self.tabs.add(self.layers, "Layers")
        self.tabs.add(self.notes, "Warnings and findings")
        self.slider.valueChanged.connect(self._show_point)
        self.chart.clicked.connect(self.slider.setValue)
        self.layers.clicked.connect(
            lambda index: self.layer_chosen.emit(self.layers.records.row(index.row()).name)
        )
        self.layers.chosen.connect(lambda row: self.layer_chosen.emit(row.name))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("The plan")
        self._lay_out()

    @property
    def index(self) -> int:
        """The index of the selected point of the frontier."""
        return self.slider.value()

    def show_report(self, report: PlanReport) -> None:
        self.report = report
        self.headline.setText(report.summary)
        self.lines.setText("\n".join(report.lines))
        self.interval.setVisible(report.interval is not None)
        if report.interval is not None:
            self.interval.show_interval(report.interval, f"Speed-up over the float model: {report.speedup}")
        has_frontier = len(report.points) > 1
        self._frontier.setVisible(has_frontier)
        self.chart.show_points(report.points, report.floor_db)
        self.slider.setRange(0, max(0, len(report.points) - 1))
        self.slider.setValue(report.chosen)
        self._show_point(report.chosen)
        self.tabs.set_count(self.layers, f"{len(report.layers)}" if report.layers else "")
        self.notes.setText("\n\n".join(report.notes))
        self.tabs.setTabVisible(1, bool(report.notes))
        self.tabs.set_count(self.notes, f"{len(report.notes)}")

    def _show_point(self, index: int) -> None:
        report = self.report
        self.chart.pick(index)
        point = report.points[index] if index < len(report.points) else None
        self.point.setText(point_line(report, index) if point is not None else "")
        self.layers.records.set_rows(layer_rows(report, point))
        self.point_changed.emit()

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        ends = QHBoxLayout()
        ends.addWidget(quiet(QLabel("Accuracy")))
        ends.addWidget(self.slider, 1)
        ends.addWidget(quiet(QLabel("Speed")))
        below = QHBoxLayout()
        below.addWidget(self.point, 1)
        below.addWidget(self.for_point, 0, Qt.AlignmentFlag.AlignTop)
        self._frontier = QWidget()
        frontier = QVBoxLayout(self._frontier)
        frontier.setContentsMargins(0, 0, 0, 0)
        frontier.setSpacing(line // 3)
        frontier.addWidget(self.chart)
        frontier.addLayout(ends)
        frontier.addLayout(below)
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(line // 2)
        for widget in (self.headline, self.interval, self.lines, self._frontier):
            column.addWidget(widget)
        column.addWidget(self.tabs, 1)
        self.setWidget(inside)
