"""Axes that a model leaves open: which one a name means, and samples of other sizes made of those at hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data.samples import check_samples, from_feeds, open_samples, save_samples
from edgeopt.errors import ModelError, UsageError
from edgeopt.nearest import nearest

_MOST_SAMPLES = 16
_MOST_BYTES = 256 << 20
_BATCH = "batch"
_LENGTHS = ("seq", "len", "time", "token")


class Axis(NamedTuple):
    """Every place in the inputs that takes the same size."""

    name: str
    places: tuple[tuple[str, int], ...]
    """Input and axis."""
    is_batch: bool


def find_axis(name: str, inputs: Sequence[TensorInfo]) -> Axis | None:
    """The axis that a name means: `batch`, an axis's own name, or `INPUT.AXIS`; None where it means none.

    Raises ModelError for one that is there but fixed by the model.
    """
    if name == _BATCH:
        return _batch(inputs)
    named = _places(name, inputs)
    if named:
        return Axis(name, named, all(axis == 0 for _, axis in named))
    tensor_name, dot, axis_name = name.rpartition(".")
    tensor = next((t for t in inputs if t.name == tensor_name), None) if dot else None
    if tensor is not None:
        return _of_input(name, tensor, axis_name, inputs)
    if name == "sequence":
        open_names = {d for t in inputs for d in t.shape if isinstance(d, str)}
        long = [d for d in sorted(open_names) if any(part in d.lower() for part in _LENGTHS)]
        if len(long) == 1:
            return Axis(long[0], _places(long[0], inputs), is_batch=False)
        if not long:
            raise ModelError("No input axis has the name of a sequence length.", axes_hint(inputs))
        raise UsageError(f"'sequence' may mean {' or '.join(long)} here.", "Name the one that you mean.")
    return None


def axes_hint(inputs: Sequence[TensorInfo], name: str = "", options: Sequence[str] = ()) -> str:
    """What can be swept: what `name` may stand for, else all open axes, after the options if there are some."""
    names = [*dict.fromkeys(d for t in inputs for d in t.shape if isinstance(d, str))]
    names += [f"{t.name}.{k}" for t in inputs for k, d in enumerate(t.shape) if d is None]
    listed = f"Its open axes are: {', '.join(names)}." if names else "All its input axes are fixed."
    if not name:
        return listed
    others = f"There are: {', '.join(options)}. " if options else ""
    return nearest(name, [*names, *options, _BATCH], f"{others}{listed}")


def _batch(inputs: Sequence[TensorInfo]) -> Axis:
    first = next((t for t in inputs if t.shape and not isinstance(t.shape[0], int)), None)
    if first is None:
        tensor = next((t for t in inputs if t.shape), None)
        what = f": its input '{tensor.name}' is {_shape(tensor)}" if tensor is not None else ""
        raise ModelError(
            f"The model fixes its batch{what}.", "Export it with an open batch axis, then sweep its size."
        )
    name = first.shape[0]
    if isinstance(name, str):
        return Axis(_BATCH, _places(name, inputs), is_batch=True)
    unnamed = tuple((t.name, 0) for t in inputs if t.shape and t.shape[0] is None)
    return Axis(_BATCH, unnamed, is_batch=True)


def _of_input(name: str, tensor: TensorInfo, axis_name: str, inputs: Sequence[TensorInfo]) -> Axis | None:
    rank = len(tensor.shape)
    if not axis_name.isdecimal() or int(axis_name) >= rank:
        return None
    axis = int(axis_name)
    size = tensor.shape[axis]
    if isinstance(size, int):
        raise ModelError(
            f"The model fixes axis {axis} of its input '{tensor.name}' to {size}: it is {_shape(tensor)}.",
            axes_hint(inputs),
        )
    # A name stands for one size everywhere.
    places = _places(size, inputs) if isinstance(size, str) else ((tensor.name, axis),)
    return Axis(name, places, is_batch=axis == 0)


def _places(name: str, inputs: Sequence[TensorInfo]) -> tuple[tuple[str, int], ...]:
    return tuple((t.name, axis) for t in inputs for axis, d in enumerate(t.shape) if d == name)


def _shape(tensor: TensorInfo) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in tensor.shape) + "]"


def resized(samples: Path, axis: Axis, size: int, inputs: tuple[TensorInfo, ...], folder: Path) -> Path:
    """A folder of samples of this size: batches are made of different samples, other axes cropped or repeated."""
    given = open_samples(samples)
    feeds = [given.feeds(k) for k in range(min(len(given), _MOST_SAMPLES))]
    by_input: dict[str, list[int]] = {}
    for tensor, place in axis.places:
        by_input.setdefault(tensor, []).append(place)
    made: list[dict[str, Array]] = []
    written = 0
    for number in range(len(feeds)):
        one = {
            name: _resized(feeds, name, number, by_input.get(name, []), size, axis.is_batch) for name in feeds[0]
        }
        written += sum(array.nbytes for array in one.values())
        if made and written > _MOST_BYTES:
            break
        made.append(one)
    out = folder / f"{axis.name.replace('/', '_')}-{size}"
    save_samples(check_samples(from_feeds(made), inputs, f"the samples made for {axis.name}={size}"), out)
    return out


def _resized(
    feeds: list[dict[str, Array]], name: str, number: int, places: list[int], size: int, is_batch: bool
) -> Array:
    array = feeds[number][name]
    for place in places:
        if is_batch:
            # Items of the samples that follow, so that no two rows of a small batch are alike.
            following = range(number, number + min(size, len(feeds)))
            array = np.concatenate([feeds[k % len(feeds)][name] for k in following], place)
        array = np.take(array, np.arange(size) % array.shape[place], axis=place)
    return array
