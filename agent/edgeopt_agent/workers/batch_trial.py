"""Whether batches give the results of single runs and are faster on this device; tried while a worker loads."""

import statistics
import time

import numpy as np
from numpy.typing import NDArray

from edgeopt.backends.base import Feeds
from edgeopt.bundle.runtime.batching import check_batching, rows_of
from edgeopt.bundle.runtime.session import Session
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt_agent.workers.frames import Batching, Load

LEAST_GAIN = 1.05
"""A batch of two must be this many times as fast as two single runs, or noise would decide."""
_WARM_ROUNDS, _FEWEST_ROUNDS, _MOST_ROUNDS = 2, 5, 30
_ENOUGH_S = 0.5


def judge_batching(session: Session, wanted: Load) -> Batching:
    """Whether batches are right and pay on this device, with the reason."""

    def judged(used: bool, reason: str) -> Batching:
        return Batching(wanted.batch_max_size, wanted.batch_max_delay_us, used, reason)

    samples = session.golden()
    try:
        check_batching(session.run, session.inputs, session.outputs, samples)
        if not samples:
            return judged(False, "The bundle has no golden samples to try a batch with.")
        one = samples[0]
        rows = rows_of(one)
        if rows * 2 > wanted.batch_max_size:
            return judged(False, f"Its golden samples have {rows} rows, so no two fit batch_max_size.")
        session.run(_repeated(one, wanted.batch_max_size // rows))
        gain = _gain(session, one)
    except UsageError as error:
        return judged(False, error.message)
    except (EdgeoptError, MemoryError) as error:
        return judged(False, f"A batch of {wanted.batch_max_size} failed: {error}")
    said = f"A batch of two is {gain:.2f} times as fast as two single runs"
    if gain < LEAST_GAIN:
        return judged(False, f"{said}; at least {LEAST_GAIN} times is required.")
    return judged(True, f"{said}.")


def _gain(session: Session, one: Feeds) -> float:
    two = _repeated(one, 2)
    apart: list[float] = []
    together: list[float] = []
    begin = time.perf_counter()
    for number in range(_WARM_ROUNDS + _MOST_ROUNDS):
        start = time.perf_counter()
        session.run(one)
        session.run(one)
        middle = time.perf_counter()
        session.run(two)
        end = time.perf_counter()
        if number >= _WARM_ROUNDS:
            apart.append(middle - start)
            together.append(end - middle)
        if len(apart) >= _FEWEST_ROUNDS and end - begin > _ENOUGH_S:
            break
    return statistics.median(apart) / statistics.median(together)


def _repeated(feeds: Feeds, times: int) -> dict[str, NDArray[np.generic]]:
    return {name: np.concatenate([array] * times) for name, array in feeds.items()}
