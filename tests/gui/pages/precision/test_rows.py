"""The rows of a plan and its points in words, without a window."""

import pytest

from edgeopt_gui.pages.precision.frontier_chart import FrontierChart
from edgeopt_gui.pages.precision.rows import LayerFacts, PlanPoint, PlanReport, layer_rows, point_line


@pytest.fixture
def report():
    points = (
        PlanPoint({}, "", 2.0, 200.0),
        PlanPoint({"a": "int8"}, "1 int8", 1.6, 44.0),
        PlanPoint({"a": "int8", "b": "w8"}, "1 int8, 1 w8", 1.0, 38.0, 37.0, 35.5, 1.9, chosen=True),
    )
    layers = (
        LayerFacts("a", "int8", "int8: saves 400 µs, 44.0 dB alone", 44.0, 0.4),
        LayerFacts("b", "w8", "w8: saves 600 µs, 40.0 dB alone", 40.0, 0.6),
        LayerFacts("c", "float", "kept float: it is not a product with a weight matrix", None, None),
    )
    return PlanReport("Faster.", points=points, floor_db=30.0, layers=layers, errors_db={("b", "w8"): 40.0})


def test_the_most_costly_layer_comes_first_and_those_without_error_last(report):
    rows = layer_rows(report, report.points[2])
    assert [(row.name, row.scheme) for row in rows] == [("b", "w8"), ("a", "int8"), ("c", "float")]
    assert rows[2].stays_float
    assert rows[2].reason == "kept float: it is not a product with a weight matrix"


def test_another_point_shows_its_own_schemes_and_what_the_chosen_plan_has(report):
    rows = {row.name: row for row in layer_rows(report, report.points[1])}
    assert rows["a"].reason == "int8: saves 400 µs, 44.0 dB alone"
    assert (rows["b"].scheme, rows["b"].error_db, rows["b"].saves_ms) == ("float", None, None)
    assert rows["b"].reason == "In the chosen plan: w8: saves 600 µs, 40.0 dB alone"


def test_the_line_of_a_point_tells_measured_from_expected(report):
    assert point_line(report, 0) == "Plan 1 of 3 · all layers float · 2.00 ms and 1.00x expected · outputs equal"
    assert point_line(report, 1).endswith("1.60 ms and 1.25x expected · 44.0 dB expected")
    chosen = point_line(report, 2)
    assert chosen.startswith("Plan 3 of 3, the chosen one · 1 int8, 1 w8 · 1.00 ms and 2.00x expected")
    assert chosen.endswith("1.90x measured · 37.0 dB measured, at least 35.5 dB on other samples")


def test_the_chosen_point_is_found(report):
    assert report.chosen == 2
    assert report._replace(points=report.points[:2]).chosen == 0


def test_the_chart_marks_measured_points_apart_and_draws_the_fast_ones_on_the_right(qtbot, report):
    chart = FrontierChart()
    qtbot.addWidget(chart)
    chart.resize(600, 200)
    chart.show_points((*report.points, report.points[2]._replace(chosen=False)), 30.0)
    assert chart.legend() == ("chosen", "measured", "expected")
    places = [chart.place(index) for index in range(3)]
    assert places[0].x() < places[1].x() < places[2].x()
    assert places[0].y() < places[1].y() < places[2].y()
    assert not chart.grab().isNull()
