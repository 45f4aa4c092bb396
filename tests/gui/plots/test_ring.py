"""The ring against brute force: every peak is drawn, never more than two points a pixel, gaps stay open."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt_gui.plots.ring import CAPACITY, Ring


def filled(times, values, capacity=CAPACITY, gaps=()):
    ring = Ring(capacity)
    for number, (time_s, value) in enumerate(zip(times, values, strict=True)):
        ring.append(time_s, value, after_gap=number in gaps)
    return ring


def a_walk(count, seed=0, step_s=0.1):
    rng = np.random.default_rng(seed)
    return 1.7e9 + np.cumsum(rng.uniform(0.5, 1.5, count) * step_s), rng.standard_normal(count).cumsum()


def test_few_samples_are_drawn_as_they_are():
    times, values = a_walk(500)
    curve = filled(times, values).window(times[0], times[-1], 400)
    assert np.array_equal(curve.times, times)
    assert np.array_equal(curve.values, values)
    assert curve.joined is None


def test_a_window_brings_one_sample_on_either_side():
    ring = filled(np.arange(10.0), np.arange(10.0))
    assert list(ring.window(2.5, 5.5, 100).times) == [2, 3, 4, 5, 6]
    assert list(ring.window(3.0, 3.0, 100).times) == [2, 3, 4]
    assert list(ring.window(20, 30, 100).times) == [9]
    assert list(ring.window(-5, -1, 100).times) == [0]


def test_an_empty_ring_gives_an_empty_curve():
    ring = Ring(256)
    assert len(ring.window(0, 1, 100).times) == 0
    assert ring.at(1.0) is None


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9000),
    st.integers(8, 400),
    st.floats(0, 1),
    st.floats(0.001, 1),
    st.integers(0, 2**31),
    st.sampled_from([256, 2048, 16384]),
)
def test_a_curve_shows_what_brute_force_finds(count, pixels, place, share, seed, capacity):
    times, values = a_walk(count, seed)
    ring = filled(times, values, capacity)
    times, values = times[-ring.capacity :], values[-ring.capacity :]
    span = max(times[-1] - times[0], 1e-3) * share
    begin = times[0] + place * (times[-1] - times[0] - span)
    curve = ring.window(begin, begin + span, pixels)
    assert len(curve.times) <= 2 * (pixels + 3)  # a column is cut at each edge, and one beyond comes along
    assert np.all(np.diff(curve.times) >= 0)
    assert np.isin(curve.values, values).all()
    inside = (times >= begin) & (times <= begin + span)
    if not inside.any():
        return
    neighbours = slice(max(0, inside.argmax() - 1), len(inside) - inside[::-1].argmax() + 1)
    assert curve.values.min() <= values[inside].min()
    assert curve.values.min() >= values[neighbours].min()
    assert curve.values.max() >= values[inside].max()
    assert curve.values.max() <= values[neighbours].max()


def test_each_column_shows_its_own_extremes():
    times, values = a_walk(100_000, seed=3, step_s=0.01)
    ring = filled(times, values)
    pixels = 500
    curve = ring.window(times[0], times[-1], pixels)
    width = (times[-1] - times[0]) / pixels
    for k in range(2, pixels - 2):
        left = times[0] + k * width
        inside = values[(times >= left) & (times < left + width)]
        near = (curve.times > left - 1.5 * width) & (curve.times < left + 2.5 * width)
        assert curve.values[near].min() <= inside.min()
        assert curve.values[near].max() >= inside.max()
        far = values[(times > left - 3 * width) & (times < left + 4 * width)]
        assert curve.values[near].max() <= far.max()


def test_one_peak_among_all_samples_is_drawn_at_its_time():
    count = CAPACITY + 12_345
    times = 1.7e9 + np.arange(count) * 0.1
    ring = Ring()
    for number, time_s in enumerate(times):
        ring.append(time_s, 100.0 if number == count - 70_001 else 1.0)
    curve = ring.window(times[-CAPACITY], times[-1], 1000)
    assert curve.values.max() == 100.0
    assert curve.times[curve.values.argmax()] == pytest.approx(
        times[count - 70_001], abs=2 * CAPACITY * 0.1 / 1000
    )


def test_the_oldest_samples_make_room():
    ring = filled(np.arange(1000.0), np.arange(1000.0), capacity=256)
    times, values = ring.all()
    assert (len(ring), ring.count) == (256, 1000)
    assert np.array_equal(times, np.arange(744.0, 1000.0))
    assert np.array_equal(values, times)
    ring.clear()
    assert len(ring) == 0


def test_a_curve_that_moves_on_does_not_tremble():
    times, values = a_walk(50_000, seed=1)
    ring = filled(times, values)
    one, other = (ring.window(times[-1] - 2000 - shift, times[-1] - shift, 400) for shift in (0.0, 333.3))
    common = np.intersect1d(one.times[4:-4], other.times[4:-4])
    assert len(common) > 200
    for time_s in common[2:-2]:
        assert np.array_equal(one.values[one.times == time_s], other.values[other.times == time_s])


def pieces(curve):
    """The curve's times, split where no line is drawn."""
    joined = np.ones(len(curve.times)) if curve.joined is None else curve.joined
    return np.split(curve.times, np.flatnonzero(joined[:-1] == 0) + 1)


