"""The test behind the alarm: its level on equal distributions, and what it finds."""

import numpy as np
import pytest

from edgeopt_agent.drift.comparison import Window, alarm_distance, reference_of


def window_of(first, last):
    window = Window(reference_of(list(first)), len(last))
    for value in last:
        window.add(value)
    return window


@pytest.mark.parametrize("draw", ["normal", "exponential", "coins"])
def test_equal_distributions_exceed_the_distance_no_more_often_than_the_level_says(draw):
    rng = np.random.default_rng(56)
    numbers = {
        "normal": rng.standard_normal,
        "exponential": lambda size: rng.exponential(1.0, size),
        "coins": lambda size: rng.integers(0, 2, size).astype(float),
    }[draw]
    level, trials = 0.05, 400
    maximum = alarm_distance(300, 100, level)
    alarms = sum(window_of(numbers(300), numbers(100)).distance() > maximum for _ in range(trials))
    spread = (trials * level * (1 - level)) ** 0.5
    assert alarms <= trials * level + 3 * spread


def test_the_distance_is_almost_that_of_the_full_test():
    rng = np.random.default_rng(7)
    first, last = rng.standard_normal(1000), rng.standard_normal(200) + 0.5
    places = np.concatenate([first, last])
    full = max(abs(np.mean(first <= place) - np.mean(last <= place)) for place in places)
    assert full - 0.02 <= window_of(first, last).distance() <= full + 1e-12


@pytest.mark.parametrize("last", [-1.0, 1.0])
def test_a_constant_that_becomes_another_one_is_as_far_away_as_can_be(last):
    assert window_of([0.0] * 100, [last] * 50).distance() == pytest.approx(1.0)
    assert window_of([0.0] * 100, [0.0] * 50).distance() == 0.0


def test_the_oldest_values_leave_the_window():
    window = Window(reference_of([float(k) for k in range(100)]), 10)
    for value in [1e6] * 10 + [5.0, 15.0, 25.0, 35.0, 45.0, 55.0, 65.0, 75.0, 85.0, 95.0]:
        window.add(value)
    assert len(window) == 10
    assert window.distance() < 0.15
    assert window.median == 50.0
