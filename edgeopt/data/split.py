"""The split of samples into those that calibrate, those that check candidates, and those that prove."""

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from edgeopt.data.judging.metric import AccuracyMetric, Labels

# More samples move the ranges little and cost calibration time; the libraries' own examples use 100 to 300.
MAX_CALIBRATION_SAMPLES = 100
FEWEST_TO_QUANTIZE = 4
"""Number of samples from which they are halved: one half calibrates, the other checks and proves."""
# With fewer, one or two samples would have to show what a variant does on all others.
FEWEST_TO_PART = 12
"""Fewest samples that are divided into some that check and others that prove."""
FEWEST_CHECKING, FEWEST_PROVING = 24, 16
"""Samples that check and that prove, if there are enough, regardless of the time of a run."""
_SEED = 20240
_MAX_BYTES = 1 << 30
_FEWEST_KEPT = 300
# All candidates answer the samples that check; only finalists answer those that prove.
CHECKING_S = 0.25
_PROVING_S, _PROVING_RATIO_S = 6.0, 1.0


class SampleLimits(msgspec.Struct, frozen=True):
    """Maximum numbers of samples that check and prove."""

    checking: int = FEWEST_CHECKING
    proving: int = FEWEST_PROVING


class Split(msgspec.Struct, frozen=True):
    """Counts and places within the samples, in their order."""

    calibration_count: int
    check_first: int
    check_count: int
    prove_first: int
    prove_count: int

    @property
    def is_shared(self) -> bool:
        """Whether the same samples check and prove."""
        return self.check_first == self.prove_first

    @property
    def is_set_aside(self) -> bool:
        """Whether nothing before the proof uses the samples that prove."""
        return self.calibration_count > 0 and not self.is_shared

    @property
    def check(self) -> range:
        return range(self.check_first, self.check_first + self.check_count)

    @property
    def prove(self) -> range:
        return range(self.prove_first, self.prove_first + self.prove_count)


def split(count: int, from_user: bool, limits: SampleLimits | None = None) -> Split:
    """Returns the use of `count` samples; they calibrate only if they are `from_user`, not generated."""
    limits = limits or SampleLimits()
    if not from_user or count < FEWEST_TO_QUANTIZE:
        return Split(0, 0, count, 0, count)
    half = count // 2
    if count < FEWEST_TO_PART:
        return Split(half, half, count - half, half, count - half)
    calibrate = min(half, MAX_CALIBRATION_SAMPLES)
    left = count - calibrate
    check = min(max(left // 4, min(left // 2, FEWEST_CHECKING)), limits.checking)
    prove = min(left - check, limits.proving)
    return Split(calibrate, calibrate, check, count - prove, prove)


def limits_for(metric: "AccuracyMetric", run_ms: float, checking_s: float = CHECKING_S) -> SampleLimits:
    """Returns how many samples check and prove by this metric, for a model whose run takes `run_ms`.

    A ratio in dB settles with few samples. Counted answers need hundreds or thousands. `checking_s` limits the
    time in which one candidate answers the samples that check.
    """
    proving_s = _PROVING_S if metric.is_counted else _PROVING_RATIO_S
    proving = min(metric.most_samples, int(1e3 * proving_s / max(run_ms, 1e-3)))
    checking = int(1e3 * checking_s / max(run_ms, 1e-3)) if metric.is_counted else 0
    return SampleLimits(
        max(FEWEST_CHECKING, min(metric.most_samples // 10, checking)), max(FEWEST_PROVING, proving)
    )


def spread(count: int, sample_bytes: int, labels: "Labels | None" = None) -> NDArray[np.intp]:
    """Returns places in a fixed random order, so that each part of a split is a sample of the whole file.

    With one class number for each sample, every stretch of the order has the classes in proportion. Of data
    that takes more than 1 GiB, only as many samples are kept.
    """
    generator = np.random.default_rng(_SEED)
    order = generator.permutation(count)
    if labels is not None and labels.shape == (count,):
        rank = np.empty(count)
        for label in np.unique(labels):
            own = order[labels[order] == label]
            rank[own] = (np.arange(len(own)) + generator.random()) / len(own)
        order = np.argsort(rank, kind="stable")
    kept = max(_FEWEST_KEPT, _MAX_BYTES // max(1, sample_bytes))
    return order[:kept]
