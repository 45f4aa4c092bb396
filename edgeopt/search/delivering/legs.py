"""How many legs of fresh processes a candidate may take to prove itself, and what may be called faster then."""

from edgeopt.measure.legs import Terms
from edgeopt.measure.terms import PROOF
from edgeopt.search.objectives import Objective
from edgeopt.search.stopping import Ending


def terms_of(objective: Objective, ending: Ending, most: int, rivals: int, today: int) -> Terms:
    """The terms of a proof against `rivals` ways to run the baseline and `today` to run the incumbent."""

    def is_stopped() -> bool:
        if ending.is_asked:
            ending.announce()
        return ending.is_asked

    alone = bool(today) and objective.figure is None
    wanted = range(rivals if alone else 0, rivals + today)
    return Terms(PROOF, most, ending.proofs_end_s, wanted, is_stopped)
