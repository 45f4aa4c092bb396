"""Shows the distribution of single runs in the visible time range, and the latency budget."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from edgeopt import units
from edgeopt_gui.pages.live import panels
from edgeopt_gui.pages.live.budget import BudgetPanel, keep_budget, kept_budget, over_text
from edgeopt_gui.pages.live.runs import FEWEST_FOR_P999, Distribution, Runs
from edgeopt_gui.plots.chart import Chart
from edgeopt_gui.plots.histogram import Histogram
from edgeopt_gui.plots.spec import Level
from edgeopt_gui.plots.ticks import clock_text, latency_text
from edgeopt_gui.settings import Settings
from edgeopt_gui.widgets.flow import FlowLayout

_DIGITS = 3


class RunsStrip(QWidget):
    """The histogram below the charts, with its percentiles as text."""

    def __init__(self) -> None:
        super().__init__()
        line = self.fontMetrics().height()
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        self.hide()
        self.title = QLabel()
        self.title.setProperty("role", "heading")
        self.percentiles = QLabel()
        self.histogram = Histogram()
        head = FlowLayout(line, 0)
        head.setContentsMargins(line // 2, line // 4, line // 2, 0)
        head.addWidget(self.title)
        head.addWidget(self.percentiles)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        rows.addLayout(head)
        rows.addWidget(self.histogram)

    def show_runs(self, found: Distribution, budget_ms: float | None) -> None:
        since = "" if found.since_s is None else f" since {clock_text(found.since_s)}"
        self.title.setText(f"{units.count(found.runs, 'run')} by latency{since}, {_unit(found)}")
        few = f" of {units.count(found.runs, 'run')}" if found.runs < units.RUNS_FOR_P99 else ""
        known = [
            f"{label}{few if label == 'p99' else ''} {latency_text(value)}" for label, value in found.percentiles
        ]
        if found.runs_missing:
            known.append(f"p99.9 needs {FEWEST_FOR_P999:,} runs")
        text = "  ·  ".join(known)
        self.percentiles.setText(text)
        missing = f"p99.9 needs {found.runs_missing:,} more runs in this time range" if found.runs_missing else ""
        self.percentiles.setToolTip(missing)
        factor = 1e3 if _unit(found) == "µs" else 1.0
        self.histogram.setAccessibleName(f"Histogram of the latency of {found.runs:,} runs: {text}")
        self.histogram.show_counts(
            found.low_ms * factor,
            found.high_ms * factor,
            found.counts.tolist(),
            [(label, value * factor) for label, value in found.percentiles],
            None if budget_ms is None else budget_ms * factor,
        )


class RunsDisplay(QObject):
    """Call `show` at most a few times a second: it reads all runs that are visible."""

    budget_changed = Signal()

    def __init__(
        self, runs: Runs, chart: Chart, strip: RunsStrip, panel: BudgetPanel, settings: Settings, parent: QObject
    ) -> None:
        super().__init__(parent)
        self.budget_ms: float | None = None
        self._subject = ""
        self._runs, self._chart, self._strip, self._panel = runs, chart, strip, panel
        self._settings = settings
        panel.changed.connect(self.set_budget)
        chart.threshold_dragged.connect(self._drag)
        chart.threshold_dropped.connect(lambda: self.set_budget(self.budget_ms))

    def about(self, subject: str) -> None:
        """Sets the watched subject: the path of a model, or the address of an agent."""
        if subject != self._subject:
            self._subject = subject
            self._use(kept_budget(self._settings, subject))
            self.show()

    def set_budget(self, budget_ms: float | None) -> None:
        keep_budget(self._settings, self._subject, budget_ms)
        self._use(budget_ms)
        self.show()
        self.budget_changed.emit()

    def edit_budget(self) -> None:
        """Focuses the field of the budget; without a budget, first sets it to the highest known percentile."""
        found = self._runs.distribution(*self._chart.shown)
        if self.budget_ms is None and found is not None:
            self.set_budget(_rounded(found.percentiles[-1][1]))
        self._panel.field.setFocus()
        self._panel.field.selectAll()

    def show(self) -> None:
        found = self._runs.distribution(*self._chart.shown_samples)
        self._strip.setVisible(found is not None)
        if found is not None:
            self._strip.show_runs(found, self.budget_ms)
        self._show_over()

    def _show_over(self) -> None:
        text = ""
        if self.budget_ms is not None:
            text = over_text(*self._runs.over(self.budget_ms, *self._chart.shown_samples), self.budget_ms)
        self._panel.show_over(text)

    def _drag(self, budget_ms: float) -> None:
        """Moves the budget while it is dragged; it is stored only when dropped."""
        self._use(_rounded(budget_ms))

    def _use(self, budget_ms: float | None) -> None:
        self.budget_ms = budget_ms
        self._panel.show_budget(budget_ms)
        level = None
        if budget_ms is not None:
            level = Level(panels.LATENCY, budget_ms, f"Budget {latency_text(budget_ms)}")
        self._chart.show_threshold(level)
        self._show_over()


def _rounded(value_ms: float) -> float:
    return float(f"{value_ms:.{_DIGITS}g}")


def _unit(found: Distribution) -> str:
    return "µs" if dict(found.percentiles)["p99"] < 1 else "ms"
