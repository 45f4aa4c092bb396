"""The choices that save the most time within a budget of noise.

Where noise has a price (in milliseconds), the best choice is a minimum cut; over all prices these are the corners
of the frontier. Between two corners, layers are added and exchanged one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.plan.cut import best_side
from edgeopt.quant.plan.problem import Choices, Option, Problem

_MOST_CORNERS = 400
# Corners closer than this share of all that can be saved are not told apart; single layers fill what lies between.
_FINEST = 0.005
_MOST_STEPS = 200
_MOST_PAIRED = 1000
# How often the weights of the outputs change, if several must stay inside the budget.
_WEIGHINGS = 3
# From how many corners on each side of a budget its choices are sought.
_STARTS = 3
_ROUNDING_MS = 1e-9


_Priced = tuple[float, float, Choices]
"""Milliseconds saved, and noise in one figure."""


@dataclass(frozen=True, slots=True)
class Corner:
    choices: dict[str, str]
    saved_ms: float
    worst: float
    """The noise at the worst output."""


def corners(problem: Problem, weights: Array | None = None) -> tuple[Corner, ...]:
    """Best choices for every price of noise: from those that cost none to those that save the most.

    `weights` says how much the noise of each output counts; they count alike unless told.
    """
    weights = np.ones_like(problem.base) if weights is None else weights
    costs = [[float(np.dot(weights, option.noise)) for option in some] for some in problem.options]
    found: dict[frozenset[tuple[str, str]], _Priced] = {frozenset(): (0.0, 0.0, {})}

    def at(price: float) -> _Priced:
        best = [_best(some, cost, price) for some, cost in zip(problem.options, costs, strict=True)]
        side = best_side([value for value, _ in best], problem.borders)
        choices = {problem.layers[k]: option.form for k, (_, option) in enumerate(best) if option and k in side}
        noise = sum(
            costs[k][place]
            for k in side
            for place, option in enumerate(problem.options[k])
            if option.form == choices.get(problem.layers[k])
        )
        point = problem.saved_ms(choices), noise, choices
        found.setdefault(frozenset(choices.items()), point)
        return point

    most = at(0.0)
    finest_ms = max(_FINEST * most[0], _ROUNDING_MS)
    waiting: list[tuple[_Priced, _Priced]] = [((0.0, 0.0, {}), most)]
    while waiting and len(found) < _MOST_CORNERS:
        left, right = waiting.pop()
        more_ms, more_noise = right[0] - left[0], right[1] - left[1]
        if more_ms <= finest_ms or more_noise <= 0:
            continue
        price = more_ms / more_noise
        middle = at(price)
        if middle[0] - price * middle[1] > left[0] - price * left[1] + _ROUNDING_MS:
            waiting += [(left, middle), (middle, right)]
    points = [Corner(dict(c), ms, problem.worst(c)) for ms, _, c in found.values()]
    return tuple(sorted(points, key=lambda corner: (corner.saved_ms, -corner.worst)))


def _best(some: Sequence[Option], costs: Sequence[float], price: float) -> tuple[float, Option | None]:
    """The form of a layer that is worth the most at a price, and how much."""
    worth = [option.saves_ms - price * cost for option, cost in zip(some, costs, strict=True)]
    if not worth:
        return -np.inf, None
    place = max(range(len(worth)), key=lambda k: (worth[k], -costs[k]))
    return worth[place], some[place]


class Solver:
    """Finds the best choices for one budget after another."""

    def __init__(self, problem: Problem, near: float) -> None:
        """`near`: the budget for which it should know best how much each output counts."""
        self.problem = problem
        self._known: dict[float, dict[str, str]] = {}
        weights = np.ones_like(problem.base)
        self.corners = corners(problem, weights)
        for _ in range(_WEIGHINGS if len(problem.base) > 1 else 0):
            noise = problem.noise(self._start(max(near, problem.worst({}))).choices)
            if noise.max() <= 0:
                break
            weights = weights * (0.05 + noise / noise.max())
            weights = weights / weights.mean()
            known = {frozenset(c.choices.items()): c for c in (*self.corners, *corners(problem, weights))}
            self.corners = tuple(sorted(known.values(), key=lambda corner: (corner.saved_ms, -corner.worst)))

    def within(self, budget: float) -> dict[str, str]:
        """The choices that save the most with no output's noise above the budget."""
        if budget not in self._known:
            tried = [improved(self.problem, start, budget) for start in self._starts(budget)]
            self._known[budget] = max(tried, key=self.problem.saved_ms)
        return dict(self._known[budget])

    def _starts(self, budget: float) -> list[dict[str, str]]:
        """The corners on either side of the budget; those beyond it give back what brings them inside."""
        inside = [corner.choices for corner in self.corners if corner.worst <= budget]
        beyond = [corner.choices for corner in self.corners if corner.worst > budget]
        repaired = [repair(self.problem, choices, budget) for choices in beyond[:_STARTS]]
        return [{}, *inside[-_STARTS:], *repaired]

    def _start(self, budget: float) -> Corner:
        return max(
            (corner for corner in self.corners if corner.worst <= budget), key=lambda corner: corner.saved_ms
        )


