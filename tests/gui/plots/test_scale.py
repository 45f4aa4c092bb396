"""Axes are round, hold every value, and do not jump with each of them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt_gui.plots.scale import around, factors, far_apart, from_zero
from edgeopt_gui.plots.span import Span, moved, shown, stopped, zoomed
from edgeopt_gui.plots.ticks import clock_ticks, factor_ticks, latency_text, significant, value_ticks


@given(st.floats(1e-6, 1e12), st.floats(0, 1e12))
def test_every_value_fits(highest, shown):
    assert from_zero(highest, shown) >= highest


# Runtimes that other tests load let the processor take subnormal numbers for zero.
@given(
    st.floats(-1e3, 1e3, allow_subnormal=False),
    st.floats(0, 1e3, allow_subnormal=False),
    st.none() | st.tuples(st.floats(-1e3, 0), st.floats(1, 1e3)),
)
def test_both_ends_fit(lowest, more, shown):
    low, high = around(lowest, lowest + more, shown, 5.0)
    assert low <= lowest
    assert high >= lowest + more
    assert high - low >= 1.0 if shown else high - low >= 5.0


def test_small_changes_leave_the_axis_alone():
    assert from_zero(0.21, 0) == pytest.approx(0.3)
    assert from_zero(0.29, 0.3) == 0.3
    assert from_zero(0.19, 0.3) == 0.3
    assert around(41.0, 44.0, (40.0, 46.0), 5.0) == (40.0, 46.0)


def test_large_changes_move_it():
    assert from_zero(0.31, 0.3) == pytest.approx(0.4)
    assert from_zero(0.1, 0.3) == pytest.approx(0.15)
    assert around(41.0, 60.0, (40.0, 46.0), 5.0)[1] >= 60


def test_no_values_yet_are_no_trouble():
    assert from_zero(0.0, 0.0) == 1.0


@given(st.floats(1e-6, 1e6), st.floats(1, 1e4), st.none() | st.tuples(st.floats(1e-6, 1), st.floats(10, 1e6)))
def test_both_ends_of_a_logarithmic_axis_fit(lowest, times, shown):
    low, high = factors(lowest, lowest * times, shown)
    assert 0 < low <= lowest * (1 + 1e-9)
    assert high >= lowest * times * (1 - 1e-9)


def test_a_logarithmic_axis_is_round_and_steady():
    assert factors(0.06, 3.4, None) == pytest.approx((0.05, 5.0))
    assert factors(0.07, 2.1, (0.05, 5.0)) == (0.05, 5.0)
    assert factors(0.07, 0.11, (0.05, 5.0)) == pytest.approx((0.05, 0.5))


def test_far_apart_is_more_than_five_times_and_stays_so_for_a_while():
    assert not far_apart(1.0, 4.9, before=False)
    assert far_apart(1.0, 5.1, before=False)
    assert far_apart(1.0, 2.6, before=True)
    assert not far_apart(1.0, 2.4, before=True)
    assert not far_apart(0.0, 2.4, before=True)


FIRST, LAST = 1000.0, 5000.0


def test_it_follows_the_newest_sample():
    assert shown(Span(30.0), FIRST, LAST) == (LAST - 30, LAST)
    assert shown(Span(30.0), FIRST, LAST + 5) == (LAST - 25, LAST + 5)


def test_all_is_all():
    assert shown(Span(None), FIRST, LAST) == (FIRST, LAST)
    assert shown(Span(None), FIRST, FIRST) == (FIRST, FIRST + 10)


def test_going_back_stops_following_and_going_forward_to_the_end_follows_again():
    back = moved(Span(100.0), -0.5, FIRST, LAST)
    assert not back.follows
    assert shown(back, FIRST, LAST + 60) == (LAST - 150, LAST - 50)
    assert moved(back, 0.6, FIRST, LAST) == Span(100.0)


def test_one_cannot_get_lost_before_the_first_sample():
    span = Span(100.0)
    for _ in range(1000):
        span = moved(span, -1.0, FIRST, LAST)
    assert shown(span, FIRST, LAST)[1] == FIRST


def test_zoom_keeps_what_lies_under_the_pointer():
    before = Span(100.0, 3000.0)
    after = zoomed(before, 0.5, 2925.0, FIRST, LAST)
    begin, end = shown(after, FIRST, LAST)
    assert end - begin == pytest.approx(50)
    assert (2925 - begin) / (end - begin) == pytest.approx(0.25)


def test_zoom_while_following_goes_on_following():
    assert zoomed(Span(100.0), 2.0, 4950.0, FIRST, LAST) == Span(200.0)
    assert zoomed(Span(100.0, 3000.0), 2.0, None, FIRST, LAST) == Span(200.0, 3000.0)


def test_zoom_has_ends():
    span = Span(100.0)
    for _ in range(100):
        span = zoomed(span, 0.5, None, FIRST, LAST)
    assert span.length_s == 1.0


def test_stopping_keeps_the_stretch():
    assert shown(stopped(Span(30.0), FIRST, LAST), FIRST, LAST + 100) == (LAST - 30, LAST)


def test_it_grows_from_the_first_sample_until_it_has_its_length():
    assert shown(Span(30.0), FIRST, FIRST + 3) == (FIRST, FIRST + 10)
    assert shown(Span(30.0), FIRST, FIRST + 20) == (FIRST, FIRST + 20)
    assert shown(Span(30.0), FIRST, FIRST + 40) == (FIRST + 10, FIRST + 40)
    assert shown(Span(5.0), FIRST, FIRST + 1) == (FIRST, FIRST + 5)


def test_zooming_out_of_what_still_grows_makes_it_longer():
    assert zoomed(Span(30.0), 2.0, None, FIRST, FIRST + 12) == Span(60.0)
    assert zoomed(Span(30.0), 0.5, None, FIRST, FIRST + 12) == Span(6.0)


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e9), st.integers(2, 12))
def test_values_lie_within_and_are_not_too_many(low, span, maximum):
    found = value_ticks(low, low + span, maximum)
    assert len(found) <= maximum
    assert all(low - span * 1e-6 <= at <= low + span * (1 + 1e-6) for at, _ in found)


@pytest.mark.parametrize(
    ("low", "high", "maximum", "labels"),
    [
        (0, 0.3, 4, ["0.0", "0.1", "0.2", "0.3"]),
        (0, 1.0, 5, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        (0, 100, 5, ["0", "25", "50", "75", "100"]),
        (0, 4000, 3, ["0", "2,000", "4,000"]),
        (40, 46, 4, ["40", "42", "44", "46"]),
    ],
)
def test_values_are_written_in_as_many_digits_as_they_need(low, high, maximum, labels):
    assert [label for _, label in value_ticks(low, high, maximum)] == labels


@given(st.floats(1.6e9, 1.9e9), st.floats(1, 400_000), st.integers(1, 20))
def test_times_lie_within_and_are_not_too_many(begin, span, maximum):
    found = clock_ticks(begin, begin + span, maximum)
    assert len(found) <= maximum + 1
    assert all(begin <= at <= begin + span for at, _ in found)


def test_times_are_those_of_the_local_clock():
    noon = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))
    assert [label for _, label in clock_ticks(noon - 1, noon + 31, 4)] == [
        "12:00:00",
        "12:00:10",
        "12:00:20",
        "12:00:30",
    ]
    assert [label for _, label in clock_ticks(noon - 1, noon + 3 * 3600, 4)] == [
        "12:00",
        "13:00",
        "14:00",
        "15:00",
    ]


def test_numbers_keep_the_digits_that_mean_something():
    assert [significant(v) for v in (0, 0.26231, 12.34, 1234.5, -0.05)] == [
        "0",
        "0.262",
        "12.3",
        "1,234",
        "-0.0500",
    ]


@pytest.mark.parametrize(
    ("low", "high", "maximum", "labels"),
    [
        (0.05, 5, 7, ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"]),
        (0.05, 5, 4, ["0.1", "0.3", "1", "3"]),
        (0.1, 1000, 5, ["0.1", "1", "10", "100", "1,000"]),
        (0.2, 1, 2, ["0.3", "1"]),
    ],
)
def test_steps_of_a_logarithmic_axis_are_equal_factors(low, high, maximum, labels):
    assert [label for _, label in factor_ticks(low, high, maximum)] == labels


@given(st.floats(1e-6, 1e6), st.floats(5, 1e6), st.integers(2, 12))
def test_factors_lie_within_and_are_not_too_many(low, times, maximum):
    found = factor_ticks(low, low * times, maximum)
    assert 2 <= len(found) <= maximum
    assert all(low * (1 - 1e-6) <= at <= low * times * (1 + 1e-6) for at, _ in found)


def test_latencies_below_a_millisecond_are_in_microseconds():
    assert [latency_text(value) for value in (0, 0.26231, 0.9994, 1.0, 12.34)] == [
        "0 ms",
        "262 µs",
        "999 µs",
        "1.00 ms",
        "12.3 ms",
    ]


@pytest.mark.parametrize(("low", "high"), [(0.0, 60.0), (0.0, 8.0), (45.0, 55.0), (42.0, 57.0), (0.0, 600.0)])
def test_an_axis_with_room_for_two_labels_has_two(low, high):
    ticks = value_ticks(low, high, 2)
    assert len(ticks) == 2
    assert all(low - 1e-9 <= value <= high + 1e-9 for value, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)
