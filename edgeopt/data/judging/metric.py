"""A metric: one way to say how good a result is; and metrics of the user, which are Python functions."""

import importlib
import importlib.util
import inspect
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.data.judging.intervals import (
    paired_changes,
    paired_drop_interval,
    resampled_interval,
    share_interval,
    unseen_share,
)
from edgeopt.errors import InputError, UsageError, error_text
from edgeopt.events import TokenFigures
from edgeopt.graph.accuracy import SEED, Array, compare_outputs
from edgeopt.graph.levels import LevelAccuracy, Tail

HOW = (
    "It is called as function(outputs, reference, labels): arrays by output name, samples along the first axis, "
    "and labels or None. It returns a number, or one for each sample; more is better, "
    "unless the function has the attribute smaller_is_better = True."
)
MAX_COUNTED = 5000
"""Maximum number of samples that prove by counted answers."""
_MAX_RESAMPLES = 1000
_FEWEST_RESAMPLES = 20
_RESAMPLE_S = 1.0


class OutputValue(msgspec.Struct, frozen=True):
    """One output over all samples."""

    name: str
    value: float
    low: float
    high: float | None = None


class TokenAgreement(msgspec.Struct, frozen=True):
    """Agreement of a decoder's most likely tokens with the source's, and its worst text."""

    top1: float
    """Share of positions where both have the same most likely token."""
    top1_low: float
    top1_high: float
    """The 95 % interval of the share on other texts, by resampling texts."""
    positions: int
    worst_kl: float
    """Largest mean divergence of a text, in nats."""
    worst_sample: int
    """Place of that text among the judged samples."""

    @property
    def words(self) -> str:
        return (
            f", top-1 agreement {100 * self.top1:.4g} % [{100 * self.top1_low:.3g} {100 * self.top1_high:.3g}] on "
            f"{self.positions:,} positions, worst text {self.worst_kl:.3g} (sample {self.worst_sample + 1})"
        )


class Judged(msgspec.Struct, frozen=True):
    """A metric's value over all samples, for the worst output."""

    metric: str
    value: float
    """The value; infinitely bad if the outputs cannot be compared."""
    low: float
    """The 95 % bound of the value on other samples: below `value`, or above it if less is better."""
    samples: int
    smaller_is_better: bool = False
    outputs: tuple[OutputValue, ...] = ()
    """Values by output; empty if the metric takes all outputs together."""
    mean: float | None = None
    """Mean over the outputs, if there are several."""
    source: float | None = None
    """The source model's own value, for metrics with one."""
    drop: float | None = None
    """Loss against the source's value; negative for a gain."""
    drop_low: float | None = None
    drop_high: float | None = None
    """The 95 % interval of the drop on other samples, from a paired comparison."""
    changes: tuple[float, float] | None = None
    """Sums of the samples' losses and gains against the source, with values from 0 to 1."""
    high: float | None = None
    """Other end of the 95 % interval that begins with `low`; None if answers are not counted."""
    snr_db: float | None = None
    """Ratio in dB of the same outputs, whatever the metric; with several levels, that of the lowest."""
    low_db: float | None = None
    weakest: LevelAccuracy | None = None
    """Result on the level that decides, if samples have several levels."""
    pooled_low_db: float | None = None
    """The value of `low_db` over all samples together."""
    tail: Tail | None = None
    """The samples with the lowest ratios; None if no sample differs."""
    problem: str = ""
    """The reason, as a sentence, if the outputs cannot be compared; otherwise empty."""
    tokens: TokenAgreement | None = None
    """Agreement of the tokens, for the divergence `kl`."""

    @property
    def token_figures(self) -> TokenFigures | None:
        """Returns the divergence with the agreement of the tokens; None for other metrics."""
        found = self.tokens
        if found is None or self.high is None:
            return None
        return TokenFigures(self.value, self.high, self.low, found.top1, found.top1_low, found.top1_high)


Outputs = Sequence[Mapping[str, Array]]
"""Outputs by name, for each sample."""
Labels = NDArray[Any]


@dataclass(frozen=True, slots=True)
class AccuracyMetric:
    """A measure of a result's quality; `judge` takes its outputs, the source's, and the labels."""

    name: str
    title: str
    judge: Callable[[Outputs, Outputs, Labels | None], Judged]
    smaller_is_better: bool = False
    needs_labels: bool = False
    has_source: bool = False
    """Whether the source model has a value of its own, which gives a drop."""
    decided_by_low: bool = True
    """Whether candidates are chosen by the bound that resampling gives, or by the value. A bound for counted
    answers needs hundreds of samples to come near the value."""
    is_counted: bool = False
    """Whether the value is a mean over samples whose interval must reach the goal before a result is proved."""
    unit: str = ""
    """`dB`, or `%` where values are shares of 1."""
    range: tuple[float, float] = (0.0, 1.0)
    """Range of meaningful floors."""
    most_samples: int = 256
    """Number of samples above which more prove little."""


Function = Callable[..., Any]


@lru_cache
def user_metric(name: str) -> AccuracyMetric:
    """Returns the metric of `module:function` or `file.py:function`; raises UsageError if there is none."""
    place, _, called = name.rpartition(":")
    module = _file(place, name) if place.endswith(".py") else _module(place, name)
    function = getattr(module, called, None)
    if not callable(function):
        raise UsageError(f"There is no function '{called}' in '{place}'.", HOW)
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError as error:
        raise UsageError(
            f"The metric '{name}' does not take (outputs, reference, labels): {error}.", HOW
        ) from error
    except ValueError:
        pass  # of a function in C nothing is known before it is called
    smaller = bool(getattr(function, "smaller_is_better", False))

    def judge(got: Outputs, reference: Outputs, labels: Labels | None) -> Judged:
        return _judged(name, function, smaller, got, reference, labels)

    return AccuracyMetric(
        name,
        called,
        judge,
        smaller_is_better=smaller,
        has_source=True,
        decided_by_low=False,
        is_counted=True,
        range=(-math.inf, math.inf),
        most_samples=MAX_COUNTED,
    )


