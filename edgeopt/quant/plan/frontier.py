"""The frontier between error and time: the best choices for a dozen budgets, and those that were run."""

import math
from collections.abc import Sequence

from edgeopt.quant.plan.problem import Choices, decibels, noise_at
from edgeopt.quant.plan.search import Search
from edgeopt.quant.records import Point

# Close together just above the floor: a plan that fails its proof goes to the next of them.
_STEPS_DB = (30, 24, 18, 14, 11, 8, 6, 4.5, 3, 2, 1, 0, -1.5, -3, -5, -8, -12, -16, -20)
_SAME_MS = 1e-9


def frontier(search: Search, best: Choices, float_ms: float) -> tuple[Point, ...]:
    """From the float model to all that saves time, each faster and less exact than the one before.

    Some of the points next to the chosen one are run, as long as runs are left.
    """
    points = _pareto(_candidates(search, best), search, best, float_ms)
    place = next((k for k, point in enumerate(points) if point.choices == dict(best)), 0)
    around = [place - 1, place + 1, len(points) - 1, place - 2]
    near = dict.fromkeys(k for k in around if 0 < k < len(points) and k != place)
    for each in list(near)[: max(search.neighbours, 1)]:
        search.low(points[each].choices)
    return _pareto([point.choices for point in points], search, best, float_ms)


def point_of(search: Search, choices: Choices, float_ms: float) -> Point:
    """`snr_db` and `low_db` of those that were run and judged in decibels."""
    known = search.result(choices) if search.in_decibels else None
    return Point(
        dict(choices),
        float_ms - search.problem.saved_ms(choices),
        decibels(search.problem.worst(choices)),
        known[0] if known and math.isfinite(known[0]) else None,
        known[1] if known and math.isfinite(known[1]) else None,
    )


def _candidates(search: Search, best: Choices) -> list[Choices]:
    middle = search.floor if search.in_decibels else decibels(search.problem.worst(best))
    budgets = [noise_at(middle + step) / search.scale for step in _STEPS_DB]
    return [
        {},
        best,
        search.within(math.inf),
        *(search.within(budget) for budget in budgets),
        *(dict(run) for run in search.results),
    ]


def _pareto(candidates: Sequence[Choices], search: Search, best: Choices, float_ms: float) -> tuple[Point, ...]:
    """Those that nothing else beats in both; the chosen one stays, whatever others are believed to be."""
    at = {
        frozenset(c.items()): (float_ms - search.problem.saved_ms(c), -_exactness(search, c)) for c in candidates
    }
    chosen = frozenset(best.items())
    ms, noise = at[chosen]
    apart = [
        (each, key)
        for key, each in at.items()
        if key == chosen or (each[0] < ms - _SAME_MS and each[1] > noise) or (each[0] > ms and each[1] < noise)
    ]
    kept: list[Choices] = []
    least = math.inf
    for (_, each_noise), key in sorted(apart, key=lambda one: (one[0], sorted(one[1]))):
        if each_noise < least:
            kept.append(dict(key))
            least = each_noise
    return tuple(point_of(search, choices, float_ms) for choices in reversed(kept))


def _exactness(search: Search, choices: Choices) -> float:
    """In dB, by the run where there was one, else from the sum as far as the runs have borne it out."""
    if not choices:
        return math.inf
    known = search.result(choices) if search.in_decibels else None
    return known[1] if known else decibels(search.problem.worst(choices) * search.scale)
