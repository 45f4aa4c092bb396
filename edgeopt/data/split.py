"""Which samples calibrate, which screen, and which prove: no sample does two of these where there are enough."""

import msgspec

# More samples move the ranges little and cost calibration time; the libraries' own examples use 100 to 300.
MOST_CALIBRATION_SAMPLES = 100
FEWEST_TO_QUANTIZE = 4
"""From this number on, samples are halved: one half calibrates, the other checks and proves."""
# With fewer, one or two samples would have to tell what a variant does on all others.
FEWEST_TO_PART = 12
"""From here on those that check do not prove."""
_MOST_TO_CHECK = 24
_MOST_TO_PROVE = 16


class Split(msgspec.Struct, frozen=True):
    """Counts and places within the samples given, in their order."""

    calibration_count: int
    check_first: int
    check_count: int
    prove_first: int
    prove_count: int

    @property
    def is_shared(self) -> bool:
        """Whether the samples that check are those that prove."""
        return self.check_first == self.prove_first

    @property
    def check(self) -> range:
        return range(self.check_first, self.check_first + self.check_count)

    @property
    def prove(self) -> range:
        return range(self.prove_first, self.prove_first + self.prove_count)


def split(count: int, given: bool) -> Split:
    """How to use this number of samples; `given` means that they are the user's and not generated."""
    if not given or count < FEWEST_TO_QUANTIZE:
        return Split(0, 0, count, 0, count)
    half = count // 2
    if count < FEWEST_TO_PART:
        return Split(half, half, count - half, half, count - half)
    prove = min((count - half) // 2, _MOST_TO_PROVE)
    check = min(count - half - prove, _MOST_TO_CHECK)
    return Split(min(half, MOST_CALIBRATION_SAMPLES), half, check, count - prove, prove)
