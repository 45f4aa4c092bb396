"""Lines of axes stand at round places, and not too close."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt_gui.plots.ticks import clock_ticks, factor_ticks, latency_text, significant, value_ticks


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e9), st.integers(2, 12))
def test_values_lie_within_and_are_not_too_many(low, span, most):
    found = value_ticks(low, low + span, most)
    assert len(found) <= most
    assert all(low - span * 1e-6 <= at <= low + span * (1 + 1e-6) for at, _ in found)


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0, 0.3, 4, ["0.0", "0.1", "0.2", "0.3"]),
        (0, 1.0, 5, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        (0, 100, 5, ["0", "25", "50", "75", "100"]),
        (0, 4000, 3, ["0", "2,000", "4,000"]),
        (40, 46, 4, ["40", "42", "44", "46"]),
    ],
)
def test_values_are_written_in_as_many_digits_as_they_need(low, high, most, labels):
    assert [label for _, label in value_ticks(low, high, most)] == labels


@given(st.floats(1.6e9, 1.9e9), st.floats(1, 400_000), st.integers(1, 20))
def test_times_lie_within_and_are_not_too_many(begin, span, most):
    found = clock_ticks(begin, begin + span, most)
    assert len(found) <= most + 1
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
    ("low", "high", "most", "labels"),
    [
        (0.05, 5, 7, ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"]),
        (0.05, 5, 4, ["0.1", "0.3", "1", "3"]),
        (0.1, 1000, 5, ["0.1", "1", "10", "100", "1,000"]),
        (0.2, 1, 2, ["0.3", "1"]),
    ],
)
def test_steps_of_a_logarithmic_axis_are_equal_factors(low, high, most, labels):
    assert [label for _, label in factor_ticks(low, high, most)] == labels


@given(st.floats(1e-6, 1e6), st.floats(5, 1e6), st.integers(2, 12))
def test_factors_lie_within_and_are_not_too_many(low, times, most):
    found = factor_ticks(low, low * times, most)
    assert 2 <= len(found) <= most
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
