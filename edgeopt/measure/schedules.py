"""Schedules of interleaved runs: when a result is judged, how certain it must be, and which sides leave.

All of them use the same loops: interleaved rounds (`rounds`), and legs of fresh processes (`legs`).
"""

import math
from typing import Literal

import msgspec

LOOKS = (3, 4, 6, 9, 13, 19, 28, 41)
PROOF_LOOKS = (8, 12, 18)
"""The looks of a proof, which start at eight legs: Student's factor is 5 with eight legs and 22 with three."""
LUCK_PERCENT = 4.0
"""Percent by which two processes of one model may differ for their whole life; fresh ones average it out."""


class Schedule(msgspec.Struct, frozen=True):
    """The schedule of one kind of measurement."""

    name: str
    looks: tuple[int, ...]
    """Legs, or rounds without legs, after which it is judged and may end; each look may err, so there are few.
    The last one is also the limit, unless the caller gives a number of rounds."""
    fewest: int = 1
    """The fewest legs or rounds, which run regardless of the time."""
    falls: Literal["leaves", "ends it"] = "leaves"
    """Effect of a side that crashes, hangs or gives an invalid answer."""
    error: float = 0.0
    """Chance, over all looks, of reporting a difference between equal sides; 0: no difference is reported."""
    look_share: float = 0.13
    """Share of `error` at each look, so that all looks together err as often as allowed: simulated with
    independent normal noise, see tests/measure/test_sequential.py."""
    same_percent: float = 0.0
    """Smallest difference that gives a verdict, in percent."""
    at_most_percent: float = 0.0
    """Difference in percent that ends the measurement once any difference is proved to be smaller."""
    patient: int = 0
    """Number of legs after which a negligible gain ends it, because that may never be clear; 0: never."""
    apart_percent: float = math.inf
    """Difference in percent between two sides that ends the measurement at a look."""
    keeps: tuple[float, ...] = ()
    """Least share of the best speed to stay, for each look; the measurement ends when one side is left."""
    fewest_legs: int = 0
    """The fewest legs for reporting a difference."""
    legs: tuple[int, ...] = ()
    """The most legs of fresh processes, for the first candidate and for each that follows."""
    leg_rounds: tuple[int, int] = (0, 0)
    """The fewest rounds of a leg, if there is time, and the most; a slow start leads to more rounds."""
    rotates: bool = False
    """Whether each leg begins with another side; otherwise the order continues from leg to leg."""

    @property
    def maximum(self) -> int:
        return self.looks[-1]

    def limited(self, rounds: int) -> "Schedule":
        """Returns the schedule with another number of rounds, after which it is judged."""
        return msgspec.structs.replace(self, looks=(rounds,))


# `edgeopt bench` judges by this schedule. Eight rounds include every order of two sides twice.
CONTEST = Schedule(
    "contest",
    LOOKS,
    fewest=0,
    error=0.02,
    same_percent=1.0,
    at_most_percent=2.0,
    legs=(max(LOOKS),),
    leg_rounds=(8, 24),
)
# At most one false "faster" in forty searches, over all looks and candidates: half of each contest's errors call
# the candidate slower. If four candidates in a row fail their proof, something else is wrong.
PROOF = Schedule(
    "proof of a search",
    PROOF_LOOKS,
    falls="ends it",
    error=2 * 0.025 / 4,
    look_share=0.3,
    same_percent=2.0,
    at_most_percent=2.0,
    patient=8,
    fewest_legs=8,
    legs=(18, 12, 8, 8),
    leg_rounds=(2, 8),
    rotates=True,
)
# `quantize` and `replay`: one false "faster" in forty.
QUANTIZED = msgspec.structs.replace(PROOF, name="proof of a file", error=0.05, legs=(12,))
# Two processes in the same state for all rounds may differ by luck alone; cold starts have fresh ones.
COLD = Schedule("cold starts", (9,), error=0.02, same_percent=1.0)
PACED = Schedule("paced", (9,), error=0.02, same_percent=LUCK_PERCENT)
# At least seven rounds, without which no verdict is certain enough, whatever the time limit.
GENERATING = Schedule("answers of language models", (15,), fewest=7, error=0.02, same_percent=LUCK_PERCENT)
CONCURRENT = Schedule("several at once", (11,), error=0.02, same_percent=LUCK_PERCENT)
# Early looks are short and lenient, to exclude slow sides only; the last ones separate similar speeds.
OPENING = Schedule("opening", (2, 5, 9), 2, keeps=(0.5, 0.75, 0.88))
TUNING = Schedule("callers and batches", (2, 6, 10), 2, keeps=(0.75, 0.9, 0.94))
FINAL = Schedule("final", (4, 10, 18, 26, 34), 2, keeps=(0.9, 0.95, 0.97, 0.98, 0.98))
# Enough rounds for an interval; no side is excluded, because a later candidate may be slower still.
FIGURES = Schedule("other figures than speed", (6,), 2, keeps=(0.0,))
# Two sides with similar speeds run some more rounds.
OPTIONS = Schedule("options of two", (4, 5, 6, 7, 8), 2, "ends it", apart_percent=5.0)
LOADS = Schedule("loads of the baseline", (4,))
ALONE = Schedule("a bundle of the baseline itself", (10,), fewest=2)
METERED = Schedule("energy of all", (3,))
METERED_FINAL = Schedule("energy of the least", (8,))
METERED_PROOF = Schedule("energy of a proof", (11,))
GAPS = Schedule("sizes between buckets", (6,))
PLANS = Schedule("plans of quantization", (11,))
LAYERS = Schedule("kernels of layers", (2,))
OPERATORS = Schedule("single operators", (3,))

TABLE = (
    *(CONTEST, PROOF, QUANTIZED, COLD, PACED, GENERATING, CONCURRENT, OPENING, TUNING, FINAL, FIGURES),
    *(OPTIONS, LOADS, ALONE, METERED, METERED_FINAL, METERED_PROOF, GAPS, PLANS, LAYERS, OPERATORS),
)
