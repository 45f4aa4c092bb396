"""Whether batches give the results of single runs and are faster on this device; tried while a session loads."""

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.bundle.runtime.batching import Run, rows_of, run_together
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.graph.accuracy import signal_to_noise_db
from edgeopt.graph.rows.record import RowAnalysis

MIN_GAIN = 1.05
"""A batch of two must be this many times as fast as two single runs, or noise would decide."""
_WARM_ROUNDS, _FEWEST_ROUNDS, _MAX_ROUNDS = 2, 5, 30
_ENOUGH_S = 0.5
_TRIAL_SIZES = (1, 8, 32)
"""Tried for the other open dimensions of a model without samples: a kernel may need more than one."""
_FLOOR_DB = 40.0
"""Floor for models and bundles without their own: kernels round differently for other batch sizes."""
_ROUNDING = 1e-6
_MAX_SAMPLES, _MAX_ROTATIONS, _SHUFFLED = 4, 8, 2


@dataclass(frozen=True, slots=True)
class BatchTrial:
    """Whether requests are run in batches, with the reason."""

    used: bool
    reason: str


@dataclass(frozen=True, slots=True)
class BatchSubject:
    """Model to run in batches, and the floor for its rows."""

    run: Run
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    model: Path
    floor_db: float
    """Signal-to-noise ratio that each row of a batch must reach against its single run; 0: no floor."""
    rows: RowAnalysis | None = None
    """Finding on rows that the bundle records; None for plain models and older bundles, whose graph is read."""


