"""What the user asks of a search."""

from pathlib import Path

import msgspec

from edgeopt.errors import UsageError
from edgeopt.judging.goals import Goal
from edgeopt.search.limits import Limits
from edgeopt.search.objectives import LATENCY

_LONGEST_S = 86_400.0


class Settings(msgspec.Struct, frozen=True):
    model: Path
    out: Path
    data: Path | None = None
    goal: Goal = Goal()
    labels: str = ""
    """The array of labels in the data, where it is not called so."""
    objective: str = LATENCY
    shape: tuple[str, ...] = ()
    """The sizes that open dimensions will have, as written."""
    limits: Limits = Limits()
    baseline: Path | None = None
    """What runs today, a bundle or a model: the winner must be faster than that too."""
    target_speedup: float | None = None
    """The search ends as soon as a candidate is surely so many times as fast as the baseline."""
    time_limit_s: float | None = None
    target: str | None = None
    profile: Path | None = None
    pick: str = ""
    """A candidate of an earlier search, to be delivered instead of its winner."""
    fresh: bool = False
    """Nothing that earlier searches left in the cache is taken."""
    pre: Path | None = None
    """What the bundle is to do before the model: ONNX, or a file with a [data] table."""
    post: Path | None = None
    """And after it: ONNX, or a file with [[steps]]."""
    single_file: bool = False
    """The bundle becomes one file instead of a folder."""


def inputs_of(settings: Settings) -> list[Path]:
    """The files that a search reads, so that its bundle must not take their place; but that of a bundle it may."""
    given = [settings.model, settings.data, settings.pre, settings.post, settings.baseline]
    return [path for path in given if path is not None and path.resolve() != settings.out.resolve()]


def checked_limit(seconds: float | None) -> float | None:
    """The time limit as given; anything but a positive number of seconds up to a day is a UsageError."""
    if seconds is not None and not 0 < seconds <= _LONGEST_S:
        raise UsageError(f"{seconds} is no time limit.", "Give seconds, more than 0 and at most a day (86400).")
    return seconds


def time_limit_for(size_bytes: int, small_s: float = 60.0) -> float:
    """The target's own limit for small models, and a second more for each further megabyte, up to ten minutes."""
    return min(small_s + max(0.0, size_bytes / 1e6 - 10.0), max(small_s, 600.0))


def checked_target(speedup: float | None) -> float | None:
    """How many times as fast is enough; UsageError for what is no gain."""
    if speedup is not None and not speedup > 1:
        raise UsageError(f"{speedup:g} times as fast is no gain.", "Give more than 1, as in --target-speedup 2.")
    return speedup
