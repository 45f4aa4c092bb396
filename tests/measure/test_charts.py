import math

import numpy as np
import pytest

from edgeopt.measure.charts import Dot, frontier, histograms, intervals, series
from edgeopt.measure.stats import Interval

SPEEDUPS = [
    ("openvino-cpu", Interval(1.42, 1.38, 1.46, 20)),
    ("threads=1", Interval(0.71, 0.65, 0.80, 20)),
    ("the same", Interval(1.003, 0.98, 1.02, 20)),
]


def text(picture):
    """The lines of a picture that stands between two lines of a string."""
    return picture.strip("\n").split("\n")


def test_speedups_around_one():
    expected = """
openvino-cpu  1.42x [1.38 1.46]                ┊         ├●┤
threads=1     0.71x [0.65 0.80]  ├──●───┤      ┊
the same      1.00x [0.98 1.02]                ●
                                  0.7x         1x   1.2x
"""
    assert intervals(SPEEDUPS, 60) == text(expected)


def test_speedups_without_unicode():
    expected = """
openvino-cpu  1.42x [1.38 1.46]                |         [o]
threads=1     0.71x [0.65 0.80]  [--o---]      |
the same      1.00x [0.98 1.02]                o
                                  0.7x         1x   1.2x
"""
    assert intervals(SPEEDUPS, 60, ascii=True) == text(expected)


def test_an_interval_that_holds_one_shows_it():
    lines = intervals([("a", Interval(1.1, 0.9, 1.2, 20))], 60)
    assert "┼" in lines[0]
    assert lines[1][lines[0].index("┼")] == "1"


def test_an_interval_without_ends_leads_out_of_the_chart():
    expected = """
few rounds  1.50x [0.00 inf]  ---+-------------------------o
                                 1x   1.1x  1.2x        1.5x
"""
    assert intervals([("few rounds", Interval(1.5, 0.0, math.inf, 2))], 60, ascii=True) == text(expected)
    assert "[0.00 ∞]" in intervals([("few rounds", Interval(1.5, 0.0, math.inf, 2))], 60)[0]


def test_a_narrow_terminal_gets_the_numbers_alone():
    assert intervals(SPEEDUPS, 40)[1] == "threads=1     0.71x [0.65 0.80]"
    assert histograms([("a", [1.0, 2.0])], 12) == []
    assert series([("p50", [1.0, 2.0])], "ms", 20) == ["p50  1 to 2 ms"]


def test_latencies_on_one_axis():
    expected = """
a  ▄  █ ▄                              █
b                    █
   1 ms      1.5 ms  2 ms      3 ms
"""
    rows = [("a", [1.0] * 4 + [1.1] * 8 + [1.2] * 4 + [4.0] * 8), ("b", [2.0] * 5)]
    assert histograms(rows, 40) == text(expected)
    assert histograms(rows, 40, ascii=True)[:2] == [
        "a  =  @ =                              @",
        "b                    @",
    ]


def test_a_rare_outlier_does_not_press_the_rest_together():
    latencies = [*np.linspace(10.0, 12.0, 500), 900.0]
    assert len(histograms([("a", latencies)], 60)[0].replace(" ", "")) > 40


def test_a_course_over_time():
    expected = """
p50     10 to 40 ms   ▁▁▁▁▁▁▃▃▃▆▆▆   █████████
steady  99 to 101 ms  ▂▂▂▄▄▄▂▂▂▁▁▁▂▂▂▄▄▄▂▂▂▂▂▂
"""
    rows = [("p50", [10, 10, 20, 30, None, 40, 40, 40]), ("steady", [100, 101, 100, 99, 100, 101, 100, 100])]
    assert series(rows, "ms", 50) == text(expected)
    assert series(rows[:1], "ms", 50, ascii=True)[0].endswith("***    @@@@@@@@@@@@")


def test_a_long_course_keeps_its_shape():
    [line] = series([("p50", [10.0] * 500 + [20.0] * 500)], "ms", 60)
    blocks = line.split()[-1]
    assert blocks == "▁" * (len(blocks) // 2) + "█" * (len(blocks) // 2)


def test_names_that_repeat_the_first_are_shortened():
    rows = [(f"model.onnx{more}", [1.0]) for more in ("", " · threads=1", " · openvino-cpu")]
    begins = [line[:14] for line in histograms(rows, 60)]
    assert begins[:3] == ["model.onnx    ", "· threads=1   ", "· openvino-cpu"]
    assert histograms(rows, 60, ascii=True)[1].startswith("- threads=1 ")


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width, ascii_only):
    random = np.random.default_rng(1)
    name = "a_model_with_a_very_long_name.onnx · onnxruntime-cpu"
    lines = intervals([(name, Interval(0.02, 0.01, 900.0, 9))], width, ascii=ascii_only)
    lines += histograms([(name, random.lognormal(1, 2, 500))], width, ascii=ascii_only)
    lines += series([(name, list(random.normal(100, 30, 500)))], "MiB", width, ascii=ascii_only)
    assert max(map(len, lines)) <= max(width, 60)
    assert all(line == line.rstrip() for line in lines)
    assert not ascii_only or all(line.isascii() for line in lines)


@pytest.mark.parametrize("made", [intervals([]), histograms([("a", [])]), series([("a", [None, None])], "ms")])
def test_nothing_to_draw_is_no_line(made):
    assert made == []


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
