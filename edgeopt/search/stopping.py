"""A search that is asked to end before its time: what is best so far is proved shortly, and handed out."""

import math
import threading
import time
from typing import Final

from edgeopt.bench.legs import SHORT_FEWEST, leg_rounds
from edgeopt.bench.rounds import slice_ms
from edgeopt.errors import StoppedError
from edgeopt.events import Log, Progress
from edgeopt.search.prepare import Search

STOPPING: Final = "stopping"
LAST_LOOK_S = 2.0
"""Those who have not raced when it is asked to end race for so long, so that there is one to prove."""
LEGS = (9, 4)
"""Of the best, and of the one behind it, at most, when there is little time to prove."""
# Of all processes of one leg, without what it takes to load the model.
_STARTING_S = 0.8


class Stop(threading.Event):
    """Once it is set, the search ends; any `threading.Event` does, this one also tells when that is worth it."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = False
        """Somebody but the baseline takes part: there may be something to hand out."""

    def interrupt(self) -> bool:
        """For the first Ctrl-C: whether the search comes to an end by itself, with something to show."""
        if self.ready:
            self.set()
        return self.ready


def takes_part(stop: threading.Event) -> None:
    """From here on there may be something to hand out."""
    if isinstance(stop, Stop):
        stop.ready = True


def cut_short(search: Search, phase: str, to_race: int = 0) -> None:
    """Notes, once, that the search was ended in this phase, and says what comes now.

    `to_race`: so many take part and have not raced yet.
    """
    if not search.cut_short:
        spent = time.monotonic() - search.begin
        search.cut_short = f"The search was stopped after {spent:.0f} s of {search.limit_s:.0f} s, while {phase}"
    tell(search, to_race)


def tell(search: Search, to_race: int = 0) -> None:
    """Says, once, that the search is ending and how long that takes."""
    if search.ends_at is not None:
        return
    left_s = _left_s(search, to_race)
    search.ends_at = time.monotonic() + left_s
    search.emit(Progress(STOPPING, "proving the best so far", time_left_s=left_s))
    told = f"Stopping: proving the best so far, about {math.ceil(left_s)} s; press Ctrl-C again to leave at once."
    search.emit(Log("info", told))


def legs(search: Search, place: int, usual: int) -> int:
    """In how many legs the candidate at this place may prove itself; 0: there is no time for it."""
    if not search.stop.is_set():
        return usual
    cut_short(search, "proving")
    late = place > 0 and search.ends_at is not None and time.monotonic() >= search.ends_at
    return min(usual, LEGS[place]) if place < len(LEGS) and not late else 0


def check(search: Search, phase: str) -> None:
    """Raises StoppedError where the search was asked to end and nobody takes part yet."""
    if search.stop.is_set():
        raise nothing_yet(search, phase)


def nothing_yet(search: Search, phase: str) -> StoppedError:
    kept = search.memory is not None and search.memory.store.on
    return StoppedError(
        f"Stopped while {phase}: nothing is proved faster yet; nothing was changed.",
        "What was made is in the cache: the same command goes on with it." if kept else "",
    )


def _left_s(search: Search, to_race: int) -> float:
    """By the source, which is seldom the faster; most proofs are clear as soon as they may be."""
    contender = search.baseline_contender
    run_ms = contender.slices_ms[-1] if contender.slices_ms else contender.loaded.first_run_ms
    slice_s = max(slice_ms(run_ms), run_ms) / 1e3
    racing_s = max(LAST_LOOK_S, 2 * (to_race + 1) * slice_s) if to_race else 0.0
    starting_s = _STARTING_S + 2 * contender.loaded.load_ms / 1e3
    leg_s = starting_s + 2 * (leg_rounds(starting_s, 2 * slice_s) + 1) * slice_s
    return racing_s + SHORT_FEWEST * leg_s
