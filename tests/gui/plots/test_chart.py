"""The chart as a user meets it: what is drawn, moved by keys and mouse, hidden, frozen."""

import time

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from edgeopt_gui.plots.chart import Chart
from edgeopt_gui.plots.ring import Ring
from edgeopt_gui.plots.span import Span
from edgeopt_gui.plots.spec import CurveSpec, Level, Marker, PanelSpec

SPEED = PanelSpec("Speed", "m/s", (CurveSpec("fast", "fast", 0), CurveSpec("slow", "slow", None)), share=3)
HEAT = PanelSpec("Heat", "°C", (CurveSpec("heat", "heat", 1),), minimum=10.0)
BEGIN_S = 1_700_000_000.0


@pytest.fixture
def rings():
    return {"fast": Ring(), "slow": Ring()}


@pytest.fixture
def chart(qtbot, context, rings):
    made = Chart((SPEED, HEAT), rings)
    qtbot.addWidget(made)
    made.resize(800, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


def feed(rings, count=600, begin=BEGIN_S, step=0.1):
    for place in range(count):
        for key, ring in rings.items():
            ring.append(begin + place * step, 5.0 if key == "fast" else 1.0)


def drawn(chart, key):
    return next(p.plot.curve(key) for p in chart.panels if key in p.keys)


def test_samples_are_drawn_with_the_next_frame(qtbot, chart, rings):
    feed(rings)
    assert len(drawn(chart, "fast")) == 0
    chart.touch()
    qtbot.waitUntil(lambda: len(drawn(chart, "fast")) > 0)
    begin, end = chart.shown
    assert end == pytest.approx(BEGIN_S + 59.9)
    assert end - begin == pytest.approx(30)
    assert len(drawn(chart, "fast")) == pytest.approx(301, abs=3)


def test_nothing_is_drawn_while_nothing_is_new_or_nobody_looks(qtbot, chart, rings):
    feed(rings)
    chart.redraw()
    assert not chart.waiting
    chart.hide()
    chart.touch()
    assert not chart.waiting
    chart.show()
    assert chart.waiting


def test_a_panel_without_samples_makes_room(chart, rings):
    feed(rings)
    chart.redraw()
    speed, heat = chart.panels
    assert not speed.isHidden()
    assert heat.isHidden()
    rings["heat"] = Ring()
    rings["heat"].append(BEGIN_S + 59.9, 44.0)
    chart.redraw()
    assert not heat.isHidden()
    assert heat.plot.shown.low <= 44 <= heat.plot.shown.high
    assert heat.plot.shown.low > 0


@pytest.mark.parametrize(
    ("key", "length", "follows"),
    [
        (Qt.Key.Key_Left, 30, False),
        (Qt.Key.Key_Right, 30, True),
        (Qt.Key.Key_Plus, 21, True),
        (Qt.Key.Key_Minus, 30 / 0.7, True),
        (Qt.Key.Key_Home, 59.9, True),
    ],
)
def test_everything_can_be_looked_at_by_keyboard(qtbot, chart, rings, key, length, follows):
    feed(rings)
    chart.redraw()
    with qtbot.waitSignal(chart.span_changed):
        qtbot.keyClick(chart, key)
    chart.redraw()
    begin, end = chart.shown
    assert end - begin == pytest.approx(length)
    assert chart.span.follows is follows
    qtbot.keyClick(chart, Qt.Key.Key_End)
    assert chart.span.follows


def test_the_wheel_looks_closer_at_what_lies_under_it(chart, rings):
    feed(rings)
    chart.span = Span(20.0, BEGIN_S + 40)
    chart.redraw()
    plot = chart.panels[0].plot
    place = QPointF(plot.width() / 2, plot.height() / 2)
    wheel = QWheelEvent(
        place,
        plot.mapToGlobal(place),
        QPoint(),
        QPoint(0, 240),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(plot.viewport(), wheel)
    begin, end = chart.shown
    assert end - begin == pytest.approx(20 * 0.8**2)
    assert begin < BEGIN_S + 30 < end


def test_dragging_goes_back_in_time(qtbot, chart, rings):
    feed(rings)
    chart.redraw()
    view = chart.panels[0].plot.viewport()
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(300, 60))
    qtbot.mouseMove(view, QPoint(500, 60))
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(500, 60))
    assert not chart.span.follows
    assert chart.span.end_s < BEGIN_S + 55
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=QPoint(300, 60))
    assert chart.span.follows


def test_a_curve_is_hidden_by_keyboard_and_the_axis_fits_the_rest(qtbot, chart, rings):
    feed(rings)
    chart.redraw()
    speed = chart.panels[0]
    assert speed.plot.shown.high == 6
    speed.keys["fast"].setFocus()
    qtbot.keyClick(speed.keys["fast"], Qt.Key.Key_Space)
    chart.redraw()
    assert speed.plot.shown.high == 1.5
    assert not speed.plot.is_drawn("fast")
    assert speed.plot.is_drawn("slow")


def test_frozen_it_stays_where_it_is_while_samples_go_on(chart, rings):
    feed(rings)
    chart.redraw()
    before = chart.shown
    chart.freeze(True)
    feed(rings, 100, BEGIN_S + 60)
    chart.redraw()
    assert chart.shown == before
    chart.freeze(False)
    chart.redraw()
    assert chart.shown[1] == pytest.approx(BEGIN_S + 69.9)


def test_cleared_it_is_empty_at_once(chart, rings):
    feed(rings)
    chart.redraw()
    for ring in rings.values():
        ring.clear()
    chart.clear()
    chart.redraw()
    assert not chart.panels[0].plot.is_drawn("fast")


