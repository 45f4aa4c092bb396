"""The search for a plan: the fastest choices that reach the floor, the frontier around them, the reasons."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.quant.plan.solve import (
    Border,
    Choices,
    Problem,
    SchemeOption,
    decibels,
    noise_at,
    nominal_gains,
    problem_from,
    solve,
)
from edgeopt.quant.records import FLOAT, FrontierPoint, Layer, LayerGain, LayerVerdict, Sensitivity

Check = Callable[[Mapping[str, str]], tuple[float, float]]
"""Runs the whole model with these choices and returns the value of the metric and its lower bound on other
samples, from resampling. Higher is better; a metric where lower is better has its sign changed."""

PHASE = "plan"
# Savings below this share of all possible savings are not worth another run.
_TOO_LITTLE = 0.005
# The search ends when the largest budget that holds and the smallest that fails are within this factor.
_CLOSE = 1.04
# A margin, so that the next budget is not just beyond the limit.
_CAUTION = 0.98
# Shares of the runs that are reserved for single changes at the end, and for the points next to the chosen one.
_FOR_SPENDING, _FOR_NEIGHBOURS = 0.25, 0.15
# A first budget for metrics that are not in decibels; eight bits often reach this ratio.
_FIRST_GUESS_DB = 25.0
_MAX_ROUNDS = 60


@dataclass(slots=True)
class PlanSearch:
    problem: Problem
    floor: float
    check: Check
    in_decibels: bool = True
    max_checks: int = 20
    emit: Emit = ignore
    results: dict[frozenset[tuple[str, str]], tuple[float, float]] = field(default_factory=dict)
    """The value and its lower bound of all choices that were run."""
    scale: float = 1.0
    """The ratio of the noise at the lower bound of the last run to the sum of the layers' noise."""
    _known: dict[float, dict[str, str]] = field(default_factory=dict)
    """The best choices by budget."""

    def within(self, budget: float) -> dict[str, str]:
        """Returns the choices that save the most time with the noise of each output within the budget."""
        if budget not in self._known:
            # The best choices for a larger budget are also the best for this one if they fit into it.
            looser = (self._known[b] for b in sorted(self._known) if b > budget)
            fits = next((each for each in looser if self.problem.worst(each) <= budget), None)
            self._known[budget] = solve(self.problem, budget) if fits is None else fits
        return dict(self._known[budget])

    @property
    def neighbours(self) -> int:
        """The number of runs reserved for the points next to the chosen one."""
        return round(_FOR_NEIGHBOURS * self.max_checks)

    @property
    def _spending(self) -> int:
        return round(_FOR_SPENDING * self.max_checks)

    @property
    def target(self) -> float:
        """The noise to reach; a guess if the floor is not in decibels."""
        return noise_at(self.floor if self.in_decibels else _FIRST_GUESS_DB)

    def result(self, choices: Choices) -> tuple[float, float] | None:
        """Returns the value and the lower bound of these choices, or None if they were not run."""
        return self.results.get(frozenset(choices.items()))

    def low(self, choices: Choices, kept: int = 0) -> float | None:
        """Returns the lower bound with these choices; None if only the `kept` reserved runs are left."""
        known = self.result(choices)
        if known is None:
            if len(self.results) >= self.max_checks - kept:
                return None
            self.emit(Progress(PHASE, f"{len(choices)} layers together", len(self.results) + 1))
            known = self.check(dict(choices))
            self.results[frozenset(choices.items())] = known
            expected = self.problem.worst(choices)
            if self.in_decibels and expected > 0 and math.isfinite(known[1]):
                self.scale = max(noise_at(known[1]) / expected, 1e-6)
        return known[1] if not math.isnan(known[1]) else -math.inf

    def best(self) -> dict[str, str]:
        """Returns the choices that save the most time and reach the floor."""
        best = self._by_budget()
        return self._spent(best) if best else best

    def _by_budget(self) -> dict[str, str]:
        """Narrows the budget between one that holds and one that fails, and returns the best choices that hold."""
        maximum = self.within(math.inf)
        best: dict[str, str] = {}
        holds, fails, budget = 0.0, math.inf, self.target
        for _ in range(_MAX_ROUNDS):
            choices = self.within(budget)
            low = math.inf if not choices else self.low(choices, kept=self._spending + self.neighbours)
            if low is None:
                break
            if low >= self.floor:
                holds = max(holds, budget)
                if self.problem.saved_ms(choices) > self.problem.saved_ms(best):
                    best = choices
            else:
                fails = min(fails, self.problem.worst(choices))
            if choices == maximum and low >= self.floor:
                break
            if (holds and fails <= holds * _CLOSE) or fails <= 0 or not self._worth(best, fails):
                break
            budget = self._next(holds, fails)
        return best

    def _worth(self, best: Choices, fails: float) -> bool:
        """Whether enough time can be saved with budgets below the one that fails."""
        beyond = self.within(fails * (1 - 1e-9)) if math.isfinite(fails) else self.within(math.inf)
        return self.problem.saved_ms(beyond) - self.problem.saved_ms(best) > self._too_little

    @property
    def _too_little(self) -> float:
        return _TOO_LITTLE * self.problem.saved_ms(self.within(math.inf))

    def _next(self, holds: float, fails: float) -> float:
        cautious = self.target / self.scale * _CAUTION
        if self.in_decibels and holds * 1.01 < cautious < fails * 0.999:
            return cautious
        if not math.isfinite(fails):
            return max(holds, self.target) * 4
        return math.sqrt(holds * fails) if holds else fails / 4

    def _spent(self, best: dict[str, str]) -> dict[str, str]:
        """Adds single changes that reach the floor, the most time for the least noise first."""
        tried = 0
        while tried < self._spending:
            room = self.target / self.scale * 1.1 if self.in_decibels else math.inf
            step = self._step(best, room)
            if step is None:
                break
            tried += 1
            low = self.low(step, kept=self.neighbours)
            if low is None:
                break
            if low >= self.floor:
                best = step
        return best

    def _step(self, best: Choices, room: float) -> dict[str, str] | None:
        """Returns the choices with the best single change that was not run yet, or None."""
        found: tuple[float, dict[str, str]] | None = None
        now_ms, now = self.problem.saved_ms(best), self.problem.noise(best)
        for name, options in zip(self.problem.layers, self.problem.options, strict=True):
            rest = {layer: scheme for layer, scheme in best.items() if layer != name}
            for changed in (*({**rest, name: option.scheme} for option in options), rest):
                saves = self.problem.saved_ms(changed) - now_ms
                if saves <= self._too_little or self.result(changed) is not None:
                    continue
                noise = self.problem.noise(changed)
                worth = saves / max(float((noise - now).max()), self.target * 1e-3)
                if noise.max() <= room and (found is None or worth > found[0]):
                    found = worth, changed
        return found[1] if found else None