def stacked(runs: Outputs) -> dict[str, Any]:
    """Stacks the outputs of all samples as if they were one run; a list if the samples' shapes differ.

    A batch axis of 1 becomes the axis of the samples; outputs without one get it.
    """
    return {name: _stacked([run[name] for run in runs]) for name in runs[0]}


def _stacked(values: list[Array]) -> Array | list[Array]:
    if not all(isinstance(value, np.ndarray) for value in values) or len({value.shape for value in values}) > 1:
        return values
    return np.concatenate(values) if values[0].ndim and values[0].shape[0] == 1 else np.stack(values)


def _judged(
    name: str, function: Function, smaller: bool, got: Outputs, reference: Outputs, labels: Labels | None
) -> Judged:
    problem = compare_outputs(reference, got).problem
    if problem:
        bad = math.inf if smaller else -math.inf
        return Judged(name, bad, bad, len(got), smaller, problem=problem)

    def called(places: list[int], side: Outputs) -> Array:
        chosen = None if labels is None else labels[places]
        return _called(name, function, [side[k] for k in places], [reference[k] for k in places], chosen)

    every = list(range(len(got)))
    begin = time.perf_counter()
    after, before = called(every, got), called(every, reference)
    seconds = (time.perf_counter() - begin) / 2
    value, source = float(after.mean()), float(before.mean())
    sign = -1.0 if smaller else 1.0
    drop = sign * (source - value)
    changes: tuple[float, float] | None = None
    high: float | None
    drop_low: float | None
    drop_high: float | None
    if after.size > 1 and all((side >= 0).all() and (side <= 1).all() for side in (before, after)):
        changes = paired_changes(before, after) if not smaller else paired_changes(after, before)
        low, high = share_interval(after)
        drop_low, drop_high = paired_drop_interval(*changes, len(got))
    else:
        draws = np.random.default_rng(SEED).integers(0, len(got), (_MAX_RESAMPLES, len(got)))
        if after.size > 1:
            values, drops = after[draws].mean(axis=1), sign * (before - after)[draws].mean(axis=1)
        else:
            count = min(_MAX_RESAMPLES, int(_RESAMPLE_S / 2 / max(seconds, 1e-6)))
            draws = draws[: count if count >= _FEWEST_RESAMPLES else 0]
            values = np.array([called(list(d), got).mean() for d in draws] or [value])
            drops = sign * (np.array([called(list(d), reference).mean() for d in draws] or [source]) - values)
        if len(values) == 1:  # too slow to be resampled
            low, high, drop_low, drop_high = value, None, None, None
        else:
            unseen = unseen_share(len(got)) * max(1e-9, abs(value), abs(source))
            low, high = resampled_interval(values, value, unseen)
            drop_low, drop_high = resampled_interval(drops, drop, unseen)
    if smaller and high is not None:
        low, high = high, low
    return Judged(
        *(name, value, low, len(got), smaller),
        high=high,
        source=source,
        drop=drop,
        drop_low=drop_low,
        drop_high=drop_high,
        changes=changes,
    )


def _called(name: str, function: Function, got: Outputs, reference: Outputs, labels: Labels | None) -> Array:
    """Returns the function's value, or one for each sample; raises InputError for any other result."""
    try:
        answer = function(stacked(got), stacked(reference), labels)
    except Exception as error:
        raise InputError(
            f"The metric '{name}' failed{_line(error)}: {type(error).__name__}: {error_text(error)}.", HOW
        ) from error
    try:
        if answer is None:
            raise TypeError
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"The metric '{name}' returned {type(answer).__name__}, not a number.", HOW) from None
    if values.size != 1 and values.shape != (len(got),):
        raise InputError(
            f"The metric '{name}' returned an array of shape {list(values.shape)} for {len(got)} samples.", HOW
        )
    if not np.isfinite(values).all():
        raise InputError(f"The metric '{name}' returned NaN or infinity.", "Let it return a number always.")
    return values.reshape(-1)


def _line(error: Exception) -> str:
    """Returns the line and file of an error in the user's own code, as text; empty if there is none."""
    trace = error.__traceback__
    places = []
    while trace is not None:
        places.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    own = [(file, line) for file, line in places if file != __file__ and "importlib" not in file]
    return f" in line {own[0][1]} of {Path(own[0][0]).name}" if own else ""


def _file(place: str, name: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"The file '{place}' of the metric '{name}' does not exist.", HOW)
    spec = importlib.util.spec_from_file_location(f"edgeopt_metric_{path.stem}", path)
    assert spec is not None  # noqa: S101 - a name that ends with .py has one
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    with _problems(name), _path(path.absolute().parent):
        spec.loader.exec_module(module)
    return module


def _module(place: str, name: str) -> ModuleType:
    """Imports a module from where `python -m` finds it, which includes the working directory."""
    if not all(part.isidentifier() for part in place.split(".")):
        raise UsageError(f"'{place}' of the metric '{name}' is not a Python module.", HOW)
    with _problems(name), _path(Path.cwd()):
        return importlib.import_module(place)


@contextmanager
def _problems(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"The metric '{name}' cannot be imported: {error_text(error)}.", HOW) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error_text(error)}"
        raise InputError(f"The file of the metric '{name}' failed{_line(error)}: {reason}.", HOW) from error


@contextmanager
def _path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
