import pytest
from PySide6.QtGui import QPalette

from edgeopt_gui.widgets.gauge import KEPT, Gauge
from edgeopt_gui.widgets.reading import Reading


@pytest.fixture
def gauge(qtbot):
    made = Gauge("Load")
    qtbot.addWidget(made)
    made.resize(240, 120)
    made.show()
    return made


def test_shows_the_value_and_what_it_is_of(gauge):
    gauge.show_reading(Reading("Load", "42 %", "of all cores", 42.0, 100.0))
    assert (gauge.text, gauge.note) == ("42 %", "of all cores")
    assert gauge.accessibleName() == "Load: 42 %. of all cores"


def test_a_missing_value_says_why_and_draws_no_curve(gauge):
    gauge.show_reading(Reading("Clock", "not known", "The kernel has no cpufreq files."))
    assert gauge.note == "The kernel has no cpufreq files."
    assert not gauge.curve.isVisible()


def test_the_curve_keeps_the_last_values_with_their_gaps(gauge):
    for value in (*range(KEPT), None):
        gauge.show_reading(Reading("Load", "", value=value, top=100.0))
    assert gauge.curve.values == (*range(1, KEPT), None)
    assert gauge.curve.isVisible()


def highest_pixel(gauge):
    image = gauge.curve.grab().toImage()
    accent = gauge.palette().color(QPalette.ColorRole.Accent)
    coloured = [
        y
        for y in range(image.height())
        for x in range(image.width())
        if abs(image.pixelColor(x, y).hue() - accent.hue()) < 8 and image.pixelColor(x, y).saturation() > 60
    ]
    return min(coloured, default=image.height())


@pytest.mark.parametrize(("value", "top"), [(100.0, 100.0), (7.0, None)])
def test_the_top_of_the_axis_is_the_top_of_the_curve(gauge, value, top):
    for _ in range(KEPT):
        gauge.show_reading(Reading("Load", "", value=value, top=top))
    assert highest_pixel(gauge) <= 2


def test_a_low_value_stays_low(gauge):
    for _ in range(KEPT):
        gauge.show_reading(Reading("Load", "", value=10.0, top=100.0))
    assert highest_pixel(gauge) > gauge.curve.height() * 0.7
