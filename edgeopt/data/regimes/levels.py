"""How loud the inputs of a sample are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.graph.levels import Level
from edgeopt.graph.masks import is_mask

FEWEST = 2
"""An input of a single number is a setting, and has no level."""
_LARGEST = float(np.finfo(np.float64).max)


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
    """The root of the mean square, of what is finite."""
    values = array.astype(np.float64).reshape(-1)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return min(float(np.sqrt(np.mean(np.square(values)))), _LARGEST) if values.size else 0.0


def levels_in(feeds: Mapping[str, Array]) -> Level:
    """Of the floating-point inputs of one run, in the order of their names; masks have none."""
    return tuple(
        level_of(array) if array.size >= FEWEST else 1.0
        for name, array in sorted(feeds.items())
        if array.dtype.kind == "f" and not is_mask(name, array.ndim)
    )
