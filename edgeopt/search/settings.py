"""What the user asks of a search: its options, for the command line, Python and the app."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec

from edgeopt.errors import Named, UsageError
from edgeopt.options import DAY_S, argument, option

if TYPE_CHECKING:
    from edgeopt.data.given import Data
    from edgeopt.data.judging.goals import Goal
    from edgeopt.search.limits import Limits


class Settings(msgspec.Struct, frozen=True):
    """As it was asked for; `goal` and `limits` are what some of it comes to."""

    model: Annotated[Path, argument("The ONNX model; it is read and never changed.")]
    out: Annotated[Path, option("Where to write the bundle; an older one is replaced.", "-o", "--out")]
    data: Annotated[
        Path | None,
        option(
            "Samples: an .npz with one array per input, or a folder of .npy, or of pictures with a profile "
            "that says how to prepare them. 12 or more; half calibrate."
        ),
    ] = None
    floor: Annotated[
        str | None,
        option(
            "Accuracy floor: 30dB, or exact (80 dB), transparent (30 dB, the default), balanced (20 dB), "
            "aggressive (12 dB, beside a metric); or the least value of the metric, as in 99%."
        ),
    ] = None
    metric: Annotated[
        str | None,
        option(
            "What accuracy means, instead of the ratio in dB: cosine, max-error, top1, top5, top1-labels, "
            "or a function of yours, file.py:function(outputs, reference, labels)."
        ),
    ] = None
    max_drop: Annotated[
        str | None,
        option(
            "So much worse than the source the metric may be, as in 0.5%.", "--max-drop", "--max-accuracy-drop"
        ),
    ] = None
    labels: Annotated[
        str, option("The array of labels in the data, where it is not called label.", metavar="NAME")
    ] = ""
    objective: Annotated[
        str,
        option(
            "What is to be least: latency, p99, memory, size, first-answer, energy; of those but latency, "
            "without being slower. Or most: throughput, over callers at once and batches."
        ),
    ] = "latency"
    shape: Annotated[
        tuple[str, ...],
        option(
            "Sizes that an open dimension will have: least:usual:largest as in seq=16:32:128, or a list as "
            "in batch=1,4,8. A program for each may be prepared at loading. Repeatable.",
            metavar="NAME=SIZES",
        ),
    ] = ()
    max_memory_mib: Annotated[float | None, option("What the process may take at its peak.")] = None
    max_size_mib: Annotated[float | None, option("What the model's files may take.")] = None
    max_latency_ms: Annotated[
        float | None, option("What a run may take; for another objective also slower than now.")
    ] = None
    baseline: Annotated[
        Path | None,
        option(
            "What runs today, a bundle, an ONNX model or an OpenVINO .xml: the winner must be faster than "
            "that, or it is kept."
        ),
    ] = None
    target_speedup: Annotated[
        float | None, option("End as soon as something is surely so many times as fast.")
    ] = None
    time_limit_s: Annotated[
        float | None, option("Seconds for the search (default 60, more above 10 MB).", least=1, most=DAY_S)
    ] = None
    target: Annotated[str | None, option("A target by name instead of the one that fits best.")] = None
    profile: Annotated[
        Path | None,
        option("A profile: a file of your own (TOML), or the name of a shipped one, such as realtime."),
    ] = None
    pre: Annotated[
        Path | None,
        option(
            "What the bundle does before the model: an ONNX file, or a TOML file with a [data] table for "
            "pictures. Not part of what is measured as inference."
        ),
    ] = None
    post: Annotated[
        Path | None,
        option("And after it: an ONNX file, or a TOML file with [[steps]]: softmax, argmax, top-k, ..."),
    ] = None
    single_file: Annotated[bool, option("Write the bundle as one file instead of a folder.")] = False
    pick: Annotated[
        str,
        option(
            "Deliver this candidate of the same search, done before, instead of its winner: its number in "
            "the table, or its name in the record.",
            metavar="NUMBER",
        ),
    ] = ""
    fresh: Annotated[
        bool,
        option(
            "Take nothing from the cache, or go on from what an earlier search left there (the default).",
            "--fresh/--resume",
        ),
    ] = False

    @property
    def goal(self) -> "Goal":
        """What accuracy must be; UsageError for what says none."""
        from edgeopt.data.judging.goals import goal_from

        return goal_from(self.metric, self.floor, self.max_drop)

    @property
    def limits(self) -> "Limits":
        """UsageError for what nothing can keep to."""
        from edgeopt.search.limits import limits_from

        return limits_from(self.max_memory_mib, self.max_size_mib, self.max_latency_ms)


class Wishes(TypedDict, total=False):
    """The same as `edgeopt.optimize` takes them; a test holds the two together."""

    data: "Data | None"
    floor: str | float | None
    metric: str | None
    max_drop: str | float | None
    labels: str
    objective: str
    shape: Sequence[str]
    max_memory_mib: float | None
    max_size_mib: float | None
    max_latency_ms: float | None
    baseline: str | Path | None
    target_speedup: float | None
    time_limit_s: float | None
    target: str | None
    profile: str | Path | None
    pre: str | Path | None
    post: str | Path | None
    single_file: bool
    pick: str
    fresh: bool


def check(settings: Settings) -> None:
    """Raises UsageError for what is wrong by itself, before anything is read."""
    from edgeopt.search.objectives import objective_named

    _ = settings.goal, settings.limits
    objective_named(settings.objective)
    checked_target(settings.target_speedup)


# Megabytes from, to, and seconds for each: two minutes at 30 MB, four at 90.
_LARGER = ((10.0, 30.0, 3.0), (30.0, 90.0, 2.0), (90.0, math.inf, 1.0))


def inputs_of(settings: Settings) -> list[Path]:
    """The files that a search reads, so that its bundle must not take their place; but that of a bundle it may."""
    given = [settings.model, settings.data, settings.pre, settings.post, settings.baseline]
    return [path for path in given if path is not None and path.resolve() != settings.out.resolve()]


def time_limit_for(size_bytes: int, small_s: float = 60.0) -> float:
    """The target's own limit for models up to 10 MB, and more for each further megabyte, up to ten minutes."""
    size_mb = size_bytes / 1e6
    further_s = sum(per_mb * max(0.0, min(size_mb, most) - least) for least, most, per_mb in _LARGER)
    return min(small_s + further_s, max(small_s, 600.0))


def checked_target(speedup: float | None) -> float | None:
    """How many times as fast is enough; UsageError for what is no gain."""
    if speedup is not None and not speedup > 1:
        example = Named("target_speedup", "2")
        raise UsageError(
            f"{speedup:g} times as fast is no gain.", f"Give more than 1, as in {example}.", [example]
        )
    return speedup
