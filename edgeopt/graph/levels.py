"""Accuracy by input level and of single samples, which a ratio over all samples hides.

Loud samples dominate a ratio over all samples. Two samples are of one level if each input is about as loud in
both. Loudness is measured on the inputs, not the outputs: a probability near zero is an ordinary answer, while an
input of a hundredth of the size is a different distribution.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from edgeopt.graph.accuracy import (
    EQUAL_DB,
    SILENT_POWER,
    Accuracy,
    OutputAccuracy,
    decibels,
    ratio_db,
    snr_lower_bound,
)

Level = tuple[float, ...]
"""Root mean square of each input of a sample that has one."""

SPAN = math.sqrt(10.0)
"""Ratio of the loudest to the quietest sample of a level (10 dB)."""
SILENT_SHARE = 1e-13
"""Share of an output's highest power below which it counts as the rounding of zero in float32."""
_SILENCE = 1 << 30


class LevelAccuracy(msgspec.Struct, frozen=True):
    """Accuracy of one output on the samples of one level."""

    output: str
    snr_db: float
    low_db: float
    """Lower bound of the SNR on other samples of this level, in dB, by resampling."""
    samples: int
    share: float
    """Loudness of this level relative to the loudest (1.0 = equal), in the input with the lowest ratio."""
    levels: int
    """Number of levels."""

    @property
    def sentence(self) -> str:
        """Message that names the level with the lowest accuracy."""
        return f"Of {self.levels} levels of input the weakest decides: {self.where}."

    @property
    def where(self) -> str:
        """End of a sentence: the output, its accuracy, and the samples."""
        some = "1 sample" if self.samples == 1 else f"{self.samples} samples"
        where = "of silence" if not self.share else f"at {self.share:.2g} of the loudest"
        if self.share >= 1:
            where = "of the loudest level"
        has = "is equal" if self.snr_db >= EQUAL_DB else f"has {decibels(self.snr_db)}"
        return f"'{self.output}' {has} on the {some} {where}"


def groups_of(levels: Sequence[Level]) -> list[list[int]]:
    """Returns the indices of the samples of each level, the loudest first; one group if no input has a level."""
    tops = [max(column) for column in zip(*levels, strict=True)]
    found: dict[tuple[int, ...], list[int]] = {}
    for place, level in enumerate(levels):
        key = tuple(_steps(top, own) for top, own in zip(tops, level, strict=True))
        found.setdefault(key, []).append(place)
    return [found[key] for key in sorted(found, key=lambda key: (sum(key), key))]


