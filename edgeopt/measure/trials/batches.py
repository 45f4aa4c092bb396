"""Several samples in one run, along the first axis, and their answers apart again."""

from collections.abc import Callable, Sequence

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.errors import UsageError

# Batches in rotation, if the samples of a single batch would fit in a cache.
_FEWEST = 2


def in_batches(samples: Sequence[dict[str, Array]], batch: int) -> list[dict[str, Array]]:
    """The samples in rotation as batches; where they do not fill the last one, it goes on with the first."""
    if batch == 1:
        return list(samples)
    count = max(_FEWEST, len(samples) // batch)
    return [stacked([samples[(k * batch + j) % len(samples)] for j in range(batch)]) for k in range(count)]


def stacked(samples: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([each[name] for each in samples]) for name in samples[0]}


def answers(
    run: Callable[[dict[str, Array]], dict[str, Array]], samples: Sequence[dict[str, Array]], batch: int
) -> list[dict[str, Array]]:
    """What a session answers to each sample, run in batches; UsageError where that is not one row a sample."""
    if batch == 1:
        return [run(feeds) for feeds in samples]
    found: list[dict[str, Array]] = []
    for begin in range(0, len(samples), batch):
        some = [samples[(begin + j) % len(samples)] for j in range(batch)]
        found += _rows(run(stacked(some)), batch)
    return found[: len(samples)]


def _rows(outputs: dict[str, Array], batch: int) -> list[dict[str, Array]]:
    odd = next((name for name, array in outputs.items() if array.shape[:1] != (batch,)), None)
    if odd is not None:
        shape = list(outputs[odd].shape)
        raise UsageError(
            f"The output '{odd}' of {batch} samples together has the shape {shape}, not one row per sample.",
            "Run this model one sample at a time.",
        )
    return [{name: array[k : k + 1] for name, array in outputs.items()} for k in range(batch)]
