"""Rounds: contenders run time slices in turns, so that what disturbs one disturbs all.

On a noisy machine a time means little and a ratio within one round means much: each round gives every
contender one slice, in changing order, and only ratios within a round are compared.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from edgeopt.bench.contender import Contender, figure_ms, take_slice
from edgeopt.bench.stats import Interval, bootstrap_median, paired_ratios
from edgeopt.errors import TrialError

# Enough runs in a slice that its median is one, within what a round may take.
_RUNS_A_SLICE = 10
SHORTEST_SLICE_MS = 40.0
LONGEST_SLICE_MS = 400.0

_Member = TypeVar("_Member")


def slice_ms(latency_ms: float) -> float:
    """How long a slice should be for a model that takes this long."""
    return float(np.clip(_RUNS_A_SLICE * latency_ms, SHORTEST_SLICE_MS, LONGEST_SLICE_MS))


def in_turn(members: Sequence[_Member], position: int) -> list[_Member]:
    """The order of one round.

    Each rotation once forwards and once backwards: nobody is always first or follows the same neighbour.
    """
    shift = position // 2 % max(len(members), 1)
    order = [*members[shift:], *members[:shift]]
    return order if position % 2 == 0 else order[::-1]


def run_rounds(contenders: list[Contender], rounds: int, span_ms: float, first: int = 0) -> None:
    """Gives every contender one slice a round, in changing order; `first` is the number of the first round.

    A contender that crashes or hangs is marked with its failure and left out from then on.
    """
    for position in range(first, first + rounds):
        running = [c for c in contenders if c.failure is None]
        taken: dict[int, float] = {}
        for contender in in_turn(running, position):
            answer = take_slice(contender, span_ms)
            if answer is not None:
                taken[id(contender)] = figure_ms(contender, answer)
        for contender in running:
            if contender.failure is None:
                contender.slices_ms.append(taken[id(contender)])


def latency_ms(contender: Contender) -> float:
    """A first idea of how long a run takes, from one short slice; raises TrialError when it cannot run."""
    answer = take_slice(contender, SHORTEST_SLICE_MS)
    if answer is None:
        raise TrialError(contender.failure or "failed")
    return float(np.median(answer.latencies_ms))


def speedup(baseline: Contender, other: Contender) -> Interval:
    """How many times faster `other` is than `baseline`, over the rounds that both ran (the last ones)."""
    shared = min(len(baseline.slices_ms), len(other.slices_ms))
    return bootstrap_median(paired_ratios(baseline.slices_ms[-shared:], other.slices_ms[-shared:]))
