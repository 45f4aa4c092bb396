"""The latency budget: typed, dragged, told in words, kept with its model."""

import csv
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt

from edgeopt.events import Metric
from edgeopt.measure import files
from edgeopt_gui.agents import commands
from edgeopt_gui.pages.live import page as live
from edgeopt_gui.pages.live.budget import BUDGETS, keep_budget, kept_budget, over_text
from edgeopt_gui.pages.live.commands import watch_here
from edgeopt_gui.pages.live.files import replace_with, write_csv
from edgeopt_gui.pages.live.history import History, Snapshot
from edgeopt_gui.pages.live.readouts import NOTHING
from edgeopt_gui.plots.spec import Marker
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


MODEL, BUNDLE = Subject(Path("m.onnx"), "model"), Path("m.edgeopt")


LONG_MS = 60_000


@pytest.fixture
def of_an_agent(filled):
    """A page with the curves and figures of an agent that is connected no more."""
    page = filled
    page.url = "http://device:8080"
    page.session.clear()
    page.session.begin("the agent at http://device:8080", page.url)
    for moment in range(60):
        page.session.take(Metric("latency_p50_ms", 1.0 + moment / 600), time.time() - 60 + moment)
    page._settle()
    page.view.chart.redraw()
    assert page.state == "content"
    assert page.view.figures.text_of("p50") != NOTHING
    return page


def left_of_before(page):
    """Moments, p50, and the names of the curves that the charts draw once they are shown."""
    page.show_content()
    page.view.chart.redraw()
    page._settle()
    panels = [panel for panel in page.view.chart.panels if panel.isVisible()]
    drawn = [key for panel in panels for key, curve in panel.plot._curves.items() if curve.isVisible()]
    return page.session.history.moments, page.view.figures.text_of("p50"), drawn


def test_disconnected_nothing_of_the_agent_is_left(of_an_agent):
    page = of_an_agent
    page.leave_agent()
    assert page.state == "empty"
    assert left_of_before(page) == (0, NOTHING, [])
    assert page.session.history.markers == []


def test_after_a_refused_connection_nothing_of_the_agent_before_is_left(qtbot, of_an_agent):
    page = of_an_agent
    page.connect_to("127.0.0.1:9")
    assert left_of_before(page) == (0, NOTHING, [])
    qtbot.waitUntil(lambda: page.state == "error", timeout=LONG_MS)
    assert page.session.history.markers == []


def test_another_model_ends_the_watch_and_clears_what_it_showed(qtbot, watched, context, conv_model):
    page = watched
    page.pause()
    context.open(Subject(conv_model, "model"))
    assert page.paused_at is None
    assert left_of_before(page) == (0, NOTHING, [])
    qtbot.waitUntil(lambda: not page._watcher.running, timeout=LONG_MS)
    assert page.state == "empty"
    assert conv_model.name in page._empty.sentence.text()
    assert page.session.history.markers == []


def test_the_same_model_opened_again_is_watched_on(watched, context, sample):
    context.open(Subject(sample, "model"))
    assert watched._watcher.running
    assert not watched._watcher.stopping
    assert watched.session.history.moments


def test_an_agent_is_watched_on_while_a_model_is_opened(of_an_agent, context, sample):
    context.open(Subject(sample, "model"))
    assert of_an_agent.state == "content"
    assert of_an_agent.session.history.moments


MODEL, DATA = Path("a model.onnx"), Path("data.npz")


def test_what_runs_here():
    assert watch_here(MODEL, None, None).line == "edgeopt watch 'a model.onnx'"
    assert watch_here(MODEL, DATA, 30.0).line == "edgeopt watch 'a model.onnx' --data data.npz --rate 30"


def test_what_is_asked_of_agents():
    assert commands.watch_agent("device", None, DATA).line == "edgeopt fleet watch --url device"
    sent = "edgeopt fleet watch --url device --send 0 --data data.npz"
    assert commands.watch_agent("device", 0.0, DATA).line == sent
    other = "edgeopt fleet watch --url device --model other --send 5"
    assert commands.watch_agent("device", 5.0, None, "other").line == other
    assert commands.deploy(Path("m.edgeopt"), "device").line == "edgeopt fleet deploy m.edgeopt --url device"
    plan = commands.plan(Path("m.edgeopt"), "device", ("--add",))
    assert plan.line == "edgeopt fleet deploy m.edgeopt --url device --add --dry-run"
    assert commands.cancel("device").line == "edgeopt fleet cancel --url device"
    assert commands.roll_back("device").line == "edgeopt fleet rollback --url device"
    back = "edgeopt fleet rollback --url device --model other"
    assert commands.roll_back("device", "other").line == back
    assert commands.status("device").line == "edgeopt fleet status --url device"


NOW_S = 1_790_000_000.25


@pytest.fixture
def history():
    made = History()
    for place in range(5000):
        now = NOW_S + place / 10
        made.take(Metric("latency_ms", place / 8, time_s=now), now)
        if place % 2 == 0:
            made.take(Metric("process_memory_bytes", 123_456_789.0, time_s=now + 0.01), now)
    made.mark('deployment 1: "good"', NOW_S + 1.005)
    return made


