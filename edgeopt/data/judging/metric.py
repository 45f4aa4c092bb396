"""What a metric is: one way to say how good a result is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from edgeopt.data.judging.judged import Judged
from edgeopt.graph.accuracy import Array

Outputs = Sequence[Mapping[str, Array]]
"""By name, of each sample."""
Labels = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Metric:
    """One way to say how good a result is; `judge` takes its outputs, the source's, and the labels."""

    name: str
    title: str
    judge: Callable[[Outputs, Outputs, Labels | None], Judged]
    smaller_is_better: bool = False
    needs_labels: bool = False
    has_source: bool = False
    """It gives the source model a value of its own, so that a drop can be said."""
    decided_by_low: bool = True
    """Whether the bound that resampling gives must reach the goal, or the value. A bound for counted answers needs
    hundreds of samples to come near the value."""
    unit: str = ""
    """`dB`, or `%` where values are shares of 1."""
    range: tuple[float, float] = (0.0, 1.0)
    """What floors make sense."""
    most_samples: int = 16
    """More samples than this prove little more."""