def by_level(accuracy: Accuracy, levels: Sequence[Level]) -> list[LevelAccuracy]:
    """Computes the accuracy of each output on each level, from the figures for each sample.

    Empty if all samples are of one level or the outputs cannot be compared. An output that is practically zero on
    a level gives no scale for errors there: its samples of that level count in the level with its highest power.
    Integers and texts are skipped.
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
    """Returns how many spans an input is quieter than the loudest sample."""
    if own <= 0 or top <= 0:
        return _SILENCE if top > 0 else 0
    return int(math.log(top / own) / math.log(SPAN))


def _share(group: Sequence[int], levels: Sequence[Level]) -> float:
    tops = [max(column) for column in zip(*levels, strict=True)]
    own = [max(levels[k][place] for k in group) for place in range(len(tops))]
    return min((mine / top for mine, top in zip(own, tops, strict=True) if top > 0), default=1.0)


JUMP_DB, JUMP_BELOW_DB = 15.0, 50.0
"""Distance in dB below the median sample at which a sample is an outlier, if its SNR is below 50 dB."""
FAR_DB = 10.0
"""Distance below the floor, in dB, that marks a weak sample; a single sample often deviates by less."""


QUIETEST = 1e-6
"""Smallest sample power that counts, as a share of the output's usual power. A detector answers pictures without
an object by numbers near zero, which no two kernels round alike."""

Usual = Mapping[str, float]
"""Mean power of each output over other samples, because the samples at hand may all be quiet."""


class WeakSamples(msgspec.Struct, frozen=True):
    count: int
    of: int
    worst_db: float
    output: str
    """Output in which the worst sample has `worst_db`."""

    @property
    def warning(self) -> str:
        """Warning for a result that passes as a whole."""
        are = "is" if self.count == 1 else "are"
        return (
            f"{self.count} of the {self.of} samples that prove the result {are} far below the floor taken alone, "
            f"the worst at {self.worst_db:.1f} dB in the output '{self.output}': others with larger outputs "
            "outweigh it. Where such inputs count as much, ask for a higher floor, or judge by a metric of your "
            "task."
        )


class Tail(msgspec.Struct, frozen=True):
    """Summary of the samples with the lowest ratios."""

    lowest_db: float
    tenth_db: float
    """Mean ratio of the worst tenth of the samples (at least one), in dB."""
    output: str = ""
    """Output in which the worst sample has `lowest_db`."""
    jumps: int = 0
    """Number of samples whose ratio is more than 15 dB below that of the middle sample."""
    middle_db: float = 0.0

    @property
    def warning(self) -> str:
        """Warning about outliers; empty if there are none."""
        if not self.jumps:
            return ""
        one = self.jumps == 1
        return (
            f"{self.jumps} of the samples that prove the result {'jumps' if one else 'jump'} in the output "
            f"'{self.output}': {decibels(self.lowest_db)} at worst, where the middle sample has "
            f"{decibels(self.middle_db)}. Small errors are enlarged there, as at the edge between two answers."
        )


def usual_power(accuracy: Accuracy) -> Usual:
    """Returns the mean power of each output; needs an accuracy with its figures for each sample."""
    return {
        each.name: math.fsum(each.signal_power) / len(each.signal_power)
        for each in accuracy.outputs
        if each.signal_power
    }


def tail_of(accuracy: Accuracy, usual: Usual | None = None) -> Tail | None:
    """Summarizes the samples with the lowest ratios, from the figures for each sample; None if none differs."""
    found = sorted(_by_sample(accuracy, usual or {}).values())
    if not found:
        return None
    count = len(accuracy.outputs[0].noise_power)
    ratios = [ratio for ratio, _ in found]
    tenth = ratios[: max(1, round(count / 10))]
    # Samples without any difference rank above the median.
    middle_db = ratios[count // 2] if count // 2 < len(ratios) else EQUAL_DB
    jumps = sum(ratio < min(middle_db - JUMP_DB, JUMP_BELOW_DB) for ratio in ratios)
    return Tail(ratios[0], math.fsum(tenth) / len(tenth), found[0][1], jumps, middle_db)


def weak_samples(accuracy: Accuracy, floor_db: float, usual: Usual | None = None) -> WeakSamples | None:
    """Counts the samples far below the floor, from the figures for each sample; None if there are none."""
    if not math.isfinite(floor_db):
        return None
    weak = [found for found in _by_sample(accuracy, usual or {}).values() if found[0] < floor_db - FAR_DB]
    if not weak:
        return None
    lowest_db, name = min(weak)
    return WeakSamples(len(weak), len(accuracy.outputs[0].noise_power), lowest_db, name)


def _by_sample(accuracy: Accuracy, usual: Usual) -> dict[int, tuple[float, str]]:
    """Returns the lowest ratio over the outputs and that output, for each sample that differs."""
    if accuracy.problem:
        return {}
    worst: dict[int, tuple[float, str]] = {}
    here = usual_power(accuracy)
    for output in accuracy.outputs:
        if output.counted or output.silent:
            continue
        minimum = QUIETEST * max(here[output.name], usual.get(output.name, 0.0))
        for place, (noise, signal) in enumerate(zip(output.noise_power, output.signal_power, strict=True)):
            if noise > 0 and signal > SILENT_POWER:
                ratio_db = 10 * math.log10(max(signal, minimum) / noise)
                worst[place] = min(worst.get(place, (math.inf, "")), (ratio_db, output.name))
    return worst
