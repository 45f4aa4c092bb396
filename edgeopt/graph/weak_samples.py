"""What single samples say, which a ratio over all samples together does not show.

Loud samples carry such a ratio: a quiet one beside them may be useless and hardly count.
"""

import math
from collections.abc import Mapping

import msgspec

from edgeopt.graph.accuracy import SILENT_POWER, Accuracy

FAR_DB = 10.0
"""So far below the floor; single samples are a little better or worse than all together anyway."""


QUIETEST = 1e-6
"""Of the usual power of an output: what a sample holds below that counts as this much. A detector answers pictures
without an object by numbers near zero, which no two kernels round alike."""

Usual = Mapping[str, float]
"""The mean power of each output on other samples: those at hand may all be quiet."""


class WeakSamples(msgspec.Struct, frozen=True):
    count: int
    of: int
    worst_db: float
    output: str
    """The output in which the worst is so."""

    @property
    def warning(self) -> str:
        """For people, where the rest of the result looks well."""
        are = "is" if self.count == 1 else "are"
        return (
            f"{self.count} of the {self.of} samples that prove the result {are} far below the floor taken alone, "
            f"the worst at {self.worst_db:.1f} dB in the output '{self.output}': others with larger outputs "
            "outweigh it. Where such inputs count as much, ask for a higher floor, or judge by a metric of your "
            "task."
        )


class Tail(msgspec.Struct, frozen=True):
    """The samples with the lowest ratios, each by itself."""

    lowest_db: float
    tenth_db: float
    """The mean of the worst tenth of the samples, of one at least."""


def usual_power(accuracy: Accuracy) -> Usual:
    """Of an accuracy that still has its figures for each sample."""
    return {
        each.name: math.fsum(each.signal_power) / len(each.signal_power)
        for each in accuracy.outputs
        if each.signal_power
    }


def tail_of(accuracy: Accuracy, usual: Usual | None = None) -> Tail | None:
    """Of an accuracy that still has its figures for each sample; None where no sample differs."""
    found = sorted(ratio_db for ratio_db, _ in _by_sample(accuracy, usual or {}).values())
    if not found:
        return None
    tenth = found[: max(1, round(len(accuracy.outputs[0].noise_power) / 10))]
    return Tail(found[0], math.fsum(tenth) / len(tenth))


def weak_samples(accuracy: Accuracy, floor_db: float, usual: Usual | None = None) -> WeakSamples | None:
    """Those of an accuracy that still has its figures for each sample; None without any."""
    if not math.isfinite(floor_db):
        return None
    weak = [found for found in _by_sample(accuracy, usual or {}).values() if found[0] < floor_db - FAR_DB]
    if not weak:
        return None
    lowest_db, name = min(weak)
    return WeakSamples(len(weak), len(accuracy.outputs[0].noise_power), lowest_db, name)


def _by_sample(accuracy: Accuracy, usual: Usual) -> dict[int, tuple[float, str]]:
    """The ratio of each sample in the output in which it is lowest, where it differs at all."""
    if accuracy.problem:
        return {}
    worst: dict[int, tuple[float, str]] = {}
    here = usual_power(accuracy)
    for output in accuracy.outputs:
        if output.counted or output.silent:
            continue
        least = QUIETEST * max(here[output.name], usual.get(output.name, 0.0))
        for place, (noise, signal) in enumerate(zip(output.noise_power, output.signal_power, strict=True)):
            if noise > 0 and signal > SILENT_POWER:
                ratio_db = 10 * math.log10(max(signal, least) / noise)
                worst[place] = min(worst.get(place, (math.inf, "")), (ratio_db, output.name))
    return worst
