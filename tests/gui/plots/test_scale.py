"""Axes are round, hold every value, and do not jump with each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt_gui.plots.scale import around, factors, far_apart, from_zero


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