# Dense just above the floor: a plan that fails its proof steps back to the next point.
_STEPS_DB = (30, 24, 18, 14, 11, 8, 6, 4.5, 3, 2, 1, 0, -1.5, -3, -5, -8, -12, -16, -20)
_SAME_MS = 1e-9


def frontier(search: PlanSearch, best: Choices, float_ms: float) -> tuple[FrontierPoint, ...]:
    """Returns points from the float model to all savings, each faster and less exact than the one before.

    Some of the points next to the chosen one are run, as long as runs are left.
    """
    points = _pareto(_candidates(search, best), search, best, float_ms)
    place = next((k for k, point in enumerate(points) if point.choices == dict(best)), 0)
    around = [place - 1, place + 1, len(points) - 1, place - 2]
    near = dict.fromkeys(k for k in around if 0 < k < len(points) and k != place)
    for each in list(near)[: max(search.neighbours, 1)]:
        search.low(points[each].choices)
    return _pareto([point.choices for point in points], search, best, float_ms)


def point_of(search: PlanSearch, choices: Choices, float_ms: float) -> FrontierPoint:
    """Returns a point of the frontier; `snr_db` and `low_db` are set if it was run and judged in decibels."""
    known = search.result(choices) if search.in_decibels else None
    return FrontierPoint(
        dict(choices),
        float_ms - search.problem.saved_ms(choices),
        decibels(search.problem.worst(choices)),
        known[0] if known and math.isfinite(known[0]) else None,
        known[1] if known and math.isfinite(known[1]) else None,
    )


