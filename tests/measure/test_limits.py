import pytest

from edgeopt.measure.report import Limits, judgement, known, lies
from edgeopt.measure.stats import Interval


def interval(low, high):
    return Interval((low * high) ** 0.5, low, high, 30, 0.997)


def test_limits_are_the_least_speedups_that_they_allow():
    limits = Limits(0.25, 1.1)
    assert limits.minimum == (("max-slowdown", 0.8), ("min-speedup", 1.1))
    assert [limits.written(name) for name, _ in limits.minimum] == ["--max-slowdown 25%", "--min-speedup 1.1x"]
    assert Limits().minimum == ()
    assert Limits(0.0).minimum == (("max-slowdown", 1.0),)


@pytest.mark.parametrize(
    ("low", "high", "where"),
    [
        (0.99, 1.02, "above"),
        (0.98, 1.02, "above"),
        (0.90, 0.979, "below"),
        (0.90, 0.98, "across"),
        (0.97, 0.99, "across"),
    ],
)
def test_the_whole_interval_decides(low, high, where):
    assert lies(interval(low, high), 0.98) == where


def test_sides_that_stayed_in_their_processes_must_be_further_away():
    for near, far, where in ((1.01, 1.06, "above"), (0.97, 0.90, "below")):
        assert lies(interval(near - 0.005, near + 0.005), 0.99, 4.0) == "across"
        assert lies(interval(far - 0.005, far + 0.005), 0.99, 4.0) == where
        assert lies(interval(near - 0.005, near + 0.005), 0.99) == where


def test_an_interval_without_an_end_says_nothing():
    assert known(interval(0.9, 1.1))
    assert not known(Interval(1.0, 0.0, 1.1, 3))
    assert not known(Interval(1.0, 0.9, float("inf"), 3))


def test_what_nobody_checked_has_not_passed():
    assert not judgement(Limits(0.02), ()).passed
