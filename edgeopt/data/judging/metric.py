"""What a metric is: one way to say how good a result is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from numpy.typing import NDArray

from edgeopt.graph.accuracy import Array
from edgeopt.graph.levels import LevelAccuracy
from edgeopt.graph.weak_samples import Tail


class OutputValue(msgspec.Struct, frozen=True):
    """One output over all samples."""

    name: str
    value: float
    low: float


class Judged(msgspec.Struct, frozen=True):
    """A metric's value over all samples, as the worst output has it."""

    metric: str
    value: float
    """Infinitely bad where the outputs cannot be compared."""
    low: float
    """What it may be on other samples, at 95 %: below `value`, or above it where less is better."""
    samples: int
    smaller_is_better: bool = False
    outputs: tuple[OutputValue, ...] = ()
    """Empty where the metric takes all outputs together."""
    mean: float | None = None
    """Over the outputs, where there are several."""
    source: float | None = None
    """The source model's own value, of metrics that give it one."""
    drop: float | None = None
    """How much worse than the source's; negative where it is better."""
    drop_high: float | None = None
    """What that may be on other samples, at 95 %."""
    snr_db: float | None = None
    """Of the same outputs, whatever the metric; of samples of several levels, on the level where it is lowest."""
    low_db: float | None = None
    weakest: LevelAccuracy | None = None
    """Of samples of several levels, that which decides."""
    pooled_low_db: float | None = None
    """What `low_db` would be over all samples together."""
    tail: Tail | None = None
    """Of single samples; None where no sample differs."""
    problem: str = ""
    """Why the outputs cannot be compared, as a sentence."""


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
