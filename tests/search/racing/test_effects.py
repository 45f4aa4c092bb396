import itertools

import numpy as np
import pytest

from edgeopt.search.racing.space import Effects, Point, best_point

SIZES = {"a": 5, "b": 4, "c": 3}


def point(values):
    return Point("model", "backend", {name: value for name, value in zip(SIZES, values, strict=True) if value})


def found_in(seed, most=12):
    """How much slower than the best of a space of sums the best is that was tried, and in how many points."""
    drawn = np.random.default_rng(seed)
    effects = [np.concatenate([[0.0], drawn.normal(0, 0.1, size - 1)]) for size in SIZES.values()]
    times = {
        values: sum(effect[value] for effect, value in zip(effects, values, strict=True))
        for values in itertools.product(*map(range, SIZES.values()))
    }
    model, best, tried = Effects(), (0, 0, 0), {(0, 0, 0)}
    while len(tried) < most:
        left = {repr(point(v)): v for v in times if v not in tried}
        found = best_point([point(v) for v in left.values()], model, point(best))
        if found is None or found[1].hoped < 0.01:
            break
        values = left[repr(found[0])]
        tried.add(values)
        longer = times[values] - times[best] + drawn.normal(0, 0.01)
        model.learn(point(values), point(best), longer, 0.01)
        if longer < 0:
            best = values
    return times[best] - min(times.values()), len(tried)


def test_a_dozen_points_find_what_a_grid_of_sixty_holds():
    gaps, tried = zip(*(found_in(seed) for seed in range(40)), strict=True)
    assert max(tried) <= 12
    assert np.mean(np.array(gaps) < 0.01) >= 0.9
    assert np.mean(np.array(gaps) < 0.03) >= 0.97


def test_what_a_choice_does_is_the_same_for_all_on_one_backend():
    model = Effects()
    model.learn(Point("one", "x", {"a": 1}), Point("one", "x", {}), -0.2, 0.01)
    other = model.gain(Point("two", "x", {"a": 1}), Point("two", "x", {}))
    elsewhere = model.gain(Point("one", "y", {"a": 1}), Point("one", "y", {}))
    assert other.expected == pytest.approx(0.2, abs=0.02)
    assert other.spread < 0.03
    assert (elsewhere.expected, elsewhere.spread > 0.1) == (0, True)


def test_choices_that_each_helped_are_tried_together():
    model, start = Effects(), Point("one", "x", {})
    model.learn(Point("one", "x", {"a": 1}), start, -0.1, 0.01)
    model.learn(Point("one", "x", {"b": 1}), start, -0.05, 0.01)
    both = Point("one", "x", {"a": 1, "b": 1})
    best = Point("one", "x", {"a": 1})
    found, gain = best_point([both, start], model, best)
    assert found == both
    assert gain.expected == pytest.approx(0.05, abs=0.02)


def test_nothing_is_hoped_of_what_was_slow_and_two_new_choices_are_not_tried_at_once():
    model, start = Effects(), Point("one", "x", {})
    model.learn(Point("one", "x", {"a": 1}), start, 0.1, 0.01)
    assert model.gain(Point("one", "x", {"a": 1}), start).hoped < 0.001
    assert best_point([Point("one", "x", {"b": 1, "c": 1})], model, start) is None
    found, gain = best_point([Point("one", "x", {"b": 1}), Point("one", "x", {"a": 1})], model, start)
    assert found.choices == {"b": 1}
    assert gain.hoped > 0.01