@pytest.mark.parametrize(("step_s", "pixels"), [(0.1, 4000), (0.1, 200), (0.01, 50)])
def test_no_line_is_drawn_over_a_gap(step_s, pixels):
    first = np.arange(3001) * step_s
    second = first + 10_000 * step_s
    ring = filled(np.concatenate((first, second)), np.ones(6002), gaps={3001})
    found = pieces(ring.window(0.0, second[-1], pixels))
    assert len(found) == 2
    width = second[-1] / pixels
    assert found[0][-1] == pytest.approx(first[-1], abs=2 * width)
    assert found[1][0] == pytest.approx(second[0], abs=2 * width)


def test_gaps_go_with_their_samples():
    ring = filled(np.arange(2000.0), np.zeros(2000), capacity=256, gaps=set(range(0, 2000, 10)))
    assert len(pieces(ring.window(1744, 1999, 1000))) == pytest.approx(26, abs=1)


def test_the_nearest_sample_is_found():
    ring = filled([1.0, 2.0, 4.0], [10.0, 20.0, 40.0])
    assert ring.at(0.0) == (1.0, 10.0)
    assert ring.at(2.9) == (2.0, 20.0)
    assert ring.at(3.1) == (4.0, 40.0)
    assert ring.at(9.0) == (4.0, 40.0)


def test_what_it_takes_is_what_it_says():
    assert Ring().nbytes == pytest.approx(6.7 * 2**20, rel=0.01)
    assert CAPACITY > 4 * 3600 * 10


def test_a_long_history_costs_no_more_to_draw_than_a_short_one():
    def seconds(count):
        times, values = a_walk(count)
        ring = filled(times, values)
        took = []
        for _ in range(15):
            begin = time.perf_counter()
            ring.window(times[0], times[-1], 600)
            took.append(time.perf_counter() - begin)
        return sorted(took)[7]

    short, long = seconds(10_000), seconds(CAPACITY)
    assert long < 5 * short
    assert long < 0.002


def test_appending_costs_the_same_from_first_to_last():
    """In time of this thread, which nothing else on the machine lengthens much."""
    ring = Ring()
    numbers = itertools.count()
    took = []
    for _ in range(8):
        begin = time.thread_time()
        for _ in range(20_000):
            ring.append(next(numbers) * 0.1, 1.0)
        took.append(time.thread_time() - begin)
    assert min(took[4:]) < 3 * min(took[:4])
    assert min(took) / 20_000 < 20e-6