def repair(problem: Problem, choices: Choices, budget: float) -> dict[str, str]:
    """Gives back layers or takes finer forms, the most noise for the least time first, until all is within."""
    current = dict(choices)
    while current and problem.worst(current) > max(budget, problem.worst({})):
        moves, saves, noise = moves_from(problem, current)
        now = problem.noise(current)
        over = np.maximum(now - budget, 0.0).sum()
        relief = over - np.maximum(now + noise - budget, 0.0).sum(axis=1)
        worth = np.where(relief > over * 1e-9, relief / np.maximum(-saves, _ROUNDING_MS), -np.inf)
        if worth.max() < 0:
            return {}
        layer, form = moves[int(np.argmax(worth))]
        del current[layer]
        if form is not None:
            current[layer] = form
    return current


def improved(problem: Problem, choices: Choices, budget: float) -> dict[str, str]:
    """Better choices by changing one layer or two at a time, as long as that saves more."""
    current = dict(choices)
    for _ in range(_MOST_STEPS):
        step = _best_step(problem, current, budget)
        if step is None:
            break
        for layer, form in step:
            current.pop(layer, None)
            if form is not None:
                current[layer] = form
    return current


Move = tuple[str, str | None]


def _best_step(problem: Problem, choices: Choices, budget: float) -> list[Move] | None:
    moves, saves, noise = moves_from(problem, choices)
    if not moves:
        return None
    room = budget - problem.noise(choices)
    fits = (noise <= room).all(axis=1) & (saves > _ROUNDING_MS)
    if fits.any():
        return [moves[int(np.argmax(np.where(fits, saves, -np.inf)))]]
    # Two moves: one makes room for the other.
    if len(moves) > _MOST_PAIRED:
        kept = np.argsort(-np.abs(saves), kind="stable")[:_MOST_PAIRED]
        moves, saves, noise = [moves[k] for k in kept], saves[kept], noise[kept]
    both_fit = np.ones((len(moves), len(moves)), np.bool_)
    for output in range(noise.shape[1]):
        both_fit &= noise[:, None, output] + noise[None, :, output] <= room[output]
    owner = np.array([problem.layers.index(layer) for layer, _ in moves])
    both_fit &= owner[:, None] != owner[None, :]
    bonus = _bonus(problem, choices, moves, owner)
    together = np.where(both_fit, saves[:, None] + saves[None, :] + bonus, -np.inf)
    first, second = np.unravel_index(int(np.argmax(together)), together.shape)
    if together[first, second] <= _ROUNDING_MS:
        return None
    return [moves[first], moves[second]]


def moves_from(problem: Problem, choices: Choices) -> tuple[list[Move], Array, Array]:
    """Every change of one layer, what it saves and what noise it adds."""
    now = problem.chosen(choices)
    beside: dict[int, list[tuple[int, float]]] = {}
    for a, b, cost in problem.borders:
        beside.setdefault(a, []).append((b, cost))
        beside.setdefault(b, []).append((a, cost))
    moves: list[Move] = []
    saves: list[float] = []
    noise: list[Array] = []
    none = np.zeros_like(problem.base)
    for place, name in enumerate(problem.layers):
        old = now.get(place)
        flipped = sum(
            cost if (other in now) == (old is not None) else -cost for other, cost in beside.get(place, ())
        )
        for new in (*problem.options[place], None):
            if new is old:
                continue
            border = flipped if (new is None) != (old is None) else 0.0
            moves.append((name, None if new is None else new.form))
            saves.append((new.saves_ms if new else 0.0) - (old.saves_ms if old else 0.0) - border)
            noise.append((new.noise if new else none) - (old.noise if old else none))
    return moves, np.array(saves), np.array(noise)


def _bonus(problem: Problem, choices: Choices, moves: list[Move], owner: Array) -> Array:
    """What two moves save together beyond what each saves alone: the border between them, counted right."""
    bonus = np.zeros((len(moves), len(moves)))
    for a, b, cost in problem.borders:
        ours, theirs = np.flatnonzero(owner == a), np.flatnonzero(owner == b)
        for i in ours:
            for j in theirs:
                flips_a = (moves[i][1] is None) != (problem.layers[a] not in choices)
                flips_b = (moves[j][1] is None) != (problem.layers[b] not in choices)
                if flips_a and flips_b:
                    apart = (problem.layers[a] in choices) != (problem.layers[b] in choices)
                    bonus[i, j] += 2 * cost if not apart else -2 * cost
                    bonus[j, i] = bonus[i, j]
    return bonus
