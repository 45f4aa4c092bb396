"""Chooses the form of each layer: the most time saved within the budget, confirmed by runs of the whole model.

The layers' own noise, added up, tells which choices go together; runs with all of them at once tell how far that
sum is off, and the budget for the sum is adjusted until the runs themselves are just inside.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edgeopt.events import Emit, ignore
from edgeopt.quant.plan.explain import verdicts
from edgeopt.quant.plan.frontier import frontier, point_of
from edgeopt.quant.plan.problem import Border, nominal_gains, problem_from
from edgeopt.quant.plan.search import Check, Search
from edgeopt.quant.records import Gain, Layer, Point, Sensitivity, Verdict

MOST_CHECKS = 20


class Chosen(NamedTuple):
    frontier: tuple[Point, ...]
    """From the float model on: each faster and less exact than the one before."""
    point: Point
    """The fastest whose lower bound reached the floor; without any form where none did."""
    verdicts: tuple[Verdict, ...]
    """For every layer, in their order."""
    checks: int = 0
    """How often the whole model was run."""


def choose(  # noqa: PLR0913 - optional parameters are keywords
    layers: Sequence[Layer],
    sensitivities: Sequence[Sensitivity],
    gains: Sequence[Gain],
    floor: float,
    check: Check,
    *,
    base: Sequence[float] = (),
    borders: Sequence[Border] = (),
    float_ms: float | None = None,
    in_decibels: bool = True,
    reasons: Mapping[str, str] | None = None,
    most_checks: int = MOST_CHECKS,
    emit: Emit = ignore,
) -> Chosen:
    """What each layer becomes.

    `floor`: what the second value of `check` must reach, in decibels unless told otherwise. `gains`: where there
    are none, what is multiplied counts as time. `base`: noise over signal at each output that the backend adds by
    itself (bf16 does). `borders`: what conversions cost; `boundary_ms` of the gains counts only through them.
    `float_ms`: the whole model's time in float. `reasons`: by layer, why no form fits it, as the end
    of a sentence.
    """
    timed = gains or nominal_gains(layers, sensitivities)
    problem = problem_from(layers, sensitivities, timed, borders, base)
    search = Search(problem, floor, check, in_decibels, most_checks, emit)
    best = search.best()
    total_ms = _products_ms(timed) if float_ms is None else float_ms
    points = frontier(search, best, total_ms)
    told = verdicts(layers, search, best, sensitivities, reasons or {}, timed=bool(gains))
    return Chosen(points, point_of(search, best, total_ms), told, len(search.results))


def _products_ms(gains: Sequence[Gain]) -> float:
    """The time of the layers alone."""
    return sum({gain.layer: gain.float_ms for gain in gains}.values())
