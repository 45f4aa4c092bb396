"""Runs inputs that no run has had before: samples mixed in pairs."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array, Feeds
from edgeopt.data.samples import Samples, write_archive
from edgeopt.measure.messages import Unseen, UnseenRun
from edgeopt.measure.trials.openers import Loads, Opener

_SHARES = (0.3, 0.7)


def run_unseen(session: Loads, opened: Opener, samples: Samples, request: Unseen) -> UnseenRun:
    """Runs mixed samples, each twice, and saves the first answer to each."""
    feeds = mixed(samples, request.pairs, request.seed)
    arrays: dict[str, Array] = {}
    new_ms, again_ms = [], []
    session.run(opened.turns[0])
    for position, each in enumerate(feeds):
        took_ms, found = _timed(session, each)
        new_ms.append(took_ms)
        arrays |= {f"{position}/{name}": array for name, array in found.items()}
        again_ms.append(_timed(session, {name: array.copy() for name, array in each.items()})[0])
    write_archive(Path(request.out_path), arrays)
    return UnseenRun(tuple(new_ms), tuple(again_ms))


def _timed(session: Loads, feeds: Feeds) -> tuple[float, dict[str, Array]]:
    begin = time.perf_counter_ns()
    found = session.run(feeds)
    return (time.perf_counter_ns() - begin) / 1e6, dict(found)


def mixed(samples: Samples, count: int, seed: int) -> Sequence[dict[str, Array]]:
    """Returns mixtures of two samples, if a floating-point input allows it; otherwise an empty list."""
    chance = np.random.default_rng(seed)
    feeds = []
    for _ in range(count):
        first, second = (samples.feeds(int(k)) for k in chance.integers(0, len(samples), 2))
        share = float(chance.uniform(*_SHARES))
        made = {name: _between(array, second[name], share, chance) for name, array in first.items()}
        if all(made[name] is array for name, array in first.items()):
            return []
        feeds.append(made)
    return feeds


def _between(first: Array, second: Array, share: float, chance: np.random.Generator) -> Array:
    """Returns a mixture of two arrays, or the first one if its type has no values in between."""
    if not np.issubdtype(first.dtype, np.floating):
        return first
    if first.shape != second.shape:
        second = first
    other = second * chance.uniform(0.9, 1.0, second.shape) if second.size else second
    return np.ascontiguousarray((1 - share) * first + share * other, dtype=first.dtype)