def _candidates(search: PlanSearch, best: Choices) -> list[Choices]:
    middle = search.floor if search.in_decibels else decibels(search.problem.worst(best))
    budgets = [noise_at(middle + step) / search.scale for step in _STEPS_DB]
    return [
        {},
        best,
        search.within(math.inf),
        *(search.within(budget) for budget in budgets),
        *(dict(run) for run in search.results),
    ]


def _pareto(
    candidates: Sequence[Choices], search: PlanSearch, best: Choices, float_ms: float
) -> tuple[FrontierPoint, ...]:
    """Returns the points that no other beats in both time and noise; the chosen one always stays."""
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
    minimum = math.inf
    for (_, each_noise), key in sorted(apart, key=lambda one: (one[0], sorted(one[1]))):
        if each_noise < minimum:
            kept.append(dict(key))
            minimum = each_noise
    return tuple(point_of(search, choices, float_ms) for choices in reversed(kept))


def _exactness(search: PlanSearch, choices: Choices) -> float:
    """Returns the lower bound of the run in dB, or the scaled sum of the layers' noise if there was no run."""
    if not choices:
        return math.inf
    known = search.result(choices) if search.in_decibels else None
    return known[1] if known else decibels(search.problem.worst(choices) * search.scale)


# Times below this are reported as negligible.
_SMALLEST_MS = 0.0005
_SHORT_MS = 0.01


def verdicts(
    layers: Sequence[Layer],
    search: PlanSearch,
    best: Choices,
    sensitivities: Sequence[Sensitivity],
    reasons: Mapping[str, str],
    *,
    timed: bool,
) -> tuple[LayerVerdict, ...]:
    """Returns a verdict for every layer, in their order; `timed`: the savings were measured on a backend."""
    costs = {(each.layer, each.scheme): each for each in sensitivities}
    places = {name: place for place, name in enumerate(search.problem.layers)}
    found = []
    for layer in layers:
        options = search.problem.options[places[layer.name]] if layer.name in places else ()
        known = [each for each in sensitivities if each.layer == layer.name]
        if layer.reason or not (options or known):
            why = layer.reason or reasons.get(layer.name) or "no scheme fits it on this backend"
            found.append(LayerVerdict(layer.name, FLOAT, f"kept float: {why}"))
        elif not options:
            schemes = _listed([each.scheme for each in known])
            found.append(LayerVerdict(layer.name, FLOAT, f"kept float: its time in {schemes} is unknown"))
        elif layer.name in best:
            option = next(each for each in options if each.scheme == best[layer.name])
            found.append(_changed(layer.name, option, costs[layer.name, option.scheme], timed=timed))
        else:
            found.append(_kept(layer.name, options, search, best, costs, timed=timed))
    return tuple(found)


def _changed(layer: str, option: SchemeOption, cost: Sensitivity, *, timed: bool) -> LayerVerdict:
    alone = _alone(cost.snr_db)
    if not timed:
        text = f"{option.scheme}: {alone}"
    elif option.saves_ms > 0:
        text = f"{option.scheme}: saves {_ms(option.saves_ms)}, {alone}"
    else:
        slower = f"{_ms(-option.saves_ms)} slower itself, but it saves conversions next to it"
        text = f"{option.scheme}: {slower}, {alone}"
    return LayerVerdict(layer, option.scheme, text, option.saves_ms if timed else None, cost.snr_db)


def _kept(
    layer: str,
    options: Sequence[SchemeOption],
    search: PlanSearch,
    best: Choices,
    costs: Mapping[tuple[str, str], Sensitivity],
    *,
    timed: bool,
) -> LayerVerdict:
    """Returns the verdict of a float layer, about the scheme that would save the most."""
    option = max(options, key=lambda each: (each.saves_ms, -float(each.noise.max(initial=0.0))))
    cost = costs[layer, option.scheme]
    why = _why(layer, option, search, best, timed=timed)
    return LayerVerdict(layer, FLOAT, f"kept float: {why}", option.saves_ms if timed else None, cost.snr_db)


