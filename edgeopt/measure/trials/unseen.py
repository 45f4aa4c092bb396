"""Inputs that no run has had before: what keeps its outputs answers them more slowly, or wrongly."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt.backends.base import Array, Feeds
from edgeopt.data.samples import Samples, write_archive
from edgeopt.errors import TrialError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.contender import Contender, ask, failed
from edgeopt.measure.messages import Unseen, UnseenRun
from edgeopt.measure.trials.openers import Loads, Opener

PAIRS = 20
_SLOWER, _SLOWER_MS = 1.5, 0.02
"""How many times as long, and by how many milliseconds more, a new input takes where outputs are kept."""
_WORSE_DB = 20.0
"""Mixed samples may differ from samples, but not by this much."""
_SHARES = (0.3, 0.7)


class UnseenOutputs(NamedTuple):
    """What two trials answered to the same new inputs, and the shortest times of the first of them."""

    snr_db: float
    new_ms: float
    again_ms: float


def check_unseen(new: Contender, baseline: Contender, seed: int, folder: Path, seen_db: float) -> None:
    """Raises TrialError for a contender that answers new inputs more slowly or less accurately than known ones."""
    found = _compare(new, baseline, seed, folder)
    if found is None:
        return
    if found.snr_db < seen_db - _WORSE_DB:
        raise TrialError(
            f"it answers inputs that it has not seen to {found.snr_db:.1f} dB, and the samples to {seen_db:.1f} dB"
        )
    if found.new_ms > _SLOWER * found.again_ms and found.new_ms - found.again_ms > _SLOWER_MS:
        raise TrialError(
            f"it keeps its outputs: a new input takes {found.new_ms:.3g} ms and the same one again "
            f"{found.again_ms:.3g} ms, so its times are not those of new requests"
        )


def _compare(new: Contender, baseline: Contender, seed: int, folder: Path) -> UnseenOutputs | None:
    """None for a model whose inputs cannot be mixed: none is of floating point."""
    from edgeopt.measure.trial import read_outputs

    runs, outputs = [], []
    for number, contender in enumerate((new, baseline)):
        file = folder / f"unseen-{number}.npz"
        answer = ask(contender.child, Unseen(seed, PAIRS, str(file)), contender.patience_s(2 * PAIRS))
        if not isinstance(answer, UnseenRun):
            raise failed(answer)
        if not answer.new_ms:
            return None
        runs.append(answer)
        outputs.append(read_outputs(file))
    snr_db = compare_outputs(outputs[1], outputs[0]).snr_db
    return UnseenOutputs(snr_db, min(runs[0].new_ms), min(runs[0].again_ms))


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
    """Samples between two others, where a floating-point input allows it; none where no input does."""
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
    """The array itself where its type has nothing in between, or the other has another shape."""
    if not np.issubdtype(first.dtype, np.floating):
        return first
    if first.shape != second.shape:
        second = first
    other = second * chance.uniform(0.9, 1.0, second.shape) if second.size else second
    return np.ascontiguousarray((1 - share) * first + share * other, dtype=first.dtype)
