"""What a metric says of a set of outputs."""

import msgspec

from edgeopt.graph.levels import LevelAccuracy, Tail


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
