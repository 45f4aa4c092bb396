"""Schedules of interleaved runs: when a result is judged, how certain it must be, and which sides leave.

All of them use the same loops: interleaved rounds (`rounds`), and legs of fresh processes (`legs`).
"""

import math
from typing import Literal

import msgspec

LOOKS = (3, 4, 6, 9, 13, 19, 28, 41)
PROOF_LOOKS = (8, 12, 18)
"""Of a proof: Student's factor is 5 with eight legs and 22 with three."""
LUCK_PERCENT = 4.0
"""Two processes of one model may differ by this for their whole life; fresh ones average it out."""


class Schedule(msgspec.Struct, frozen=True):
    """The schedule of one kind of measurement."""

    name: str
    looks: tuple[int, ...]
    """Legs, or rounds without legs, after which it may end; it is not judged between them, because every
    look may err. The last one ends it, unless who asks says how many rounds there are."""
    fewest: int = 1
    """The legs or rounds that run regardless of the time."""
    falls: Literal["leaves", "ends it"] = "leaves"
    """What becomes of it when one crashes, hangs or answers nonsense."""
    error: float = 0.0
    """The chance, over all looks, of calling a difference where none is; 0: nothing is called."""
    look_share: float = 0.13
    """The share of `error` at each look, so that all looks together err as often as they may: simulated with
    independent normal noise, see tests/measure/test_sequential.py."""
    same_percent: float = 0.0
    """A smaller difference is not worth a verdict."""
    at_most_percent: float = 0.0
    """It is over when a difference is proved to be smaller than this."""
    patient: int = 0
    """The legs after which it ends if the gain is negligible, because that may never be clear; 0: never."""
    apart_percent: float = math.inf
    """It is over at a look where two are further apart than this."""
    keeps: tuple[float, ...] = ()
    """Who has less than this share of the best speed leaves: one for each look. It is over when one is left."""
    fewest_legs: int = 0
    """No difference is called with fewer legs."""
    legs: tuple[int, ...] = ()
    """The most legs of fresh processes, for the first candidate and for those behind it."""
    leg_rounds: tuple[int, int] = (0, 0)
    """The fewest rounds, if there is time, and the most; a slow start is worth more of them."""
    rotates: bool = False
    """Each leg begins with another side; otherwise the order goes on from leg to leg."""

    @property
    def most(self) -> int:
        return self.looks[-1]


# `edgeopt bench` judges. Eight rounds have seen every order of two sides twice.
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
# One false "faster" in forty searches at most, however often it looks and however many candidates it tries: half
# of what each contest may err calls the candidate slower. When four in a row fail their proof, something other
# than the candidate is wrong.
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
# One false "faster" in forty, of `quantize` and of `replay`.
QUANTIZED = msgspec.structs.replace(PROOF, name="proof of a file", error=0.05, legs=(12,))
# Two processes in the same state for all rounds may be told apart by luck alone; cold starts have one each.
COLD = Schedule("cold starts", (9,), error=0.02, same_percent=1.0)
PACED = Schedule("paced", (9,), error=0.02, same_percent=LUCK_PERCENT)
CONCURRENT = Schedule("several at once", (11,), error=0.02, same_percent=LUCK_PERCENT)
# Early looks are short and forgiving: they only tell the hopeless; the last ones tell apart what is close.
OPENING = Schedule("opening", (2, 5, 9), 2, keeps=(0.5, 0.75, 0.88))
TUNING = Schedule("callers and batches", (2, 6, 10), 2, keeps=(0.75, 0.9, 0.94))
FINAL = Schedule("final", (4, 10, 18, 26, 34), 2, keeps=(0.9, 0.95, 0.97, 0.98, 0.98))
# Enough rounds for an interval; nobody leaves, as what comes later may be slower still.
FIGURES = Schedule("other figures than speed", (6,), 2, keeps=(0.0,))
# Two that are close have a few rounds more.
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
    *(CONTEST, PROOF, QUANTIZED, COLD, PACED, CONCURRENT, OPENING, TUNING, FINAL, FIGURES, OPTIONS, LOADS),
    *(ALONE, METERED, METERED_FINAL, METERED_PROOF, GAPS, PLANS, LAYERS, OPERATORS),
)