def read(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_sample_is_in_the_file_with_its_time(history, tmp_path):
    path = tmp_path / "live.csv"
    assert write_csv(history.snapshot(), path) == 7501
    rows = read(path)
    assert len(rows) == 7501
    latencies = [(float(r["time_s"]), float(r["latency_ms"])) for r in rows if r["latency_ms"]]
    assert np.allclose(latencies, [(NOW_S + k / 10, k / 8) for k in range(5000)], atol=1e-4)
    times = [float(row["time_s"]) for row in rows]
    assert times == sorted(times)
    assert rows[0]["time_utc"] == "2026-09-21T14:13:20.250Z"
    assert rows[1]["process_memory_bytes"] == "123456789"
    assert rows[1]["latency_ms"] == ""
    assert [r["event"] for r in rows if r["event"]] == ['deployment 1: "good"']


def test_no_samples_give_a_file_with_a_heading(tmp_path):
    path = tmp_path / "live.csv"
    assert write_csv(Snapshot({}, (Marker(NOW_S, "started"),)), path) == 1
    assert path.read_text().splitlines()[0] == "time_utc,time_s,event"


def test_a_failure_leaves_the_old_file_and_nothing_else(history, tmp_path, monkeypatch):
    path = tmp_path / "live.csv"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_csv(history.snapshot(), path)
    with pytest.raises(OSError, match="No space"):
        replace_with(path, b"new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("live.csv", "old")]


def test_what_is_there_is_replaced(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(b"old")
    replace_with(path, b"new")
    assert path.read_bytes() == b"new"


NOW_S_HISTORY = 1_790_000_000.0


def told(history, values, name="latency_ms", begin=NOW_S_HISTORY, step=0.1, off=0.0):
    for place, value in enumerate(values):
        time_s = begin + place * step
        history.take(Metric(name, float(value), time_s=time_s - off), time_s)


def gaps(history, name="latency_ms"):
    ring = history.rings[name]
    times, _ = ring.all()
    joined = ring.window(times[0], times[-1], 10_000).joined
    return [] if joined is None else list(np.flatnonzero(joined == 0))


def test_a_metric_without_a_time_is_of_now():
    history = History()
    history.take(Metric("latency_ms", 1.0), NOW_S_HISTORY)
    assert history.rings["latency_ms"].all()[0][0] == NOW_S_HISTORY


def test_the_clock_of_another_machine_is_put_right():
    history = History()
    told(history, [1, 2], off=3600.0)
    assert history.clock_off_s == 3600
    assert history.last_s == pytest.approx(NOW_S_HISTORY + 0.1)


def test_a_clock_that_differs_by_a_moment_is_left_alone():
    history = History()
    told(history, [1, 2], off=0.5)
    assert history.clock_off_s == 0
    assert history.last_s == pytest.approx(NOW_S_HISTORY - 0.4)


def test_a_clock_that_is_put_back_does_not_hide_what_comes():
    history = History()
    told(history, [1, 2, 3])
    told(history, [4, 5], begin=NOW_S_HISTORY + 0.3, off=7200.0)
    times, values = history.rings["latency_ms"].all()
    assert list(values) == [1, 2, 3, 4, 5]
    assert np.all(np.diff(times) > 0)
    assert times[-1] == pytest.approx(NOW_S_HISTORY + 0.4)


def test_two_samples_of_one_moment_keep_their_order():
    history = History()
    told(history, [1, 2, 3], step=0.0)
    assert np.all(np.diff(history.rings["latency_ms"].all()[0]) > 0)


def test_a_pause_in_the_telling_is_a_gap_and_a_slow_model_is_none():
    history = History()
    told(history, range(20))
    told(history, range(5), begin=NOW_S_HISTORY + 20)
    assert gaps(history) == [19]
    slow = History()
    told(slow, range(20), step=5.0)
    assert gaps(slow) == []


def test_an_interruption_is_a_gap_however_short():
    history = History()
    told(history, range(20))
    history.interrupt()
    told(history, range(5), begin=NOW_S_HISTORY + 2.0)
    assert gaps(history) == [19]


def test_another_run_has_its_own_peaks():
    history = History()
    told(history, [9, 1])
    history.begin()
    assert (history.latest, history.peaks) == ({}, {})
    told(history, [2], begin=NOW_S_HISTORY + 1)
    assert history.peaks == {"latency_ms": 2}
    assert history.moments == 3


def test_clearing_keeps_what_is_now():
    history = History()
    told(history, [9, 1])
    history.mark("started", NOW_S_HISTORY)
    history.clear()
    assert (history.moments, history.markers, history.peaks) == (0, [], {"latency_ms": 1})
    told(history, [2], begin=NOW_S_HISTORY + 1)
    assert len(history.rings["latency_ms"]) == 1


def test_a_flood_of_names_and_markers_is_bounded():
    history = History(256)
    for number in range(100):
        history.take(Metric(f"metric_{number}", 1.0), NOW_S_HISTORY)
    for number in range(2000):
        history.mark(f"marker {number}", NOW_S_HISTORY)
    assert len(history.rings) == 24
    assert (len(history.markers), history.markers[-1].label) == (500, "marker 1999")


def test_a_snapshot_does_not_change_any_more():
    history = History()
    told(history, [1, 2])
    snapshot = history.snapshot()
    told(history, [3], begin=NOW_S_HISTORY + 1)
    history.clear()
    assert list(snapshot.columns["latency_ms"][1]) == [1, 2]


@pytest.mark.slow
def test_memory_stays_flat_over_four_hours():
    names = ("latency_ms", "latency_p50_ms", "load_percent")
    history = History()
    metrics = [Metric(name, 1.5) for name in names]

    def hours(begin, end):
        for moment in range(begin * 36_000, end * 36_000, 4):
            for metric in metrics:
                history.take(metric, NOW_S_HISTORY + moment / 10)

    hours(0, 1)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    hours(1, 6)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000
    assert all(ring.nbytes < 7 * 2**20 for ring in history.rings.values())
