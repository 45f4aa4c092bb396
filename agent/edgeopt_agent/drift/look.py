"""Statistics of the inputs and outputs of requests, taken in the worker after it has sent the answer."""

import math
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeopt_agent.drift.figures import MAX_TENSORS, TensorFigures
from edgeopt_agent.workers.frames import Port

MAX_VALUES = 10_000
SHARE = 0.005
"""Share of the worker's time for statistics; the agent's work on them costs about as much again."""
_LARGEST = 1e300
_MAX_AXES = 32
Arrays = Mapping[str, NDArray[Any]]
Axes = Mapping[str, Sequence[int]]
"""The axes of an output whose sizes are noted, by its name."""
_NO_AXES: Axes = MappingProxyType({})


class TensorSampler:
    """Takes every request where they are few, else as many as its share of the time allows."""

    def __init__(self, every_s: float, axes: Axes = _NO_AXES) -> None:
        self._every_s, self._axes = every_s, axes
        self._next_s = -math.inf
        self._sample: tuple[Arrays, Arrays] | None = None
        self._found: tuple[TensorFigures, ...] = ()

    def take(self, inputs: Arrays, outputs: Arrays) -> None:
        """Keeps the tensors of a request until `look`, if it is to be looked at."""
        if self._sample is None and time.monotonic() >= self._next_s:
            self._sample = inputs, outputs

    def look(self) -> None:
        """Takes the statistics of a request, after its answer is sent and before its memory is used again."""
        if self._sample is None:
            return
        # Its own time: that others' work delayed it costs the requests nothing.
        start_s = time.thread_time()
        sample, self._sample = self._sample, None
        try:
            self._found = figures_of(*sample, self._axes)
        except Exception:  # noqa: BLE001 - the release must serve on, whatever is wrong here
            traceback.print_exc(file=sys.stderr)
            self._next_s = math.inf
            return
        self._next_s = time.monotonic() + max(self._every_s, (time.thread_time() - start_s) / SHARE)

    def found(self) -> tuple[TensorFigures, ...]:
        """Returns the statistics of the last request that was looked at, once: they travel with a later answer."""
        found, self._found = self._found, ()
        return found


def open_axes(inputs: Sequence[Port], outputs: Sequence[Port]) -> Axes:
    """Returns the open axes of the outputs but those with the name of an input's, which follow the request."""
    followed = {size for port in inputs for size in port.shape if size and isinstance(size, str)}
    return {
        port.name: [
            axis
            for axis, size in enumerate(port.shape if port.rank_known else [None] * _MAX_AXES)
            if not isinstance(size, int) and size not in followed
        ]
        for port in outputs
    }


def figures_of(inputs: Arrays, outputs: Arrays, axes: Axes = _NO_AXES) -> tuple[TensorFigures, ...]:
    """Returns the statistics of the first tensors that have numbers or open axes."""
    found: list[TensorFigures] = []
    for output, arrays in ((False, inputs), (True, outputs)):
        for name, array in arrays.items():
            sizes = {
                axis: array.shape[axis] for axis in (axes.get(name, ()) if output else ()) if axis < array.ndim
            }
            numbers = array.dtype.kind in "fiu" and array.size > 0
            if (numbers or sizes) and len(found) < MAX_TENSORS:
                values = _statistics(some_of(array)) if numbers else ()
                found.append(TensorFigures(name, output, values, sizes))
    return tuple(found)


def some_of(array: NDArray[Any]) -> NDArray[np.float64]:
    """Returns at most MAX_VALUES values; their distance shares no factor with a dimension: all channels count."""
    step = -(-array.size // MAX_VALUES)
    while step > 1 and any(math.gcd(step, size) > 1 for size in array.shape):
        step += 1
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    return np.asarray(flat[::step], np.float64)


def _statistics(values: NDArray[np.float64]) -> tuple[float, ...]:
    count = values.size
    finite = np.isfinite(values)
    if not finite.all():
        values = values[finite]
    not_finite = 1.0 - values.size / count
    if not values.size:
        return 0.0, 0.0, 0.0, 0.0, 0.0, not_finite
    with np.errstate(over="ignore"):
        found = values.mean(), values.std(), values.min(), values.max()
    # A NumPy number, such as this count, could not be sent to the agent.
    zeros = 1.0 - int(np.count_nonzero(values)) / count - not_finite
    return (*(max(-_LARGEST, min(_LARGEST, float(each))) for each in found), max(0.0, zeros), not_finite)
