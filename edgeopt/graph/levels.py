"""How close outputs are on the samples of each level: a ratio over all samples together is that of the loudest.

Samples are of one level where each input is about as loud in both. Loudness is that of inputs and not of outputs:
a chance near zero is an answer like another, while an input of a hundredth of the size is another regime.
"""

import math
from collections.abc import Sequence

import msgspec

from edgeopt.graph.accuracy import EQUAL_DB, Accuracy, OutputAccuracy, decibels, ratio_db, snr_lower_bound

Level = tuple[float, ...]
"""Of each input of a sample that has one, the root of the mean square."""

SPAN = math.sqrt(10.0)
"""The loudest sample of a level is at most 10 dB above its quietest."""
SILENT_SHARE = 1e-13
"""Beside an output of this many times its power, another is what rounding in float32 leaves of zero."""
_SILENCE = 1 << 30


class LevelAccuracy(msgspec.Struct, frozen=True):
    """One output on the samples of one level."""

    output: str
    snr_db: float
    low_db: float
    """What resampling says that it may be on other samples of this level."""
    samples: int
    share: float
    """Of the loudest sample's level, that of the loudest here; of the input in which that is least."""
    levels: int
    """How many there are."""

    @property
    def sentence(self) -> str:
        """For people."""
        return f"Of {self.levels} levels of input the weakest decides: {self.where}."

    @property
    def where(self) -> str:
        """The end of a sentence: what, how close and on which samples."""
        some = "1 sample" if self.samples == 1 else f"{self.samples} samples"
        where = "of silence" if not self.share else f"at {self.share:.2g} of the loudest"
        if self.share >= 1:
            where = "of the loudest level"
        has = "is equal" if self.snr_db >= EQUAL_DB else f"has {decibels(self.snr_db)}"
        return f"'{self.output}' {has} on the {some} {where}"


def groups_of(levels: Sequence[Level]) -> list[list[int]]:
    """The places of the samples of each level, the loudest first; one group where no input tells."""
    tops = [max(column) for column in zip(*levels, strict=True)]
    found: dict[tuple[int, ...], list[int]] = {}
    for place, level in enumerate(levels):
        key = tuple(_steps(top, own) for top, own in zip(tops, level, strict=True))
        found.setdefault(key, []).append(place)
    return [found[key] for key in sorted(found, key=lambda key: (sum(key), key))]


def by_level(accuracy: Accuracy, levels: Sequence[Level]) -> list[LevelAccuracy]:
    """Each output on each level, from an accuracy that still has its figures for each sample.

    Empty if the samples are of one level, or nothing can be compared. An output that is practically zero on a
    level gives no scale for errors there: they count with those of the level where it is
    largest. Integers and texts are left out.
    """
    groups = groups_of(levels)
    if accuracy.problem or len(groups) < 2:
        return []
    shares = [_share(group, levels) for group in groups]
    return [
        one
        for output in accuracy.outputs
        if not (output.counted or output.silent) and len(output.noise_power) == len(levels)
        for one in _of_output(output, groups, shares)
    ]


def _of_output(
    output: OutputAccuracy, groups: Sequence[Sequence[int]], shares: Sequence[float]
) -> list[LevelAccuracy]:
    powers = [sum(output.signal_power[k] for k in group) / len(group) for group in groups]
    top = max(range(len(groups)), key=powers.__getitem__)
    silent = [k for k, power in enumerate(powers) if power <= SILENT_SHARE * powers[top]]
    found: list[LevelAccuracy] = []
    for place, group in enumerate(groups):
        if place in silent:
            continue
        own = [*group, *(k for other in silent for k in groups[other])] if place == top else group
        pairs = [(output.noise_power[k], output.signal_power[k]) for k in own]
        snr_db = ratio_db(sum(noise for noise, _ in pairs), sum(signal for _, signal in pairs))
        low_db = snr_lower_bound(pairs)
        found.append(LevelAccuracy(output.name, snr_db, low_db, len(own), shares[place], len(groups)))
    return found


def _steps(top: float, own: float) -> int:
    """How many spans quieter than the loudest."""
    if own <= 0 or top <= 0:
        return _SILENCE if top > 0 else 0
    return int(math.log(top / own) / math.log(SPAN))


def _share(group: Sequence[int], levels: Sequence[Level]) -> float:
    tops = [max(column) for column in zip(*levels, strict=True)]
    own = [max(levels[k][place] for k in group) for place in range(len(tops))]
    return min((mine / top for mine, top in zip(own, tops, strict=True) if top > 0), default=1.0)
