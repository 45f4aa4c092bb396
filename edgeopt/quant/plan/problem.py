"""What there is to choose from: for each layer its forms, with what each saves and costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.quant.records import FLOAT, Gain, Layer, Sensitivity

Choices = Mapping[str, str]
"""Layer, form; layers that are not in it stay float."""

# What a product takes where no backend was timed: only the proportions between layers count then.
_NOMINAL_MACS_PER_MS = 5e7
_NOMINAL_SPEEDUP = 2.0
# Instead of infinite noise, from which nothing can be subtracted.
_WORST = 1e20


class Border(msgspec.Struct, frozen=True):
    """Two layers between which a tensor flows; where only one of them is float, it must be converted."""

    first: str
    second: str
    cost_ms: float


@dataclass(frozen=True, slots=True)
class Option:
    """One form that a layer may take."""

    layer: int
    form: str
    saves_ms: float
    noise: Array
    """At each output of the model, relative to the signal there."""


@dataclass(frozen=True, slots=True)
class Problem:
    layers: tuple[str, ...]
    options: tuple[tuple[Option, ...], ...]
    """For each layer."""
    borders: tuple[tuple[int, int, float], ...]
    base: Array
    """The noise at each output that is there without any form."""

    def saved_ms(self, choices: Choices) -> float:
        """What the layers save, less the conversions between them and their float neighbours."""
        chosen = self.chosen(choices)
        lost = sum(cost for a, b, cost in self.borders if (a in chosen) != (b in chosen))
        return sum(option.saves_ms for option in chosen.values()) - lost

    def noise(self, choices: Choices) -> Array:
        """At each output; noise of different layers adds up as powers do."""
        return self.base + sum(
            (option.noise for option in self.chosen(choices).values()), np.zeros_like(self.base)
        )

    def worst(self, choices: Choices) -> float:
        return float(self.noise(choices).max(initial=0.0))

    def chosen(self, choices: Choices) -> dict[int, Option]:
        return {
            place: option
            for place, name in enumerate(self.layers)
            if name in choices
            for option in self.options[place]
            if option.form == choices[name]
        }


def problem_from(
    layers: Sequence[Layer],
    sensitivities: Sequence[Sensitivity],
    gains: Sequence[Gain],
    borders: Sequence[Border] = (),
    base: Sequence[float] = (),
) -> Problem:
    """A form whose time is not known is no option, unless none at all is known: then products are counted."""
    gained = {(gain.layer, gain.form): gain.saves_ms for gain in gains or nominal_gains(layers, sensitivities)}
    outputs = max((len(each.noise) for each in sensitivities), default=len(base))
    at_rest = np.zeros(outputs) + (np.asarray(base, np.float64) if len(base) else 0.0)
    able = [layer.name for layer in layers if not layer.reason]
    place = {name: k for k, name in enumerate(able)}
    options: list[list[Option]] = [[] for _ in able]
    for each in sensitivities:
        pair = each.layer, each.form
        if each.layer in place and pair in gained and each.form != FLOAT:
            noise = np.nan_to_num(np.asarray(each.noise, np.float64), nan=_WORST, posinf=_WORST)
            options[place[each.layer]].append(Option(place[each.layer], each.form, gained[pair], noise))
    known = [
        b for b in borders if b.first in place and b.second in place and b.first != b.second and b.cost_ms > 0
    ]
    return Problem(
        tuple(able),
        tuple(tuple(some) for some in options),
        tuple((place[b.first], place[b.second], b.cost_ms) for b in known),
        at_rest,
    )


def nominal_gains(layers: Sequence[Layer], sensitivities: Sequence[Sensitivity]) -> tuple[Gain, ...]:
    """In proportion to what is multiplied, as if any form were twice as fast."""
    times = {layer.name: max(layer.multiply_adds, layer.parameters) / _NOMINAL_MACS_PER_MS for layer in layers}
    return tuple(
        Gain(each.layer, each.form, times[each.layer], times[each.layer] / _NOMINAL_SPEEDUP, basis="estimated")
        for each in sensitivities
        if each.layer in times
    )


def decibels(noise: float) -> float:
    """Of a ratio of noise to signal."""
    if noise <= 0:
        return EQUAL_DB
    return max(-EQUAL_DB, min(EQUAL_DB, -10 * math.log10(noise))) if math.isfinite(noise) else -EQUAL_DB


def noise_at(ratio_db: float) -> float:
    return float(10 ** (-ratio_db / 10))