def test_the_pointer_reads_every_curve(qtbot, chart, rings):
    feed(rings)
    chart.redraw()
    assert chart.reading() == ""
    chart.setFocus()
    qtbot.keyClick(chart, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert chart.reading().endswith("Speed: fast 5.00, slow 1.00 m/s")
    assert chart.panels[0].keys["fast"].text() == "fast 5.00"
    chart.clearFocus()
    assert chart.panels[0].keys["fast"].text() == "fast"


def test_markers_and_the_level_are_seen(chart, rings):
    feed(rings)
    chart.redraw()
    before = chart.grab().toImage()
    chart.mark([Marker(BEGIN_S + 45, "started")])
    chart.redraw()
    marked = chart.grab().toImage()
    assert marked != before
    chart.compare(Level("fast", 9.0, "before: 9"))
    chart.redraw()
    assert chart.grab().toImage() != marked
    assert chart.panels[0].plot.shown.high >= 9


def test_a_gap_is_not_drawn_over(chart, rings):
    for place in range(200):
        rings["fast"].append(BEGIN_S + place * 0.1, 5.0)
    without = grabbed(chart)
    rings["fast"].clear()
    for place in range(200):
        if not 80 <= place < 120:
            rings["fast"].append(BEGIN_S + place * 0.1, 5.0, after_gap=place == 120)
    assert grabbed(chart) != without


def grabbed(chart):
    chart.redraw()
    return chart.grab().toImage()


def test_dark_and_light_are_both_drawn(chart, rings, settings):
    feed(rings)
    settings.keep("theme", "light")
    light = grabbed(chart)
    settings.keep("theme", "dark")
    dark = grabbed(chart)
    assert light.pixelColor(400, 250).lightness() > 150 > dark.pixelColor(400, 250).lightness()


SPREAD = PanelSpec("Wait", "ms", (CurveSpec("high", "p99", 1), CurveSpec("low", "p50", 0)), spread=("low", "high"))
SMALL = PanelSpec("Wait", "ms", SPREAD.curves, small=("µs", 1e3), spread=SPREAD.spread)


@pytest.fixture
def spread(qtbot, context):
    rings = {"high": Ring(), "low": Ring()}
    made = Chart((SPREAD,), rings)
    qtbot.addWidget(made)
    made.resize(800, 500)
    made.show()
    qtbot.waitExposed(made)

    def show(low, high):
        for key, value in (("low", low), ("high", high)):
            begin = rings[key].all()[0][-1] + 0.1 if len(rings[key]) else BEGIN_S
            for place in range(50):
                rings[key].append(begin + place / 10, value)
        made.redraw()
        return made.panels[0]

    return show


def test_curves_far_apart_bring_a_logarithmic_axis_and_curves_side_by_side_take_it_away(spread):
    panel = spread(0.06, 0.09)
    assert not panel.logarithm.isChecked()
    panel = spread(0.06, 3.3)
    shown = panel.plot.shown
    assert panel.logarithm.isChecked()
    assert 0 < shown.low <= 0.06
    assert shown.high >= 3.3
    share = (shown.on_axis(0.06) - shown.on_axis(shown.low)) / (
        shown.on_axis(shown.high) - shown.on_axis(shown.low)
    )
    assert drawn_values(panel, "low") == pytest.approx(0.06)
    assert share > 0.02, "the low curve would lie on the axis"
    assert not spread(0.06, 0.07).logarithm.isChecked()


def test_the_axis_that_the_user_chose_stays(qtbot, spread):
    panel = spread(0.06, 3.3)
    qtbot.mouseClick(panel.logarithm, Qt.MouseButton.LeftButton)
    panel = spread(0.06, 9.0)
    assert not panel.logarithm.isChecked()
    assert panel.plot.shown.low == 0
    panel.logarithm.setFocus()
    qtbot.keyClick(panel.logarithm, Qt.Key.Key_Space)
    panel = spread(0.0, 0.07)
    assert panel.logarithm.isChecked()
    assert panel.plot.shown.low > 0, "what is 0 stands at the foot of the axis"


def drawn_values(panel, key):
    return panel.plot.curve(key)[-10:]


def test_without_samples_the_clock_shows_the_present(chart):
    chart.redraw()
    assert abs(chart.shown[1] - time.time()) < 60


def test_below_one_the_axis_has_the_smaller_unit(qtbot, context):
    rings = {"high": Ring(), "low": Ring()}
    made = Chart((SMALL,), rings)
    qtbot.addWidget(made)
    made.show()
    (panel,) = made.panels

    def show(high):
        for key, value in (("low", high / 2), ("high", high)):
            rings[key].append(BEGIN_S + 0.1 * rings[key].count, value)
        made.redraw()
        return panel.title.text(), panel.plot.curve("high")[-1], panel.plot.shown.high

    made.compare(Level("low", 0.5, "before"))
    assert show(0.9) == ("Wait, µs", pytest.approx(900), pytest.approx(1000))
    assert panel.plot.shown.level == (500, "before")
    assert panel.reading(rings, BEGIN_S) == "Wait: p99 900, p50 450 µs"
    assert show(1.2) == ("Wait, ms", pytest.approx(1.2), pytest.approx(1.5))
    assert panel.plot.shown.level == (0.5, "before")
    assert show(0.9)[0] == "Wait, ms", "it does not flicker around 1"
    assert show(0.7)[0] == "Wait, µs"


def test_the_time_at_the_pointer_stands_below_the_lowest_panel(chart, rings):
    feed(rings)
    chart.redraw()
    lowest = next(panel.plot for panel in reversed(chart.panels) if not panel.isHidden())

    def below():
        image = lowest.grab().toImage()
        return image.copy(
            0, image.height() - lowest.fontMetrics().height(), image.width(), lowest.fontMetrics().height()
        )

    before = below()
    chart._point(0.5)
    assert below() != before
    chart._point(None)
    assert below() == before
