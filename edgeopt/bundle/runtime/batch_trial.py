"""Whether batches give the results of single runs and are faster on this device; tried while a session loads."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.bundle.runtime.batching import Run, rows_of, run_together
from edgeopt.errors import EdgeoptError, UsageError

LEAST_GAIN = 1.05
"""A batch of two must be this many times as fast as two single runs, or noise would decide."""
_WARM_ROUNDS, _FEWEST_ROUNDS, _MOST_ROUNDS = 2, 5, 30
_ENOUGH_S = 0.5
_TRIAL_SIZES = (1, 8, 32)
"""Tried for the other open dimensions of a model without samples: a kernel may need more than one."""
_TOLERANCE = 0.05
"""Of the largest value: dynamic quantization finds its ranges over a batch, which rows that mix go far beyond."""


@dataclass(frozen=True, slots=True)
class BatchTrial:
    """Whether requests are run in batches, with the reason."""

    used: bool
    reason: str


def try_batches(
    run: Run,
    inputs: tuple[TensorInfo, ...],
    outputs: tuple[TensorInfo, ...],
    samples: Sequence[Feeds],
    max_size: int,
) -> BatchTrial:
    """Whether batches are faster on this device; raises what `check_batching` raises."""
    found = check_batching(run, inputs, outputs, samples)
    rows = rows_of(found)
    if rows * 2 > max_size:
        return BatchTrial(False, f"A sample has {rows} rows, so two do not fit a batch of {max_size}.")
    try:
        run(_repeated(found, max_size // rows))
    except (EdgeoptError, MemoryError) as error:
        return BatchTrial(False, f"A batch of {max_size} failed: {error}")
    gain = _gain(run, found)
    said = f"A batch of two is {gain:.2f} times as fast as two single runs"
    if gain < LEAST_GAIN:
        return BatchTrial(False, f"{said}; at least {LEAST_GAIN} times is required.")
    return BatchTrial(True, f"{said}.")


def check_batching(
    run: Run, inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...], samples: Sequence[Feeds]
) -> Feeds:
    """Returns a sample that ran in a batch; raises UsageError where samples do not keep their own results.

    Shapes alone cannot tell, because a first axis may also be a sequence. So two samples are tried: made-up ones
    if there are none.
    """
    found = _closed_axis(inputs, outputs) or _mixed(run, inputs, samples)
    if isinstance(found, str):
        raise UsageError(
            f"The model cannot run samples in batches: {found}.",
            "Run them one by one, or export the model with an open batch axis, first in all inputs and outputs.",
        )
    return found


def _gain(run: Run, one: Feeds) -> float:
    two = _repeated(one, 2)
    apart: list[float] = []
    together: list[float] = []
    begin = time.perf_counter()
    for number in range(_WARM_ROUNDS + _MOST_ROUNDS):
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


def _mixed(run: Run, inputs: tuple[TensorInfo, ...], samples: Sequence[Feeds]) -> Feeds | str:
    """A sample whose rows of a batch are those of a single run; or why they are not."""
    failure = ""
    pairs = [_pair(samples)] if samples else [made_up(inputs, size) for size in _TRIAL_SIZES]
    for pair in pairs:
        try:
            alone = [run(feeds) for feeds in pair]
            together = run_together(run, pair)
        except (EdgeoptError, MemoryError) as error:
            failure = str(error).rstrip(".") or "there is not enough memory"
            continue
        if together is None:
            return "an output has a different number of rows than the inputs"
        odd = next(
            (n for n in alone[0] for a, b in zip(alone, together, strict=True) if not _alike(a[n], b[n])), None
        )
        return f"in a batch, the output '{odd}' of one sample depends on the others" if odd else pair[0]
    return f"a trial with two samples failed ({failure})"


def _alike(alone: Array, together: Array) -> bool:
    if alone.shape != together.shape:
        return False
    if alone.dtype.kind in "biuOUS" or not alone.size:
        return bool(np.array_equal(alone, together))
    a, b = alone.astype(np.float64), together.astype(np.float64)
    return bool(np.allclose(a, b, rtol=0, atol=_TOLERANCE * float(np.nanmax(np.abs(a))), equal_nan=True))


def _pair(samples: Sequence[Feeds]) -> list[Feeds]:
    """Two samples of one shape; where only one has it, its values in reverse, so that indices stay in range."""
    first, *others = samples
    for other in others:
        if all(np.shape(first[name]) == np.shape(other[name]) for name in first):
            return [first, other]
    second = {name: np.ravel(array)[::-1].reshape(np.shape(array)).copy() for name, array in first.items()}
    return [
        first,
        {name: a if a.dtype.kind in "biuOUS" else (a / 2).astype(a.dtype) for name, a in second.items()},
    ]


def made_up(inputs: tuple[TensorInfo, ...], size: int) -> list[Feeds]:
    """Two samples of made-up values; open dimensions but the first have this size."""
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
            values = numbers.integers(0, 2, shape) if dtype.kind in "iub" else numbers.standard_normal(shape)
            made[info.name] = np.asarray(values).astype(dtype)
        return made

    return [sample(0), sample(1)]
