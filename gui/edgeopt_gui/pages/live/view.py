"""The content of the page Live while there are samples: charts, figures, agent; slow to import."""

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QImage, QPainter, QPalette
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from edgeopt_gui.pages.live.agent_panel import AgentPanel
from edgeopt_gui.pages.live.budget import BudgetPanel
from edgeopt_gui.pages.live.exports import Exports
from edgeopt_gui.pages.live.figures import Figures
from edgeopt_gui.pages.live.history import History
from edgeopt_gui.pages.live.panels import PANELS
from edgeopt_gui.pages.live.readouts import Readout
from edgeopt_gui.pages.live.runs_display import RunsDisplay, RunsStrip
from edgeopt_gui.pages.live.session import Session
from edgeopt_gui.plots.chart import Chart
from edgeopt_gui.plots.span import Span
from edgeopt_gui.settings import Settings
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.message_bar import MessageBar

# The names that the page imports from here, all slow to import.
__all__ = ["Exports", "LiveView", "Session"]

SPANS: tuple[tuple[str, float | None], ...] = (
    ("30 s", 30.0),
    ("5 min", 300.0),
    ("1 h", 3600.0),
    ("4 h", 4 * 3600.0),
    ("All", None),
)
_FIGURES_EVERY_MS = 200
_RUNS_EVERY_MS = 500
_SIDE_LETTERS = 40


