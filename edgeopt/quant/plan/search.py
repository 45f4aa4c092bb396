"""Finds, with few runs of the whole model, the choices that save the most and still reach the floor."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgeopt.events import Emit, Progress, ignore
from edgeopt.quant.plan.problem import Choices, Problem, noise_at
from edgeopt.quant.plan.solve import solve

Check = Callable[[Mapping[str, str]], tuple[float, float]]
"""Runs the whole model with these choices: the value of the metric, and what it may be on other samples (the bound
that resampling gives). Bigger is better; a metric where less is better has its sign changed."""

PHASE = "plan"
# What is not worth another run, as a share of all that could be saved.
_TOO_LITTLE = 0.005
# The search ends when the budget that holds and that which does not are this close.
_CLOSE = 1.04
# Of the room that the last run found, so that the next is not just beyond it.
_CAUTION = 0.98
# Shares of the runs that are kept for what is spent at the end, and for the points around the chosen one.
_FOR_SPENDING, _FOR_NEIGHBOURS = 0.25, 0.15
# Without decibels nothing says where to begin; this noise is what eight bits often leave.
_FIRST_GUESS_DB = 25.0
_MOST_ROUNDS = 60


@dataclass(slots=True)
class Search:
    problem: Problem
    floor: float
    check: Check
    in_decibels: bool = True
    most_checks: int = 20
    emit: Emit = ignore
    results: dict[frozenset[tuple[str, str]], tuple[float, float]] = field(default_factory=dict)
    """Of all choices that were run: the value and its lower bound."""
    scale: float = 1.0
    """How much more noise the runs' lower bounds showed than the sum of the layers' own, at the last one."""
    _known: dict[float, dict[str, str]] = field(default_factory=dict)
    """By budget."""

    def within(self, budget: float) -> dict[str, str]:
        """The choices that save the most with no output's noise above the budget."""
        if budget not in self._known:
            # What is best within more room and needs no more than this is best here too.
            looser = (self._known[b] for b in sorted(self._known) if b > budget)
            fits = next((each for each in looser if self.problem.worst(each) <= budget), None)
            self._known[budget] = solve(self.problem, budget) if fits is None else fits
        return dict(self._known[budget])

    @property
    def neighbours(self) -> int:
        """How many runs are kept for the points around the chosen one."""
        return round(_FOR_NEIGHBOURS * self.most_checks)

    @property
    def _spending(self) -> int:
        return round(_FOR_SPENDING * self.most_checks)

    @property
    def target(self) -> float:
        """The noise to reach; a guess where the floor is not in decibels."""
        return noise_at(self.floor if self.in_decibels else _FIRST_GUESS_DB)

    def result(self, choices: Choices) -> tuple[float, float] | None:
        """By the run that it had, if any."""
        return self.results.get(frozenset(choices.items()))

    def low(self, choices: Choices, kept: int = 0) -> float | None:
        """The lower bound with these choices; None where no run is left, but for those `kept` for later."""
        known = self.result(choices)
        if known is None:
            if len(self.results) >= self.most_checks - kept:
                return None
            self.emit(Progress(PHASE, f"{len(choices)} layers together", len(self.results) + 1))
            known = self.check(dict(choices))
            self.results[frozenset(choices.items())] = known
            expected = self.problem.worst(choices)
            if self.in_decibels and expected > 0 and math.isfinite(known[1]):
                self.scale = max(noise_at(known[1]) / expected, 1e-6)
        return known[1] if not math.isnan(known[1]) else -math.inf

    def best(self) -> dict[str, str]:
        """What saves the most and reaches the floor."""
        best = self._by_budget()
        return self._spent(best) if best else best

    def _by_budget(self) -> dict[str, str]:
        """Narrows the budget between one that holds and one that does not."""
        most = self.within(math.inf)
        best: dict[str, str] = {}
        holds, fails, budget = 0.0, math.inf, self.target
        for _ in range(_MOST_ROUNDS):
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
            if choices == most and low >= self.floor:
                break
            if (holds and fails <= holds * _CLOSE) or fails <= 0 or not self._worth(best, fails):
                break
            budget = self._next(holds, fails)
        return best

    def _worth(self, best: Choices, fails: float) -> bool:
        """Whether there is enough to be saved below the budget that fails."""
        beyond = self.within(fails * (1 - 1e-9)) if math.isfinite(fails) else self.within(math.inf)
        return self.problem.saved_ms(beyond) - self.problem.saved_ms(best) > self._too_little

    @property
    def _too_little(self) -> float:
        return _TOO_LITTLE * self.problem.saved_ms(self.within(math.inf))

    def _next(self, holds: float, fails: float) -> float:
        wanted = self.target / self.scale * _CAUTION
        if self.in_decibels and holds * 1.01 < wanted < fails * 0.999:
            return wanted
        if not math.isfinite(fails):
            return max(holds, self.target) * 4
        return math.sqrt(holds * fails) if holds else fails / 4

    def _spent(self, best: dict[str, str]) -> dict[str, str]:
        """With single changes that may still fit, the most time for the least noise first."""
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
        """The best change that was not run yet."""
        found: tuple[float, dict[str, str]] | None = None
        now_ms, now = self.problem.saved_ms(best), self.problem.noise(best)
        for name, options in zip(self.problem.layers, self.problem.options, strict=True):
            rest = {layer: form for layer, form in best.items() if layer != name}
            for changed in (*({**rest, name: option.form} for option in options), rest):
                saves = self.problem.saved_ms(changed) - now_ms
                if saves <= self._too_little or self.result(changed) is not None:
                    continue
                noise = self.problem.noise(changed)
                worth = saves / max(float((noise - now).max()), self.target * 1e-3)
                if noise.max() <= room and (found is None or worth > found[0]):
                    found = worth, changed
        return found[1] if found else None
