"""The latency budget: typed, dragged, told in words, kept with its model."""

import time
from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, Qt

from edgeopt.events import Metric
from edgeopt_gui.pages.live import page as live
from edgeopt_gui.pages.live.budget import BUDGETS, keep_budget, kept_budget, over_text
from edgeopt_gui.plots.ticks import latency_text
from edgeopt_gui.subject import Subject


@pytest.fixture
def ran(page, context, sample):
    """A page with 812 runs of the sample, three of them over 5 ms."""
    context.open(Subject(sample, "model"))
    now = time.time()
    latencies_ms = [1.0] * 809 + [6.0, 7.0, 8.0]
    page.session.history.take(Metric("latency_ms", 1.0, samples=tuple(latencies_ms)), now)
    page.session.history.take(Metric("latency_ms", 4.0, samples=()), now + 0.1)
    page._settle()
    page.view.chart.redraw()
    page.view.runs.show()
    return page


def run(page, key):
    action = next(each for each in live.ACTIONS if each.key == key)
    assert action.why_not(page) == ""
    action.run(page)


def test_the_share_of_runs_over_a_budget_is_told(ran, context, sample):
    ran.view.budget.field.setValue(5.0)
    assert ran.view.budget.over.text() == "3 of 812 runs over 5.00 ms (0.37 %)"
    assert ran.view.chart.panels[0].plot.shown.threshold[1] == "Budget 5.00 ms"
    assert kept_budget(context.settings, str(sample)) == 5.0


def test_a_budget_is_removed(ran, context, sample):
    ran.view.budget.field.setValue(5.0)
    run(ran, "live.remove-budget")
    assert ran.view.budget.field.text() == "None"
    assert not ran.view.budget.over.isVisible()
    assert ran.view.chart.panels[0].plot.shown.threshold is None
    assert kept_budget(context.settings, str(sample)) is None


def test_a_budget_belongs_to_its_model(ran, context, sample, conv_model):
    ran.view.budget.field.setValue(5.0)
    context.open(Subject(conv_model, "model"))
    assert ran.view.budget.field.value() == 0
    context.open(Subject(sample, "model"))
    assert ran.view.budget.field.value() == 5.0


def test_the_action_begins_with_a_line_at_the_highest_percentile(qtbot, ran):
    run(ran, "live.budget")
    assert ran.view.budget.field.value() == 1.0
    assert ran.view.budget.field.hasFocus()
    qtbot.keyClicks(ran.view.budget.field, "2.5")
    qtbot.keyClick(ran.view.budget.field, Qt.Key.Key_Return)
    assert ran.view.budget.over.text() == "3 of 812 runs over 2.50 ms (0.37 %)"


def test_the_line_is_dragged_and_kept_when_it_is_dropped(qtbot, ran, context, sample):
    ran.view.budget.field.setValue(5.0)
    ran.view.chart.redraw()
    plot = ran.view.chart.panels[0].plot
    top = plot._area.sceneBoundingRect().top()
    place = QPoint(plot.width() // 2, round(top + plot._notes.threshold_y()))
    span = ran.view.chart.span
    qtbot.mousePress(plot.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseMove(plot.viewport(), place + QPoint(0, plot.height() // 3))
    dragged = ran.view.budget.field.value()
    assert 0 < dragged < 5.0
    assert f"runs over {latency_text(dragged)}" in ran.view.budget.over.text()
    assert kept_budget(context.settings, str(sample)) == 5.0
    qtbot.mouseRelease(plot.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert kept_budget(context.settings, str(sample)) == dragged
    assert ran.view.chart.span == span


def test_a_budget_far_above_the_curves_does_not_flatten_them(ran):
    ran.view.budget.field.setValue(500.0)
    ran.view.chart.redraw()
    shown = ran.view.chart.panels[0].plot.shown
    assert shown.high < 50
    assert ran.view.chart.panels[0].plot._notes.threshold_y() is not None


def test_without_runs_there_is_no_share():
    assert over_text(0, 0, 5.0) == "No runs in the visible time range."
    assert over_text(0, 812, 0.25) == "0 of 812 runs over 250 µs"


def test_settings_of_another_version_are_no_budgets(settings):
    settings.keep(BUDGETS, "[1, 2]")
    assert kept_budget(settings, "m.onnx") is None
    keep_budget(settings, "m.onnx", 3.0)
    assert kept_budget(settings, "m.onnx") == 3.0


def test_the_histogram_says_what_p999_needs(ran):
    strip = ran.view.strip
    assert strip.isVisible()
    assert strip.title.text() == "812 runs by latency, ms"
    assert strip.percentiles.text().endswith("p99.9 needs 1,000 runs")
    assert strip.percentiles.toolTip() == "p99.9 needs 188 more runs in this time range"
    assert sum(strip.histogram.counts) == 812
    assert [label for label, _ in strip.histogram.marks] == ["p50", "p95", "p99"]


def test_the_histogram_is_of_the_visible_time_range(ran):
    history = ran.session.history
    history.take(Metric("latency_ms", 2.0, samples=(2.0,) * 40), history.last_s + 1000)
    ran.view.chart.redraw()
    ran.view.runs.show()
    assert ran.view.strip.title.text() == "40 runs by latency, ms"


def test_latency_is_higher_than_the_other_panels(ran):
    history = ran.session.history
    for name in ("process_memory_bytes", "device_memory_bytes", "load_percent"):
        history.take(Metric(name, 50.0), history.last_s)
    ran.view.chart.redraw()
    ran.view.chart.layout().activate()
    latency, *others = (panel for panel in ran.view.chart.panels if not panel.isHidden())
    assert len(others) == 3
    assert all(latency.height() > 2.5 * panel.height() for panel in others)


def test_low_panels_keep_room_for_their_curve_and_two_labels(ran):
    window = ran.window()
    window.resize(window.minimumSize())
    history = ran.session.history
    names = ("process_memory_bytes", "device_memory_bytes", "load_percent", "temperature_c", "clock_hz")
    for name, value in zip(names, (6e7, 6e8, 50.0, 50.0, 1.8e9), strict=True):
        history.take(Metric(name, value), history.last_s)
    ran.view.chart.redraw()
    ran.view.chart.layout().activate()
    ran.view.chart.redraw()
    shown = [panel.plot for panel in ran.view.chart.panels if not panel.isHidden()]
    assert len(shown) == 6
    assert all(plot._area.height() > plot.fontMetrics().height() / 2 for plot in shown)
    assert all(len(plot.shown.values) >= 2 for plot in shown)


def test_the_histogram_is_counted_again_twice_a_second_at_most(qtbot, ran, monkeypatch):
    counted = []
    distribution = type(ran.session.history.runs).distribution

    def count(runs, *times):
        counted.append(time.monotonic())
        return distribution(runs, *times)

    monkeypatch.setattr(type(ran.session.history.runs), "distribution", count)

    def counted_thrice():
        ran.view.touch()
        return len(counted) >= 3

    qtbot.waitUntil(counted_thrice)
    assert all(later - earlier > 0.4 for earlier, later in pairwise(counted))
