"""The choices that save the most time within a noise budget: an integer linear program, solved by HiGHS."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.errors import MissingExtraError
from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.platform.files import flush_c_streams
from edgeopt.quant.records import FLOAT, Layer, LayerGain, Sensitivity

Choices = Mapping[str, str]
"""Schemes by layer; layers that are missing stay float."""

# A nominal rate for when no backend was timed: only the proportions between layers count then.
_NOMINAL_MACS_PER_MS = 5e7
_NOMINAL_SPEEDUP = 2.0
# A replacement for infinite noise, from which nothing can be subtracted.
_WORST = 1e20


class Border(msgspec.Struct, frozen=True):
    """Two layers connected by a tensor, which must be converted if only one of them is float."""

    first: str
    second: str
    cost_ms: float


@dataclass(frozen=True, slots=True)
class SchemeOption:
    """A scheme that a layer may have."""

    layer: int
    scheme: str
    saves_ms: float
    noise: Array
    """The noise at each output of the model, as a ratio to the signal."""


@dataclass(frozen=True, slots=True)
class Problem:
    layers: tuple[str, ...]
    options: tuple[tuple[SchemeOption, ...], ...]
    """The options of each layer, in the order of `layers`."""
    borders: tuple[tuple[int, int, float], ...]
    base: Array
    """The noise at each output with all layers in float."""

    def saved_ms(self, choices: Choices) -> float:
        """Returns the time saved by the layers, minus the conversions between them and their float neighbours."""
        chosen = self.chosen(choices)
        lost = sum(cost for a, b, cost in self.borders if (a in chosen) != (b in chosen))
        return sum(option.saves_ms for option in chosen.values()) - lost

    def noise(self, choices: Choices) -> Array:
        """Returns the noise power at each output, the sum over all layers and the base."""
        return self.base + sum(
            (option.noise for option in self.chosen(choices).values()), np.zeros_like(self.base)
        )

    def worst(self, choices: Choices) -> float:
        return float(self.noise(choices).max(initial=0.0))

    def chosen(self, choices: Choices) -> dict[int, SchemeOption]:
        return {
            place: option
            for place, name in enumerate(self.layers)
            if name in choices
            for option in self.options[place]
            if option.scheme == choices[name]
        }


def problem_from(
    layers: Sequence[Layer],
    sensitivities: Sequence[Sensitivity],
    gains: Sequence[LayerGain],
    borders: Sequence[Border] = (),
    base: Sequence[float] = (),
) -> Problem:
    """Builds the problem; schemes without a known time are excluded, unless no time is known at all."""
    gained = {(gain.layer, gain.scheme): gain.saves_ms for gain in gains or nominal_gains(layers, sensitivities)}
    outputs = max((len(each.noise) for each in sensitivities), default=len(base))
    at_rest = np.zeros(outputs) + (np.asarray(base, np.float64) if len(base) else 0.0)
    able = [layer.name for layer in layers if not layer.reason]
    place = {name: k for k, name in enumerate(able)}
    options: list[list[SchemeOption]] = [[] for _ in able]
    for each in sensitivities:
        pair = each.layer, each.scheme
        if each.layer in place and pair in gained and each.scheme != FLOAT:
            noise = np.nan_to_num(np.asarray(each.noise, np.float64), nan=_WORST, posinf=_WORST)
            options[place[each.layer]].append(SchemeOption(place[each.layer], each.scheme, gained[pair], noise))
    known = [
        b for b in borders if b.first in place and b.second in place and b.first != b.second and b.cost_ms > 0
    ]
    return Problem(
        tuple(able),
        tuple(tuple(some) for some in options),
        tuple((place[b.first], place[b.second], b.cost_ms) for b in known),
        at_rest,
    )


def nominal_gains(layers: Sequence[Layer], sensitivities: Sequence[Sensitivity]) -> tuple[LayerGain, ...]:
    """Returns gains in proportion to the multiply-adds, as if every scheme were twice as fast as float."""
    times = {layer.name: max(layer.multiply_adds, layer.parameters) / _NOMINAL_MACS_PER_MS for layer in layers}
    return tuple(
        LayerGain(
            each.layer, each.scheme, times[each.layer], times[each.layer] / _NOMINAL_SPEEDUP, basis="estimated"
        )
        for each in sensitivities
        if each.layer in times
    )


def decibels(noise: float) -> float:
    """Converts a ratio of noise to signal to a signal-to-noise ratio in dB, limited to ±EQUAL_DB."""
    if noise <= 0:
        return EQUAL_DB
    return max(-EQUAL_DB, min(EQUAL_DB, -10 * math.log10(noise))) if math.isfinite(noise) else -EQUAL_DB


def noise_at(ratio_db: float) -> float:
    return float(10 ** (-ratio_db / 10))


# A hard problem ends with the best choices found so far. The limit of nodes is reached before the time limit,
# because the same problem must get the same choices on a busy machine.
_MAX_NODES = 50
_LIMIT_S = 10.0
# A margin larger than the solver's tolerance, so that the choices keep the budget exactly.
_MARGIN = 1e-5
# The smallest saving that justifies a change, relative to the largest: equal choices resolve to the fewest and
# most exact.
_TIE = 1e-6


def solve(problem: Problem, budget: float, *, limit_s: float = _LIMIT_S) -> dict[str, str]:
    """Returns the choices that save the most time within the noise budget; none if float exceeds it."""
    try:
        from scipy import sparse
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ModuleNotFoundError:
        raise MissingExtraError("optimize", "Planning precisions") from None

    room = budget * (1 - _MARGIN) - problem.base
    options = [each for some in problem.options for each in some if (each.noise <= room).all()]
    saves = np.array([option.saves_ms for option in options])
    largest = np.abs(saves).max(initial=0.0)
    if not largest or (room < 0).any():
        return {}
    layers, borders, many = len(problem.layers), len(problem.borders), len(options)
    # A variable for each option, and one for each border: whether only one of its layers changes.
    owners = [option.layer for option in options]
    changes = sparse.coo_array((np.ones(many), (owners, range(many))), shape=(layers, many))
    ends = [end for a, b, _ in problem.borders for end in (a, b)]
    signs = np.tile([1.0, -1.0], borders)
    differs = sparse.coo_array((signs, (np.repeat(range(borders), 2), ends)), shape=(borders, layers)) @ changes
    apart = sparse.eye_array(borders)
    noise = np.array([option.noise for option in options])
    shares = np.divide(noise, room, out=np.zeros_like(noise), where=noise > 0)
    rows = [[changes, None], [differs, -apart], [-differs, -apart], [sparse.coo_array(shares.T), None]]
    limits = np.repeat([1.0, 0.0, 1.0], [layers, 2 * borders, len(room)])
    ties = _TIE * (1 + shares.max(axis=1, initial=0.0))
    with _silent_stdout():
        found = milp(
            [*(ties - saves / largest), *(cost / largest for *_, cost in problem.borders)],
            integrality=1,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(sparse.block_array(rows), ub=limits),
            # These problems are small: presolve takes longer than it saves.
            options={"presolve": False, "mip_rel_gap": 0.0, "node_limit": _MAX_NODES, "time_limit": limit_s},
        )
    taken = [] if found.x is None else found.x[:many] > 0.5
    return {problem.layers[each.layer]: each.scheme for each, yes in zip(options, taken, strict=False) if yes}


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """Silences stdout, which may be for JSON: HiGHS prints a line for each solution that it repairs."""
    flush_c_streams()
    stdout, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        flush_c_streams()
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(nowhere)