def try_batches(subject: BatchSubject, samples: Sequence[Feeds], max_size: int) -> BatchTrial:
    """Whether batches are faster on this device; raises what `check_batching` raises."""
    found = check_batching(subject, samples, max_size)
    rows = rows_of(found)
    if rows * 2 > max_size:
        return BatchTrial(False, f"A sample has {rows} rows, so two do not fit a batch of {max_size}.")
    try:
        subject.run(_repeated(found, max_size // rows))
    except (EdgeoptError, MemoryError) as error:
        return BatchTrial(False, f"A batch of {max_size} failed: {error}")
    gain = _gain(subject.run, found)
    message = f"A batch of two is {gain:.2f} times as fast as two single runs"
    if gain < MIN_GAIN:
        return BatchTrial(False, f"{message}; at least {MIN_GAIN} times is required.")
    return BatchTrial(True, f"{message}.")


def check_batching(subject: BatchSubject, samples: Sequence[Feeds], max_size: int) -> Feeds:
    """Returns a sample that ran in a batch; raises UsageError where samples do not keep their own results.

    The graph of the model decides, where it can. Without an answer of it many batches are compared with single
    runs; with one, a few, because kernels have faults too. Samples are made up where there are none.
    """
    found: Feeds | str = _closed_axis(subject.inputs, subject.outputs)
    if not found:
        rows = subject.rows or _analyzed(subject.model)
        if rows.rows == "mixed":
            found = f"its rows affect each other ({rows.sentence})"
        else:
            found = _compared(subject, samples, max_size, thorough=rows.rows == "unknown")
    if isinstance(found, str):
        raise UsageError(
            f"The model cannot run samples in batches: {found}.",
            "Run them one by one, on the command line with --batch 1, or export the model so that no operator "
            "works across the first axis, which is open in all inputs and outputs.",
        )
    return found


def _analyzed(model: Path) -> RowAnalysis:
    from edgeopt.graph.rows.analysis import analyze_rows

    return analyze_rows(model)


def _gain(run: Run, one: Feeds) -> float:
    two = _repeated(one, 2)
    apart: list[float] = []
    together: list[float] = []
    begin = time.perf_counter()
    for number in range(_WARM_ROUNDS + _MAX_ROUNDS):
        start = time.perf_counter()
        run(one)
        run(one)
        middle = time.perf_counter()
        run(two)
        end = time.perf_counter()
        if number >= _WARM_ROUNDS:
            apart.append(middle - start)
            together.append(end - middle)
        if len(apart) >= _FEWEST_ROUNDS and end - begin > _ENOUGH_S:
            break
    return statistics.median(apart) / statistics.median(together)


def _repeated(feeds: Feeds, times: int) -> dict[str, Array]:
    return {name: np.concatenate([array] * times) for name, array in feeds.items()}


def _closed_axis(inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]) -> str:
    if not inputs:
        return "it has no inputs"
    for kind, infos in (("input", inputs), ("output", outputs)):
        for info in infos:
            if info.rank_known and (not info.shape or isinstance(info.shape[0], int)):
                return f"the {kind} '{info.name}' has no open first axis, its shape is {list(info.shape)}"
    return ""


def _compared(subject: BatchSubject, samples: Sequence[Feeds], max_size: int, *, thorough: bool) -> Feeds | str:
    """A sample whose rows of a batch are those of a single run; or why they are not."""
    failure = ""
    groups = [_alike_in_shape(samples)] if samples else [made_up(subject.inputs, each) for each in _TRIAL_SIZES]
    for group in groups:
        tried = group + [other for one in group for other in _variants(one)]
        rows = max(rows_of(group[0]), 1)
        try:
            alone = [subject.run(feeds) for feeds in group]
        except (EdgeoptError, MemoryError) as error:
            failure = _failure_text(error)
            continue
        # What is made of a sample may be outside of what the model takes.
        known = list(zip(group, alone, strict=True))
        for feeds in tried[len(group) :]:
            with contextlib.suppress(EdgeoptError, MemoryError):
                outputs = subject.run(feeds)
                if all(_finite(array) for array in outputs.values()):
                    known.append((feeds, outputs))
        for places in _batches(len(known), max(max_size // rows, 2), thorough):
            try:
                together = run_together(subject.run, [known[place][0] for place in places])
            except (EdgeoptError, MemoryError) as error:
                if len(places) > 2:  # how large a batch may be, `try_batches` says
                    continue
                failure = _failure_text(error)
                break
            if together is None:
                return "an output has a different number of rows than the inputs"
            wrong = _first_wrong([known[place][1] for place in places], together, alone, subject.floor_db)
            if wrong:
                return wrong
        else:
            return group[0]
    return f"a trial with two samples failed ({failure})"


def _failure_text(error: BaseException) -> str:
    return str(error).rstrip(".") or "there is not enough memory"


def _finite(array: Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _batches(count: int, maximum: int, thorough: bool) -> Iterator[list[int]]:
    """Yields the numbers of the samples of each batch, in order: each in several places, beside several others."""
    for first in range(count if thorough else min(count, 4)):
        other = (first + 1) % count
        yield [first, other]
        yield [other, first]
    if not thorough:
        if maximum > 2:
            yield [place % count for place in range(maximum)]
        return
    chance = np.random.default_rng(0)
    for size in sorted({min(3, maximum), maximum} - {2}):
        forward = [place % count for place in range(size)]
        yield forward
        yield forward[::-1]
        for turn in range(1, size, max(size // _MAX_ROTATIONS, 1)):
            yield forward[turn:] + forward[:turn]
        for _ in range(_SHUFFLED):
            yield [int(place) for place in chance.integers(0, count, size)]


def _first_wrong(
    expected: Sequence[dict[str, Array]],
    together: Sequence[dict[str, Array]],
    alone: Sequence[dict[str, Array]],
    floor_db: float,
) -> str:
    """Returns the reason that the rows of a batch differ from single runs, or an empty text if they agree."""
    floor_db = floor_db if floor_db > 0 else _FLOOR_DB
    for right, got in zip(expected, together, strict=True):
        for name, array in right.items():
            if array.shape != got[name].shape:
                return f"in a batch, the output '{name}' of one sample depends on the others"
            if array.dtype.kind in "biuOUS":
                if not np.array_equal(array, got[name]):
                    return f"in a batch, the output '{name}' of one sample depends on the others"
                continue
            reached_db = signal_to_noise_db(array, got[name])
            if reached_db < floor_db and not _rounded(array, got[name], [each[name] for each in alone]):
                return (
                    f"in a batch, the output '{name}' of one sample depends on the others: it is within "
                    f"{reached_db:.1f} dB of a single run, and must be within {floor_db:g} dB"
                )
    return ""


def _rounded(one: Array, other: Array, usual: Sequence[Array]) -> bool:
    """Whether two outputs of hardly any signal differ by no more than others of the model are rounded."""
    largest = max((float(np.abs(each).max(initial=0)) for each in usual), default=0.0)
    return bool(np.allclose(one, other, rtol=0, atol=_ROUNDING * largest, equal_nan=True))


def _alike_in_shape(samples: Sequence[Feeds]) -> list[Feeds]:
    """Samples with the shapes of the first; where there is no other, one with its values in reverse."""
    first = samples[0]
    alike = [each for each in samples if all(np.shape(first[name]) == np.shape(each[name]) for name in first)]
    if len(alike) > 1:
        return alike[:_MAX_SAMPLES]
    return [first, {name: np.ravel(a)[::-1].reshape(np.shape(a)).copy() for name, a in first.items()}]


def _variants(feeds: Feeds) -> list[Feeds]:
    """Quiet, loud and negative forms of a sample: leaks between rows show beside them. Integers stay in range."""
    found: list[Feeds] = []
    for factor in (1 / 64, 64.0, -1.0):
        made = {name: _scaled(np.asarray(array), factor) for name, array in feeds.items()}
        if all(_finite(array) for array in made.values()):
            found.append(made)
    return found


def _scaled(array: Array, factor: float) -> Array:
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.asarray((array * factor).astype(array.dtype))
    if array.dtype.kind in "iu":
        return np.asarray(array // 2 if abs(factor) >= 1 else array - array // 2)
    return array


def made_up(inputs: tuple[TensorInfo, ...], size: int) -> list[Feeds]:
    """Samples of made-up values; open dimensions but the first have this size."""
    from edgeopt.backends.openvino.session import numpy_dtype

    def sample(seed: int) -> Feeds:
        numbers = np.random.default_rng(seed)
        made: dict[str, Array] = {}
        for info in inputs:
            shape = [1, *(d if isinstance(d, int) else size for d in info.shape[1:])]
            if info.dtype == "str":
                made[info.name] = np.full(shape, "a", object)
                continue
            dtype = numpy_dtype(info.dtype)
            # A single integer must differ between samples too.
            whole = (numbers.integers(0, 2, shape) + seed) % 2
            values = whole if dtype.kind in "iub" else numbers.standard_normal(shape)
            made[info.name] = np.asarray(values).astype(dtype)
        return made

    return [sample(seed) for seed in range(_MAX_SAMPLES)]
