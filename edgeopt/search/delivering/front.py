"""Who is on the front: nobody else is at once as fast, as accurate, and as small in memory and in size."""

from collections.abc import Sequence
from typing import NamedTuple

from edgeopt.search.outcome import CandidateReport

EXACT_DB = 80.0
"""All that is as exact as this only rounds, and is alike."""
IN_THE_RACE = ("winner", "lost")
"""Those below the floor and those that failed may not be delivered."""
_WINNER = "winner"
# Smaller differences are chance or not worth a choice. Accuracy in decibels, the others as a share.
_TIME, _ACCURACY_DB, _MEMORY, _SIZE = 0.02, 1.0, 0.03, 0.01
_UNKNOWN = float("inf")


class Figures(NamedTuple):
    """Of one candidate; times may be in any unit, as long as it is the same for all."""

    status: str
    time: float | None
    accuracy_db: float | None
    memory_bytes: int | None = None
    size_bytes: int | None = None


def front_of(candidates: Sequence[CandidateReport]) -> tuple[str, ...]:
    """The names of those on the front, by their speed against the baseline."""
    places = front([_figures(each) for each in candidates])
    return tuple(candidates[place].candidate.name for place in places)


def front(field: Sequence[Figures]) -> list[int]:
    """Their places, the fastest first; the winner is always among them, as it alone was proved."""
    able = [
        place
        for place, each in enumerate(field)
        if each.status in IN_THE_RACE and each.time is not None and each.accuracy_db is not None
    ]
    able.sort(key=lambda place: _losses(field[place]))
    found: list[int] = []
    for place in able:
        if field[place].status == _WINNER or not any(_covers(field[one], field[place]) for one in found):
            found.append(place)
    # Those that are faster by less than counts, and behind in what does.
    for place in list(found):
        others = [field[one] for one in found if one != place]
        mine = field[place]
        if mine.status != _WINNER and any(_covers(one, mine) and not _covers(mine, one) for one in others):
            found.remove(place)
    return found


def _covers(one: Figures, other: Figures) -> bool:
    """Whether the one is no worse than the other in any objective, within the tolerances."""
    alike = (1 + _TIME, 0.0), (1.0, _ACCURACY_DB), (1 + _MEMORY, 0.0), (1 + _SIZE, 0.0)
    return all(
        mine <= its * factor + more
        for mine, its, (factor, more) in zip(_losses(one), _losses(other), alike, strict=True)
    )


def _losses(each: Figures) -> tuple[float, float, float, float]:
    """Less is better in each; what is not known is no reason to choose it."""
    return (
        _UNKNOWN if each.time is None else each.time,
        -min(EXACT_DB, each.accuracy_db or 0.0),
        _UNKNOWN if each.memory_bytes is None else float(each.memory_bytes),
        _UNKNOWN if each.size_bytes is None else float(each.size_bytes),
    )


def _figures(each: CandidateReport) -> Figures:
    time = 1 / each.speedup.median if each.speedup else None
    peak = each.memory.peak_bytes if each.memory else None
    return Figures(each.status, time, each.accuracy_db, peak, each.size_bytes)
