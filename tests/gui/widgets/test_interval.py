"""The interval of a speed as a widget: where its colour is, open ends too."""

import math

import pytest
from PySide6.QtGui import QColor

from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.interval import IntervalView


@pytest.fixture
def view(qtbot, context):
    made = IntervalView()
    qtbot.addWidget(made)
    made.resize(400, 60)
    return made


def reach(view):
    """From where to where the interval is drawn, as shares of the width."""
    image = view.grab().toImage()
    base = image.pixelColor(2, 2)
    y = (image.height() - view.fontMetrics().height()) // 2 + 4
    drawn = [
        x for x in range(image.width()) if _far(image.pixelColor(x, y), base) and _coloured(image.pixelColor(x, y))
    ]
    return min(drawn) / image.width(), max(drawn) / image.width()


def _far(one: QColor, other: QColor) -> bool:
    return abs(one.red() - other.red()) + abs(one.green() - other.green()) + abs(one.blue() - other.blue()) > 60


def _coloured(one: QColor) -> bool:
    good = colours.good()
    return abs(one.hue() - good.hue()) < 25 and one.saturation() > 30


def test_an_interval_above_1x_is_drawn_right_of_the_middle_of_the_axis(view):
    view.show_interval((1.5, 2.0, 2.5), "2x")
    low, high = reach(view)
    assert 0.4 < low < high < 0.98
    assert view.accessibleName() == "2x"


@pytest.mark.parametrize("high", [math.inf, 1e6])
def test_an_open_or_wild_end_is_drawn_without_squeezing_the_rest(view, high):
    view.show_interval((1.5, 2.0, high), "2x")
    low, end = reach(view)
    assert low > 0.3
    assert end > 0.97


def test_an_interval_that_is_open_below_begins_at_the_left_end(view):
    view.show_interval((None, None, None), "")
    before = view.grab().toImage()
    view.show_interval((0.0, 1.02, math.inf), "too few rounds")
    after = view.grab().toImage()
    y = (after.height() - view.fontMetrics().height()) // 2
    assert all(_far(after.pixelColor(x, y), before.pixelColor(x, y)) for x in (20, after.width() - 20))
