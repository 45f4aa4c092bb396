"""Runs of the original: its samples, other sizes of open dimensions, and other values."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

with contextlib.suppress(ModuleNotFoundError):  # `child.main` says so in an answer
    import numpy as np

if TYPE_CHECKING:
    from edgeopt.importing.children.child import Feeds, Job

BORDERS = (7, 8, 9, 15, 16, 17, 24, 63, 64, 65, 127, 128, 129)
"""Multiples of 8 and 64 and their neighbours, where models often begin to compute differently."""
LARGEST_SIZE, LARGEST_INPUT = 1025, 1 << 20
"""Sizes and elements beyond which no size is tried at a border."""
BORDER_SECONDS = 60.0
"""Limit of the borders of one dimension; the proof lists the sizes that were tried by then."""
LOUD = 32


def resized(job: Job, samples: list[Feeds], sizes: dict[str, int]) -> Feeds:
    """Returns a run with other sizes of open dimensions, whose values come from several samples."""
    found = {}
    for name, array in samples[0].items():
        now = array
        for axis, dim in job.dims.get(name, {}).items():
            # Before another axis was resized, other samples may be as large; the values are theirs as well.
            parts, size = [now], sizes.get(dim, now.shape[axis])
            others = [each[name] for each in samples[1:] if _fits(each[name], now, axis)] or [now]
            while sum(part.shape[axis] for part in parts) < size:
                parts.append(others[(len(parts) - 1) % len(others)])
            now = np.take(np.concatenate(parts, axis), range(size), axis)
        found[name] = np.ascontiguousarray(now)
    return found


def _fits(each: Any, array: Any, axis: int) -> bool:
    """Whether the two arrays can be joined along an axis."""
    rests = [[*one.shape[:axis], *one.shape[axis + 1 :]] for one in (each, array)]
    return each.ndim == array.ndim and rests[0] == rests[1]


class Runs(NamedTuple):
    """Inputs and outputs of the original: the samples as they are, then other sizes of open dimensions."""

    sizes: list[dict[str, int]]
    feeds: list[Feeds]
    outputs: list[Feeds]
    values: list[str]
    """Change of the values in each run at the end."""


def run_all(run: Callable[[Feeds], Feeds], job: Job, samples: list[Feeds]) -> Runs:
    """Runs several sizes of each open dimension, alone and all together, as far as the original takes them."""
    done = Runs([{}] * len(samples), list(samples), [run(sample) for sample in samples], [])
    largest: dict[str, int] = {}
    constants = _constants(job) if job.dims else set()
    for k, (dim, base) in enumerate(base_sizes(job, samples).items()):
        rotated = samples[k % len(samples) :] + samples[: k % len(samples)]
        usual = {size for size in _tried(base) if size != base and _within(job, dim, size)}
        more = _borders(job, dim, samples, constants) - usual - {base}
        taken, failed, reason = list[int](), list[int](), ""

        def takes(size: int) -> bool:
            feeds = resized(job, rotated, {dim: size})  # noqa: B023 - called in this turn of the loop alone
            try:
                output = run(feeds)
            except Exception as error:
                failed.append(size)  # noqa: B023
                nonlocal reason
                reason = reason or job.reason(error)
                return False
            taken.append(size)  # noqa: B023
            _add(done, {dim: size}, feeds, output)  # noqa: B023
            return True

        for size in sorted(usual):
            takes(size)
        largest[dim] = max([base, *taken])
        start = time.monotonic()
        for size in sorted(more):
            if time.monotonic() - start < BORDER_SECONDS:
                takes(size)
        # Networks that halve their input often take multiples only.
        if usual and not taken and not takes(2 * base):
            _refuse_sizes(job, f"{dim} = {failed[0]}: {reason}")
        if not usual & set(taken):
            largest[dim] = max([base, *taken])
        if failed:
            _limit(job, dim, [base, *taken], failed, takes)
            largest[dim] = min(largest[dim], job.ranges.get(dim, (1, sys.maxsize))[1])
            sizes = ", ".join(map(str, sorted(failed)))
            job.notes.append(f"Not proved for {dim} = {sizes}: the original fails there ({reason}).")
    if len(largest) > 1:
        feeds = resized(job, samples, largest)
        try:
            _add(done, largest, feeds, run(feeds))
        except Exception as error:
            where = ", ".join(f"{dim} = {size}" for dim, size in largest.items())
            _refuse_sizes(job, f"{where}: {job.reason(error)}")
    _add_values(run, job, samples, done)
    return done


def _limit(job: Job, dim: str, taken: list[int], failed: list[int], takes: Callable[[int], bool]) -> None:
    """Limits a dimension to the sizes between those at which the original fails, if it takes all others."""
    low, high = job.ranges.get(dim, (1, sys.maxsize))
    above = [size for size in failed if size > max(taken)]
    below = [size for size in failed if size < min(taken)]
    if len(above) + len(below) < len(failed):
        return  # the original takes multiples only, for example
    if above:
        high, beyond = max(taken), min(above)
        while beyond - high > 1:
            middle = (high + beyond) // 2
            high, beyond = (middle, beyond) if takes(middle) else (high, middle)
    if below:
        low, beyond = min(taken), max(below)
        while low - beyond > 1:
            middle = (low + beyond) // 2
            low, beyond = (middle, beyond) if takes(middle) else (low, middle)
    job.ranges[dim] = (low, high)


def _borders(job: Job, dim: str, samples: list[Feeds], constants: set[int]) -> set[int]:
    """Returns sizes at which models often begin to compute differently, as far as they cost little."""
    low, high = job.ranges.get(dim, (1, sys.maxsize))
    known = {3, *BORDERS, *job.borders.get(dim, ())}
    if dim != "batch":  # no weight has as many rows as a batch
        known |= {size + step for size in constants for step in (-1, 0, 1)}
    return {
        size
        for size in {*known, low, low + 1, high - 1, high}
        if 0 < size <= LARGEST_SIZE
        and _within(job, dim, size)
        and _elements(job, dim, samples[0], size) <= LARGEST_INPUT
    }


def _elements(job: Job, dim: str, sample: Feeds, size: int) -> int:
    total = 0
    for name, array in sample.items():
        shape = list(array.shape)
        for axis, each in job.dims.get(name, {}).items():
            shape[axis] = size if each == dim else shape[axis]
        total += int(np.prod(shape))
    return total


def _constants(job: Job) -> set[int]:
    """Returns the sizes of weights, and small integers, in the exported model."""
    import onnx

    try:
        graph = onnx.load(str(job.folder / "exported.onnx"), load_external_data=False).graph
    except Exception:
        return set()  # only fewer sizes are tried
    found: set[int] = set()
    tensors = list(graph.initializer)
    for node in graph.node:
        tensors += [each.t for each in node.attribute if each.type == onnx.AttributeProto.TENSOR]
        for each in node.attribute:
            found |= {each.i, *each.ints}
    for tensor in tensors:
        found |= {*tensor.dims}
        integers = tensor.data_type in {onnx.TensorProto.INT64, onnx.TensorProto.INT32}
        if integers and np.prod(tensor.dims, dtype=int) <= 16 and not tensor.external_data:
            found |= {*map(int, onnx.numpy_helper.to_array(tensor).ravel())}
    return {size for size in found if 2 < size <= LARGEST_SIZE}


def _add_values(run: Callable[[Feeds], Feeds], job: Job, samples: list[Feeds], done: Runs) -> None:
    """Adds runs with loud and one-sided values, if the values of the samples are edgeopt's own choice."""
    if job.data is not None:
        return
    changes: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        (f"{LOUD} times the values", lambda array: array * array.dtype.type(LOUD)),
        ("negative values only", lambda array: -abs(array)),
        ("positive values only", abs),
    )
    for name, change in changes:
        feeds = {key: change(array) if array.dtype.kind == "f" else array for key, array in samples[0].items()}
        if any(array.dtype.kind == "f" for array in feeds.values()):
            with np.errstate(all="ignore"):
                try:
                    output = run(feeds)
                except Exception:  # noqa: S112 - not all networks take all values
                    continue
            if all(np.isfinite(array).all() for array in output.values() if array.dtype.kind == "f"):
                done.feeds.append(feeds)
                done.outputs.append(output)
                done.values.append(name)


def _refuse_sizes(job: Job, failure: str) -> NoReturn:
    job.refuse(
        "bad-model",
        f"The original fails for {failure}.",
        "Leave out dimensions in --dynamic that the model does not take in other sizes.",
    )


def _add(runs: Runs, sizes: dict[str, int], feeds: Feeds, output: Feeds) -> None:
    runs.sizes.append(sizes)
    runs.feeds.append(feeds)
    runs.outputs.append(output)


def base_sizes(job: Job, samples: list[Feeds]) -> dict[str, int]:
    return {dim: samples[0][name].shape[axis] for name, axes in job.dims.items() for axis, dim in axes.items()}


def _tried(size: int) -> list[int]:
    return sorted({1, 2, size + 1, 2 * size + 1})


def _within(job: Job, dim: str, size: int) -> bool:
    low, high = job.ranges.get(dim, (1, sys.maxsize))
    return low <= size <= high