class LiveView(QWidget):
    wants_figures = Signal()
    """Emitted a few times a second while samples arrive."""
    rate_changed = Signal()
    choice_changed = Signal(str)
    """Key of the subject to watch, as given to `show_choices`."""

    def __init__(self, history: History, settings: Settings) -> None:
        super().__init__()
        line = self.fontMetrics().height()
        self.chart = Chart(PANELS, history.rings)
        self.figures = Figures()
        self.agent = AgentPanel()
        self.budget = BudgetPanel()
        self.strip = RunsStrip()
        self.runs = RunsDisplay(history.runs, self.chart, self.strip, self.budget, settings, self)
        self.message = MessageBar()
        self.state = QLabel()
        self.state.setAccessibleName("State")
        # One line over the charts, cut where there is no room, so that it moves nothing.
        self.state.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.choice = QComboBox()
        self.choice.setAccessibleName("Watched model or bundle")
        self.spans = QComboBox()
        self.spans.setAccessibleName("Time range of the charts")
        for title, length in SPANS:
            self.spans.addItem(title, length)
        self.rate = QDoubleSpinBox(minimum=0.0, maximum=100_000.0, decimals=1, singleStep=10.0)
        self.rate.setSpecialValueText("Unlimited")
        self.rate.setSuffix(" per second")
        self.rate.setKeyboardTracking(False)
        self.rate.setAccessibleName("Runs per second")
        self._timer = QTimer(self, interval=_FIGURES_EVERY_MS, singleShot=True)
        self._timer.timeout.connect(self.wants_figures)
        self._runs_timer = QTimer(self, interval=_RUNS_EVERY_MS, singleShot=True)
        self._runs_timer.timeout.connect(self.runs.show)
        self.chart.span_changed.connect(self.touch_runs)
        self.spans.activated.connect(self.touch_runs)
        self.spans.activated.connect(lambda _: self.chart.show_span(Span(self.spans.currentData())))
        self.chart.span_changed.connect(self._show_length)
        self.choice.activated.connect(lambda _: self.choice_changed.emit(str(self.choice.currentData())))
        self.rate.valueChanged.connect(lambda _: self.rate_changed.emit())
        self._lay_out(line)
        self.show_choices((), "")
        self.show_agent_panel(on=False)

    def touch(self) -> None:
        """Schedules drawing of new samples."""
        self.chart.touch()
        if not self._timer.isActive():
            self._timer.start()
        self.touch_runs()

    def show_choices(self, choices: Sequence[tuple[str, str]], chosen: str) -> None:
        """Titles and keys; fewer than two need no choice."""
        self.choice.clear()
        for title, key in choices:
            self.choice.addItem(title, key)
        self.choice.setCurrentIndex(max(0, self.choice.findData(chosen)))
        self.choice.setVisible(len(choices) > 1)

    def show_agent_panel(self, *, on: bool) -> None:
        self.agent.setVisible(on)
        self._local.setVisible(not on)

    def show_state(self, state: str, *details: str) -> None:
        """Shows the state in bold and the details after it, on one line."""
        parts = [f"<b>{escape(state)}</b>", *(escape(detail) for detail in details if detail)]
        self.state.setText("  ·  ".join(parts))
        self.state.setToolTip("\n".join((state, *(detail for detail in details if detail))))

    def show_readouts(self, readouts: Sequence[Readout], comparison: str) -> None:
        self.figures.show_readouts(readouts, comparison)

    def picture(self, caption: str) -> QImage:
        """Returns an image of the charts as they are, below the caption."""
        charts = self.chart.grab().toImage()
        ratio = charts.devicePixelRatio()
        line = self.fontMetrics().height()
        size = charts.deviceIndependentSize()
        image = QImage(charts.width(), charts.height() + round(2 * line * ratio), QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(ratio)
        image.fill(self.palette().color(QPalette.ColorRole.Base))
        with QPainter(image) as painter:
            painter.setFont(self.font())
            painter.setPen(self.palette().color(QPalette.ColorRole.Text))
            width = round(size.width()) - line
            painter.drawText(
                line // 2,
                round(line * 1.3),
                self.fontMetrics().elidedText(caption, Qt.TextElideMode.ElideRight, width),
            )
            painter.drawImage(0, 2 * line, charts)
        return image

    def _lay_out(self, line: int) -> None:
        strip = QHBoxLayout()
        strip.setSpacing(line // 2)
        strip.addWidget(self.state, 1)
        strip.addWidget(self.choice)
        strip.addWidget(ActionButton("live.follow", text="Follow"))
        strip.addWidget(self.spans)
        self._local = QWidget()
        local = QVBoxLayout(self._local)
        local.setContentsMargins(0, 0, 0, 0)
        local.setSpacing(line // 3)
        title = QLabel("R&ate")
        title.setProperty("role", "heading")
        title.setBuddy(self.rate)
        local.addWidget(title)
        local.addWidget(self.rate)
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, line, 0)  # room for the bar, so that nothing jumps when it comes
        column.setSpacing(line)
        for widget in (self.figures, self.budget, self._local, self.agent):
            column.addWidget(widget)
        column.addStretch()
        side = QScrollArea(widgetResizable=True)
        side.setFrameShape(QFrame.Shape.NoFrame)
        side.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        side.setFixedWidth(self.fontMetrics().averageCharWidth() * _SIDE_LETTERS + line)
        side.setWidget(inside)
        middle = QHBoxLayout()
        middle.setSpacing(line)
        plots = QWidget()
        charts = QVBoxLayout(plots)
        charts.setContentsMargins(0, 0, 0, 0)
        charts.setSpacing(0)
        charts.addWidget(self.chart, 1)
        charts.addWidget(self.strip)
        scrolled = QScrollArea(widgetResizable=True)  # in a low window only
        scrolled.setFrameShape(QFrame.Shape.NoFrame)
        scrolled.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scrolled.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scrolled.setWidget(plots)
        middle.addWidget(scrolled, 1)
        middle.addWidget(side)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(line, line // 2, line // 2, line // 2)
        rows.setSpacing(line // 2)
        rows.addLayout(strip)
        rows.addWidget(self.message)
        rows.addLayout(middle, 1)

    def touch_runs(self) -> None:
        """Schedules counting of single runs, at most twice a second."""
        if not self._runs_timer.isActive():
            self._runs_timer.start()

    def _show_length(self) -> None:
        """Shows the length set with wheel or keys in the list of lengths."""
        length = self.chart.span.length_s
        place = next((k for k, (_, each) in enumerate(SPANS) if each == length), -1)
        # The placeholder shows a length that is not one of the choices.
        self.spans.setPlaceholderText("" if length is None else _length_text(length))
        self.spans.setCurrentIndex(place)


def _length_text(length_s: float) -> str:
    """Returns `21 s`, `8 min` or `2.5 h`."""
    if length_s < 120:
        return f"{length_s:.0f} s"
    return f"{length_s / 60:.0f} min" if length_s < 7200 else f"{length_s / 3600:.1f} h"
