"""Findings of calibration: problems of the data and the model that show in the values of tensors."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.ranges import ObservedRange, noise_db
from edgeopt.quant.records import QuantFinding, Range

# A sample is an outlier if it reaches this many times as far as the median, with a gap to the others, unless many
# samples do.
_FAR, _GAP = 3.0, 1.5
_FEW_SHARE = 0.1
_FEWEST_SAMPLES = 5
# With one scale for all channels, the median channel has only 255 / 20 steps for its values.
_UNEVEN = 20.0
# A range clips too much if it loses this many decibels more than the whole range.
_CUT_OFF_DB = 3.0
_NAMED = 3


def findings_of(seen: Mapping[str, ObservedRange], ranges: Mapping[str, Range]) -> tuple[QuantFinding, ...]:
    """Returns the findings, the most severe first; an outlier in many tensors is reported for the first."""
    finite = [one for one in seen.values() if not one.not_finite]
    odd, outliers = _outliers(finite)
    # The finding on an odd sample covers its effect on the channels.
    ordinary = [one for one in finite if one.tensor not in odd]
    return (
        *(_not_finite(one) for one in seen.values() if one.not_finite),
        *outliers,
        *(_constant(one) for one in finite if _is_constant(one)),
        *(found for one in finite if (found := _cut_off(one, ranges.get(one.tensor)))),
        *(found for one in ordinary if (found := _dead_channels(one))),
        *(found for one in ordinary if (found := _uneven_channels(one))),
    )


def _not_finite(seen: ObservedRange) -> QuantFinding:
    where = _listed(seen.not_finite)
    sentence = f"'{seen.tensor}' holds NaN or infinity on {where}: it has no range, so its consumers stay float."
    return QuantFinding("not finite", seen.tensor, sentence, seen.not_finite[0])


def _outliers(tensors: Sequence[ObservedRange]) -> tuple[set[str], list[QuantFinding]]:
    """Returns the tensors with outliers, and one finding for each outlier, at the first tensor that shows it."""
    first: dict[int, tuple[ObservedRange, float, float]] = {}
    times: dict[int, int] = {}
    odd: set[str] = set()
    for seen in tensors:
        reaches = np.maximum(-seen.lows, seen.highs)
        if len(reaches) < _FEWEST_SAMPLES:
            continue
        middle = float(np.median(reaches))
        for sample in _far(reaches, middle):
            first.setdefault(sample, (seen, float(reaches[sample]), middle))
            times[sample] = times.get(sample, 0) + 1
            odd.add(seen.tensor)
    return odd, [_outlier(sample, *first[sample], times[sample]) for sample in sorted(first)]


def _far(reaches: Array, middle: float) -> list[int]:
    """Returns the samples that are far from all others, or none if more than a few samples are."""
    beyond = reaches > _FAR * middle
    if middle <= 0 or beyond.sum() > max(1, int(_FEW_SHARE * len(reaches))):
        return []
    return [int(k) for k in np.flatnonzero(beyond & (reaches > _GAP * reaches[~beyond].max()))]


def _outlier(sample: int, seen: ObservedRange, reach: float, middle: float, times: int) -> QuantFinding:
    also = f", and as odd in {times - 1} more" if times > 1 else ""
    sentence = (
        f"Sample {sample} reaches {reach:.3g} in '{seen.tensor}', where others reach "
        f"{middle:.3g}{also}: this sample makes all steps coarser. Remove it if it is an error, or "
        "try --calibration mse."
    )
    return QuantFinding("outlier", seen.tensor, sentence, sample)


def _is_constant(seen: ObservedRange) -> bool:
    return seen.elements > 1 and seen.low == seen.high


def _constant(seen: ObservedRange) -> QuantFinding:
    sentence = (
        f"'{seen.tensor}' is {seen.low:.3g} everywhere on all samples: other values would be clipped. "
        "Give samples with other values."
    )
    return QuantFinding("constant", seen.tensor, sentence)


def _cut_off(seen: ObservedRange, kept: Range | None) -> QuantFinding | None:
    if kept is None or seen.histogram is None:
        return None
    left_db = noise_db(seen.histogram, kept)
    whole_db = noise_db(seen.histogram, Range(min(seen.low, 0.0), max(seen.high, 0.0)))
    if left_db > whole_db - _CUT_OFF_DB:
        return None
    sentence = (
        f"The range of '{seen.tensor}', {kept.low:.3g} to {kept.high:.3g}, clips values from "
        f"{seen.low:.3g} to {seen.high:.3g} and leaves it {left_db:.0f} dB, the whole range "
        f"{whole_db:.0f} dB: try another --calibration."
    )
    return QuantFinding("cut off", seen.tensor, sentence)


def _dead_channels(seen: ObservedRange) -> QuantFinding | None:
    reaches = _channel_reaches(seen)
    if reaches is None:
        return None
    dead = np.flatnonzero(reaches == 0)
    if not 0 < len(dead) < len(reaches):
        return None
    sentence = (
        f"{len(dead)} of {len(reaches)} channels of '{seen.tensor}' are 0 on all samples: either the "
        "samples do not reach them, or the model does not need them."
    )
    return QuantFinding("dead channels", seen.tensor, sentence)


def _uneven_channels(seen: ObservedRange) -> QuantFinding | None:
    reaches = _channel_reaches(seen)
    if reaches is None or not (reaches > 0).any():
        return None
    middle, top = float(np.median(reaches[reaches > 0])), int(np.argmax(reaches))
    if reaches[top] < _UNEVEN * middle:
        return None
    sentence = (
        f"Channel {top} of '{seen.tensor}' reaches {reaches[top]:.3g}, the middle one of {len(reaches)} "
        f"{middle:.3g}: one scale leaves most of them few steps. Try --keep-float for its layers."
    )
    return QuantFinding("uneven channels", seen.tensor, sentence)


def _channel_reaches(seen: ObservedRange) -> Array | None:
    if seen.channel_lows is None or seen.channel_highs is None or len(seen.channel_lows) < 2:
        return None
    return np.asarray(np.maximum(-seen.channel_lows, seen.channel_highs).astype(np.float64))


def _listed(samples: Sequence[int]) -> str:
    named = ", ".join(str(sample) for sample in samples[:_NAMED])
    more = f" and {len(samples) - _NAMED} more" if len(samples) > _NAMED else ""
    return f"{'sample' if len(samples) == 1 else 'samples'} {named}{more}"
