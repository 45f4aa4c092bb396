"""Levels (loudness) of samples, and whether the samples cover more than one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.graph.levels import Level
from edgeopt.graph.masks import is_mask

FEWEST = 2
"""Least size of an input with a level; an input of a single number is a setting."""
_LARGEST = float(np.finfo(np.float64).max)
ALIKE = 2.0
"""Ratio of the loudest sample to the quietest, below which all samples count as one level."""
MAX_SAMPLES = 64


@dataclass(slots=True)
class Levels:
    """The levels of some samples, computed once, because every plan and candidate is judged by them."""

    samples: Samples
    _known: dict[int, Level] = field(default_factory=dict)

    def of(self, which: range) -> list[Level]:
        for place in which:
            if place not in self._known:
                self._known[place] = levels_in(self.samples.feeds(place))
        return [self._known[place] for place in which]


def level_of(array: Array) -> float:
    """Returns the root mean square of the finite values."""
    values = array.astype(np.float64).reshape(-1)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return min(float(np.sqrt(np.mean(np.square(values)))), _LARGEST) if values.size else 0.0


def levels_in(feeds: Mapping[str, Array]) -> Level:
    """Returns the levels of the floating-point inputs of one run, in the order of their names, without masks."""
    return tuple(
        level_of(array) if array.size >= FEWEST else 1.0
        for name, array in sorted(feeds.items())
        if array.dtype.kind == "f" and not is_mask(name, array.ndim)
    )


class Alike(msgspec.Struct, frozen=True):
    """A floating-point input whose samples all have about the same level (the root of the mean square)."""

    input_name: str
    lowest: float
    highest: float

    @property
    def warning(self) -> str:
        """The warning that the proof does not cover other levels of this input."""
        low, high = f"{self.lowest:.2g}", f"{self.highest:.2g}"
        level = f"at a level of {low}" if low == high else f"at levels from {low} to {high}"
        return (
            f"All samples of the input '{self.input_name}' are {level}: the proof does not cover inputs "
            "with much smaller or larger values. Add such samples if the model will receive them."
        )


def alike_inputs(samples: Samples) -> tuple[Alike, ...]:
    """Returns the floating-point inputs whose samples all have one level, without inputs of single numbers."""
    count = min(len(samples), MAX_SAMPLES)
    if count < FEWEST:
        return ()
    found = []
    for name, array in samples.arrays.items():
        if array.dtype.kind != "f" or array[0].size < FEWEST:
            continue
        levels = [level_of(samples.feeds(k)[name]) for k in range(count)]
        low, high = min(levels), max(levels)
        if 0 < high < ALIKE * low:
            found.append(Alike(name, low, high))
    return tuple(found)
