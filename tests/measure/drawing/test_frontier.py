import math

import pytest

from edgeopt.measure.charts import Dot, frontier

DOTS = [Dot(12.0, 200.0), Dot(9.0, 41.0), Dot(6.0, 31.0, chosen=True), Dot(5.0, 15.0)]


def column(lines, mark):
    return next(line.index(mark) for line in lines if mark in line)


def test_what_is_faster_stands_to_the_left_and_what_is_more_exact_above():
    lines = frontier(DOTS, 30.0)
    rows = [next(k for k, line in enumerate(lines) if mark in line) for mark in ("exact", "●")]
    assert rows[0] < rows[1]
    assert lines[0].rstrip().endswith("○"), "the float model: exact, and the slowest"
    assert column(lines, "●") < column(lines, "○")
    assert lines[-1].split() == ["5", "ms", "12", "ms"]


def test_the_floor_is_a_line_with_its_decibels():
    (floor,) = [line for line in frontier(DOTS, 30.0) if "┄┄┄" in line]
    assert floor.startswith(" 30 dB │")
    assert not [line for line in frontier(DOTS) if "┄" in line]


def test_an_exact_model_does_not_press_the_others_together():
    lines = frontier(DOTS, 30.0)
    rows = [k for k, line in enumerate(lines[:-1]) if "○" in line or "●" in line]
    assert len(set(rows)) == 4


def test_it_keeps_to_the_width_and_to_ascii():
    lines = frontier(DOTS, 30.0, 50, ascii=True)
    assert max(map(len, lines)) <= 50
    assert "\n".join(lines).isascii()
    assert any("*" in line for line in lines)


@pytest.mark.parametrize("dots", [[], DOTS[:1], [DOTS[0], Dot(math.nan, 3.0)]])
def test_less_than_two_points_are_no_picture(dots):
    assert frontier(dots, 30.0) == []


def test_no_room_no_picture():
    assert frontier(DOTS, 30.0, 20) == []


def test_points_that_cannot_be_compared_stand_at_the_bottom():
    lines = frontier([Dot(2.0, 40.0), Dot(1.0, -math.inf)], 30.0)
    assert "○" in lines[8]