def _why(layer: str, option: SchemeOption, search: PlanSearch, best: Choices, *, timed: bool) -> str:
    scheme, problem = option.scheme, search.problem
    if timed and option.saves_ms <= 0:
        return (
            f"{scheme} is {_ms(-option.saves_ms)} slower here"
            if option.saves_ms < 0
            else f"{scheme} saves nothing here"
        )
    changed = {**best, layer: scheme}
    gained = problem.saved_ms(changed) - problem.saved_ms(best)
    if timed and gained <= 0:
        lost = _ms(option.saves_ms - gained)
        return f"{scheme} saves {_ms(option.saves_ms)}, but {lost} go into conversions next to float layers"
    alone = decibels(float((problem.base + option.noise).max(initial=0.0)))
    start = f"{scheme} saves {_ms(option.saves_ms)}, but" if timed else scheme
    run = search.result(changed)
    if not search.in_decibels:
        if run is not None:
            return f"{start} brings the metric to {run[1]:.4g}; the floor is {search.floor:.4g}"
        return f"{start} leaves {alone:.1f} dB alone; others save more time for their error"
    if min(alone, alone if run is None else run[1]) <= -EQUAL_DB:
        return f"{start} leaves outputs that cannot be compared with the source's"
    if alone < search.floor:
        return f"{start} leaves {alone:.1f} dB alone; the floor is {search.floor:g} dB"
    if run is not None:
        return f"{start} brings the outputs to {run[1]:.1f} dB; the floor is {search.floor:g} dB"
    now, then = (decibels(problem.worst(each) * search.scale) for each in (best, changed))
    if then < search.floor:
        return f"{start} costs {now - then:.1f} dB, with {max(now - search.floor, 0.0):.1f} dB left"
    return f"{start} costs {now - then:.1f} dB, and saves too little time for another run"


def _alone(snr_db: float) -> str:
    return "no loss" if snr_db >= EQUAL_DB else f"{snr_db:.1f} dB alone"


def _ms(time_ms: float) -> str:
    """Formats a time with enough digits to compare layers."""
    if time_ms < _SMALLEST_MS:
        return f"less than {_SMALLEST_MS * 1e3:g} µs"
    if time_ms < _SHORT_MS:
        return f"{time_ms * 1e3:.1f} µs"
    return f"{time_ms:.3f} ms" if time_ms < 1 else f"{time_ms:.2f} ms"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


MAX_CHECKS = 20


class Chosen(NamedTuple):
    frontier: tuple[FrontierPoint, ...]
    """Points from the float model on, each faster and less exact than the one before."""
    point: FrontierPoint
    """The fastest point whose lower bound reaches the floor; the float model if none does."""
    verdicts: tuple[LayerVerdict, ...]
    """A verdict for every layer, in their order."""
    checks: int = 0
    """The number of runs of the whole model."""


def choose(  # noqa: PLR0913 - optional parameters are keywords
    layers: Sequence[Layer],
    sensitivities: Sequence[Sensitivity],
    gains: Sequence[LayerGain],
    floor: float,
    check: Check,
    *,
    base: Sequence[float] = (),
    borders: Sequence[Border] = (),
    float_ms: float | None = None,
    in_decibels: bool = True,
    reasons: Mapping[str, str] | None = None,
    max_checks: int = MAX_CHECKS,
    emit: Emit = ignore,
) -> Chosen:
    """Chooses the scheme of each layer that saves the most time within the error budget, confirmed by runs of the
    whole model.

    The sum of the layers' noise ranks the choices; runs of all of them together show how far the sum is off, and
    the budget is adjusted until the runs are just inside. `floor` is the minimum of the second value of `check`,
    in decibels unless `in_decibels` is false. Without `gains`, multiplications count as time. `base` is the noise
    over the signal at each output that the backend adds by itself (bf16 does). `borders` are the costs of
    conversions; `boundary_ms` of the gains is not used. `float_ms` is the time of the whole float model. `reasons`
    say why no scheme fits a layer, as the end of a sentence, by layer.
    """
    timed = gains or nominal_gains(layers, sensitivities)
    problem = problem_from(layers, sensitivities, timed, borders, base)
    search = PlanSearch(problem, floor, check, in_decibels, max_checks, emit)
    best = search.best()
    total_ms = _products_ms(timed) if float_ms is None else float_ms
    points = frontier(search, best, total_ms)
    found = verdicts(layers, search, best, sensitivities, reasons or {}, timed=bool(gains))
    return Chosen(points, point_of(search, best, total_ms), found, len(search.results))


def _products_ms(gains: Sequence[LayerGain]) -> float:
    """Returns the float time of the layers alone."""
    return sum({gain.layer: gain.float_ms for gain in gains}.values())
