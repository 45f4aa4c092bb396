"""Whether two answers are the same, up to what rounding explains.

How much rounding explains is found by trying it (Monte Carlo arithmetic): the source is computed several times by
the reference operators, each time with other rounding errors of a few units in the last place. Where these runs
differ widely (a logarithm near 0, two numbers that cancel out, a comparison of equal ones), results may too; where
they agree, results must.
"""

from collections.abc import Callable, Sequence

import numpy as np

RUNS, MANY_RUNS = 6, 60
FACTOR = 8.0  # a few runs do not reach the extremes of what rounding can do
HALF, SINGLE, DOUBLE = (np.dtype(one) for one in (np.float16, np.float32, np.float64))
UNITS = {HALF: 8 * 2.0**-10, SINGLE: 8 * 2.0**-23, DOUBLE: 8 * 2.0**-52}
OVERFLOW = 16.0  # factors in another order overflow at other places
SMALLEST = {HALF: 2.0**-22, SINGLE: 2.0**-140, DOUBLE: 2.0**-1060}  # subnormal numbers have fewer digits

Outputs = dict[str, np.ndarray]
Runs = Callable[[], Sequence[Outputs]]


def difference(source: Outputs, result: Outputs, runs: Runs) -> str | None:
    """What differs, as a sentence's end, or None; `runs` is asked for only where numbers are not nearly equal."""
    if list(source) != list(result):
        return f"the outputs are {list(result)}, not {list(source)}"
    for name, was in source.items():
        now = result[name]
        # Where the reference gives another shape than the source, runtimes disagree on what it is.
        if was.dtype != now.dtype or (was.shape != now.shape and _has_shape(was, [run[name] for run in runs()])):
            return f"{name} is {now.dtype}{list(now.shape)}, not {was.dtype}{list(was.shape)}"
    same_shape = [name for name, was in source.items() if was.shape == result[name].shape]
    suspects = [name for name in same_shape if not _alike(source[name], result[name])]
    if not suspects:
        return None
    others = runs()
    for name in suspects:
        if said := _beyond(source[name], result[name], [run[name] for run in others]):
            return f"{name} {said}"
    return None


def _has_shape(array: np.ndarray, runs: Sequence[np.ndarray]) -> bool:
    return not runs or any(run.shape == array.shape for run in runs)


def _alike(was: np.ndarray, now: np.ndarray) -> bool:
    """Whether they are as equal as two ways to compute the same usually are."""
    if was.dtype.kind != "f":
        return bool(np.array_equal(was, now))
    with np.errstate(all="ignore"):
        same = (was == now) | (np.isnan(was) & np.isnan(now))
        near = np.abs(was - now) <= 2.0**-21 * np.abs(was)
    return bool((same | (near & np.isfinite(now) & np.isfinite(was))).all())


def _beyond(was: np.ndarray, now: np.ndarray, runs: Sequence[np.ndarray]) -> str | None:
    runs = [run for run in runs if run.shape == was.shape]
    if not runs:
        return None
    if was.dtype.kind != "f":
        sure = np.logical_and.reduce([run == runs[0] for run in runs])
        return _told(was, now, sure & (was != now))
    all_runs = np.stack(runs).astype(np.float64)
    kinds, kind = _kinds(all_runs), _kinds(was)
    # Where the reference is of another kind than the source, runtimes disagree on what it is.
    sure = (kinds == kind).all(axis=0)
    other_kind = sure & (_kinds(now) != kind) & ~_overflows(was, now)
    finite = sure & (kind == 0) & ~other_kind
    with np.errstate(all="ignore"):
        numbers = np.where(finite, all_runs, 0.0)
        spread = numbers.max(axis=0) - numbers.min(axis=0)
        first, second = (np.where(finite, one, 0.0).astype(np.float64) for one in (was, now))
        allowed = FACTOR * spread + UNITS[was.dtype] * np.abs(first) + SMALLEST[was.dtype]
        too_far = finite & (np.abs(second - first) > allowed)
    return _told(was, now, other_kind | too_far)


def _kinds(array: np.ndarray) -> np.ndarray:
    """0 for a number, others for infinity, minus infinity and NaN."""
    return np.isposinf(array) + 2 * np.isneginf(array) + 3 * np.isnan(array)


def _overflows(was: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Where one is infinity and the other is close to the largest number, of the same sign."""
    large = float(np.finfo(was.dtype).max) / OVERFLOW
    with np.errstate(all="ignore"):
        one_is_infinite = np.isinf(was) != np.isinf(now)
        return one_is_infinite & (np.abs(was) > large) & (np.abs(now) > large) & (np.sign(was) == np.sign(now))


def _told(was: np.ndarray, now: np.ndarray, wrong: np.ndarray) -> str | None:
    if not wrong.any():
        return None
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"at {list(place)} is {now[place]!r}, not {was[place]!r} ({int(wrong.sum())} of {wrong.size})"
