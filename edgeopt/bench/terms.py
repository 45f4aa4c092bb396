"""Who takes turns, and in what one differs from another: when it looks, how sure it is, and who leaves.

All of them run by the same loops: rounds in turns (`rounds`), and legs of fresh processes (`pairs`).
"""

from typing import Literal

import msgspec

LOOKS = (3, 4, 6, 9, 13, 19, 28, 41)
LUCK_PERCENT = 4.0
"""Two processes of one model may differ by so much for their whole life; fresh ones average it out."""
_A_PROOF_PERCENT = 2.0


class Turns(msgspec.Struct, frozen=True):
    """One who takes turns."""

    name: str
    looks: tuple[int, ...]
    """It may end after so many legs, or rounds where there are no legs; between them it is not judged, for every
    look may err. The last one ends it, unless who asks says how many rounds there are."""
    rule: Literal["all", "clear", "gain", "best", "apart"] = "all"
    """Before the last look it is over never; when every answer is clear, or the difference is proved to be next to
    nothing; when every answer is clear, or the gain too small to be waited for; when one alone is left; when two
    are further apart than `same_percent`."""
    fewest: int = 1
    """So many legs or rounds are run however late it is."""
    falls: Literal["leaves", "ends it"] = "leaves"
    """What becomes of it when one crashes, hangs or answers nonsense."""
    error: float = 0.0
    """The chance, over all looks, of calling a difference where none is; 0: nothing is called."""
    same_percent: float = 0.0
    """A smaller difference is not worth a verdict."""
    keeps: tuple[float, ...] = ()
    """Who has less than this share of the best speed leaves at a look: a share for each look."""
    legs: tuple[int, ...] = ()
    """So many legs of fresh processes at most, of the first who is tried, and of those behind it."""
    leg_rounds: tuple[int, int] = (0, 0)
    """So many rounds at least, where there is time, and at most; a start that takes long is worth more of them."""

    @property
    def most(self) -> int:
        return self.looks[-1]


# `edgeopt bench` judges. Eight rounds have seen every order of two sides twice.
CONTEST = Turns("contest", LOOKS, "clear", 0, error=0.02, same_percent=1.0, legs=(max(LOOKS),), leg_rounds=(8, 24))
# One false "faster" in forty searches at most, however often it looks and however many candidates it tries: half
# of what each contest may err calls the candidate slower. When four in a row fail their proof, something other
# than the candidate is wrong.
PROOF = Turns(
    *("proof of a search", LOOKS, "gain", 3, "ends it"),
    error=2 * 0.025 / 4,
    same_percent=_A_PROOF_PERCENT,
    legs=(13, 6, 6, 6),
    leg_rounds=(4, 8),
)
# One false "faster" in forty, of `quantize` and of `replay`.
QUANTIZED = msgspec.structs.replace(PROOF, name="proof of a file", error=0.05, legs=(9,))
# Two processes in the same state for all rounds may be told apart by luck alone; cold starts have one each.
COLD = Turns("cold starts", (9,), error=0.02, same_percent=1.0)
PACED = Turns("paced", (9,), error=0.02, same_percent=LUCK_PERCENT)
CONCURRENT = Turns("several at once", (11,), error=0.02, same_percent=LUCK_PERCENT)
# Early looks are short and forgiving: they only tell the hopeless; the last ones tell apart what is close.
OPENING = Turns("opening", (2, 5, 9), "best", 2, keeps=(0.5, 0.75, 0.88))
CALLS = Turns("callers and batches", (2, 6, 10), "best", 2, keeps=(0.75, 0.9, 0.94))
FINAL = Turns("final", (4, 10, 18, 26, 34), "best", 2, keeps=(0.9, 0.95, 0.97, 0.98, 0.98))
FIGURES = Turns("other figures than speed", (6,), "best", 2, keeps=(0.0,))
OPTIONS = Turns("options of two", (4, 5, 6, 7, 8), "apart", 2, "ends it", same_percent=5.0)
LOADS = Turns("loads of the baseline", (4,))
METERED = Turns("energy of all", (3,))
METERED_FINAL = Turns("energy of the least", (8,))
METERED_PROOF = Turns("energy of a proof", (11,))
GAPS = Turns("sizes between buckets", (6,), falls="ends it")
PLANS = Turns("plans of quantization", (11,))
LAYERS = Turns("kernels of layers", (2,))
OPERATORS = Turns("single operators", (3,))

TABLE = (
    *(CONTEST, PROOF, QUANTIZED, COLD, PACED, CONCURRENT, OPENING, CALLS, FINAL, FIGURES, OPTIONS, LOADS),
    *(METERED, METERED_FINAL, METERED_PROOF, GAPS, PLANS, LAYERS, OPERATORS),
)
