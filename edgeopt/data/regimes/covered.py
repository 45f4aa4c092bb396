"""Whether samples cover more than one regime: what is proved on samples alike is proved for such alone."""

import msgspec

from edgeopt.data.regimes.levels import FEWEST, level_of
from edgeopt.data.samples import Samples

ALIKE = 2.0
"""The loudest sample is less than this many times as loud as the quietest."""
MOST_SAMPLES = 64


class Alike(msgspec.Struct, frozen=True):
    """A floating-point input whose samples all have about the same level (the root of the mean square)."""

    input_name: str
    lowest: float
    highest: float

    @property
    def warning(self) -> str:
        """What that means for a proof."""
        low, high = f"{self.lowest:.2g}", f"{self.highest:.2g}"
        level = f"at a level of {low}" if low == high else f"at levels from {low} to {high}"
        return (
            f"All samples of the input '{self.input_name}' are {level}: the proof does not cover inputs "
            "that are much quieter or louder. Add such samples if the model will receive them."
        )


def alike_inputs(samples: Samples) -> tuple[Alike, ...]:
    """The floating-point inputs whose samples all have one level; inputs of single numbers are left out."""
    count = min(len(samples), MOST_SAMPLES)
    if count < FEWEST:
        return ()
    found = []
    for name, array in samples.arrays.items():
        if array.dtype.kind != "f" or array[0].size < FEWEST:
            continue
        levels = [level_of(samples.feeds(k)[name]) for k in range(count)]
        low, high = min(levels), max(levels)
        if 0 < high < ALIKE * low:
            found.append(Alike(name, low, high))
    return tuple(found)
