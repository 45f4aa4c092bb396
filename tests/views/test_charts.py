"""Whatever is drawn stays a picture: hills, rounds, bars and points from values that are hard to draw."""

import math
import re

import pytest

from edgeopt.measure.stats import Interval
from edgeopt.views import charts
from edgeopt.views.charts import Axes, Bar, ChartDot, ChartScale, Group, Hill, scale_for, shortened


def numbers(picture, name):
    return [float(value) for value in re.findall(rf' {name}="(-?[\d.]+)"', picture.inside)]


def check(picture):
    assert not re.search(r"\b(nan|inf)\b", picture.inside)
    assert picture.height > 0


@pytest.mark.parametrize("width", [358, 952])
def test_the_hill_is_highest_where_most_runs_lie(width):
    even = tuple(1 + k / 100 for k in range(101))
    early = tuple(1 + (k / 100) ** 4 for k in range(101))
    for quantiles, left in ((even, False), (early, True)):
        picture = charts.draw_hills([Hill("result", quantiles, "result")], width)
        check(picture)
        points = re.search(r'points="([^"]+)"', picture.inside)[1].split()
        top = min(points, key=lambda point: float(point.split(",")[1]))
        assert (float(top.split(",")[0]) < width / 4) is left or not left


def test_runs_that_all_took_as_long():
    check(charts.draw_hills([Hill("a", (0.5,) * 101, "base"), Hill("b", (0.5,) * 101, "result")], 952))


@pytest.mark.parametrize("ratios", [[1.0], [2.0, 2.0], [0.1, 30.0, 2.0]])
def test_every_round_has_its_point(ratios):
    for interval in (Interval(2.0, 0.0, math.inf, 3), Interval(2.0, 1.9, 2.1, 3)):
        picture = charts.draw_rounds(ratios, interval, 358)
        check(picture)
        assert len(numbers(picture, "cx")) == len(ratios)


def test_lengths_compare():
    groups = [Group("a", (Bar(1.0, "base", "1"),)), Group("b", (Bar(2.0, "result", "2", 1.5, math.inf, 1.0),))]
    for width in (358, 952):
        picture = charts.draw_bars(groups, width)
        check(picture)
        first, second = numbers(picture, "width")
        assert second == pytest.approx(2 * first, abs=0.2)
        assert all(value <= width for value in numbers(picture, "x2"))


def test_bars_of_nothing():
    check(charts.draw_bars([Group("a", (Bar(0.0, "base", "0"),))], 952))


def test_points_stay_in_their_frame():
    left, right, bottom, top = charts.plot_area(358)
    across, up = scale_for([1.0, 9.0], left, right), scale_for([10.0, 80.0], bottom, top)
    dots = [ChartDot(1.0, 80.0, "dot", shape) for shape in ("circle", "square", "triangle", "diamond")]
    picture = charts.draw_points(Axes(across, up, "time", "accuracy", str, str), dots, (), 358)
    check(picture)
    assert numbers(picture, "cx") == [pytest.approx(across.place(1.0), abs=0.1)]


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [([1.0, 2.0], False), ([0.01, 5.0], True), ([3.0], False), ([0.0, 0.0], False), ([-2.0, 40.0], False)],
)
def test_ticks_are_round_and_within(values, logarithmic):
    scale = scale_for(values, 0, 900)
    assert scale.logarithmic is logarithmic
    ticks = scale.ticks(8)
    assert 2 <= len(ticks) <= 8 or max(values) == min(values)
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    assert all(float(f"{tick:.6g}") == tick for tick in ticks)


def test_a_hand_s_width_still_has_two_numbers():
    for high in (31.0, 1.7, 990.0):
        assert len(scale_for([high / 7, high], 60, 346).ticks(3)) >= 2


def test_places_keep_order_and_stay_inside():
    scale = ChartScale(1.0, 100.0, 10.0, 110.0, logarithmic=True)
    assert [scale.place(value) for value in (1.0, 10.0, 100.0, 1e6)] == [10.0, 60.0, 110.0, 110.0]


def test_a_long_name_keeps_both_ends():
    cut = shortened("the_first_of_very_many_layers_of_this_model", 100)
    assert cut.startswith("the_")
    assert cut.endswith("odel")
    assert len(cut) <= 14
