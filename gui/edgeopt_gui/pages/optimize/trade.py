"""Losses and gains if another candidate is delivered instead of the winner."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.views.words import MEMORY, accuracy, memory, ratio_of, size

if TYPE_CHECKING:
    from edgeopt.pipeline.outcome import CandidateReport, Outcome

_NOTED_BYTES = 0.02
"""Smallest difference to mention, as a share."""


def trade_of(report: "CandidateReport", result: "Outcome") -> str:
    """Returns the losses and gains as a sentence; "" if the candidate cannot be delivered."""
    from edgeopt_gui.pages.optimize.result import can_be_delivered

    winner = next((each for each in result.candidates if each.candidate == result.winner), None)
    if report is winner or not can_be_delivered(report) or not result.is_cached:
        return ""
    if winner is None:  # what runs today was kept, which did not race
        return f"It had {ratio_of(report.speedup)} the speed of your model."
    parts = []
    if report.speedup and winner.speedup and winner.speedup.median > 0:
        parts.append(units.behind(report.speedup.median / winner.speedup.median).removesuffix(", too close"))
    if report.accuracy_db is not None and winner.accuracy_db is not None:
        mine, others = (accuracy(each.accuracy_db, each.tokens) for each in (report, winner))
        parts.append(f"accuracy {mine}" if mine == others else f"accuracy {mine} instead of {others}")
    mine_added, added = (each.memory.added_bytes if each.memory else None for each in (report, winner))
    if _noted(mine_added, added):
        parts.append(f"{MEMORY.lower()} {memory(report.memory)} instead of {memory(winner.memory)}")
    if _noted(report.size_bytes, winner.size_bytes):
        parts.append(f"files {size(report.size_bytes)} instead of {size(winner.size_bytes)}")
    differences = ", ".join(part for part in parts if part)
    against = "the one picked" if result.verdict == "picked" else "the winner"
    return f"Instead of {against}: {differences}." if differences else f"It was not measured against {against}."


def _noted(mine: int | None, others: int | None) -> bool:
    return mine is not None and others is not None and abs(mine - others) > _NOTED_BYTES * others
