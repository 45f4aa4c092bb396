"""The candidates of all variants: screened, in the race or out of it."""

import dataclasses
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from edgeopt.errors import TrialError
from edgeopt.events import Progress
from edgeopt.measure.rounds import latency_ms
from edgeopt.search.limits import OVER, Limits, excess
from edgeopt.search.making.gathering import Ready
from edgeopt.search.making.made import Variants
from edgeopt.search.making.plans import PLANNED
from edgeopt.search.making.recipes import recipe_named
from edgeopt.search.outcome import Candidate
from edgeopt.search.place import Place
from edgeopt.search.racing.baseline import Baseline
from edgeopt.search.racing.callers import Room, at_first
from edgeopt.search.racing.screen import Entry, screen
from edgeopt.search.racing.space import Starts, first_candidates, other_threads
from edgeopt.search.racing.standard import Standard
from edgeopt.search.racing.standings import final, racing
from edgeopt.search.shapes.bucketing import NO_BUCKETS, with_buckets
from edgeopt.search.shapes.fill_from import LATEST, may_be_settled, said_of, settle_filling
from edgeopt.search.shapes.sized import Shaped
from edgeopt.search.stopping import Ending, takes_part

_LONGEST_LOAD_S = 60.0
_SMALL_MS = 2.0
_FAR_DB = 3.0


@dataclass(frozen=True, slots=True)
class Entering:
    """What a candidate must pass to enter the race."""

    place: Place
    standard: Standard
    limits: Limits
    baseline: Baseline
    starts: Starts
    most: int
    """The most candidates, besides the first of each variant."""
    room: Room | None
    """What may be turned in a search for throughput."""
    ending: Ending


class Entrants:
    """Those of one search, in the order in which they were screened."""

    def __init__(self, entering: Entering, variants: Variants, shaped: Shaped | None = None) -> None:
        """`shaped`: the sizes that open dimensions will have."""
        self.entries: list[Entry] = []
        self._entering, self._variants, self._shaped = entering, variants, shaped
        # Several threads on a small model run at one of two speeds, by chance: judged by those alone, a good
        # variant could be out before its runtime options are tuned.
        self._small = entering.room is None and latency_ms(entering.baseline.contender) < _SMALL_MS

    @property
    def starts(self) -> Starts:
        return self._entering.starts

    @property
    def baseline(self) -> Candidate:
        return self._entering.baseline.candidate

    @property
    def room(self) -> Room | None:
        return self._entering.room

    @property
    def full(self) -> bool:
        """The limit of the profile is reached: only the first candidate of each variant is still added."""
        return len(self.entries) >= self._entering.most

    @property
    def candidates(self) -> list[Candidate]:
        """All that were screened."""
        return [entry.candidate for entry in self.entries]

    @property
    def in_it(self) -> int:
        """The number of candidates still in the race."""
        return sum(entry.contender is not None for entry in self.entries)

    def enter(self, ready: Ready) -> None:
        """The first candidates of a variant."""
        if ready.variant == "source" and self.room is not None:
            self.add(self._entering.baseline.candidate)
        for candidate in _firsts(ready, self.starts):
            if recipe_named(ready.variant).whole and self._is_far_below(ready.variant):
                return  # eight bits throughout: no other precision of the rest mends that
            self._screen(candidate)

    def add(self, candidate: Candidate) -> Entry:
        """One more candidate of a variant that is already made, screened."""
        given, path = self._entering, self._variants.path(candidate.variant, candidate.backend)
        entry = screen(given.place.ground, given.standard, candidate, path, _LONGEST_LOAD_S)
        if entry.status == "failed" and "shapes" in candidate.options and "buckets" not in candidate.options:
            # Not every model that runs with open shapes can be compiled with the data's own.
            rest = {name: value for name, value in candidate.options.items() if name != "shapes"}
            plainer = msgspec.structs.replace(candidate, options=rest)
            entry = screen(given.place.ground, given.standard, plainer, path, _LONGEST_LOAD_S)
        entry.size_bytes = self._variants.size_bytes(candidate)
        if entry.contender is not None:
            entry.contender.by_sample = self.room is not None
            over = excess(given.limits, entry.contender.memory, entry.size_bytes)
            if over:
                entry.leave(OVER, over)
        self.entries.append(entry)
        if entry.contender is not None and candidate != given.baseline.candidate:
            takes_part(given.ending.stop)
        given.place.notes.emit(racing(entry) if entry.contender is not None else final(entry))
        return entry

    def add_bucketed(self, best: Sequence[Entry], most: int) -> list[Entry]:
        """The first few that can have a program for each size that was asked for, with these."""
        if self._shaped is None:
            return []
        able = next((e.candidate for e in best if "shapes" in e.candidate.options), None)
        if able is not None and may_be_settled(self._shaped):
            self._shaped = self._filled(self._shaped, able)
        found = with_buckets(self._shaped, [entry.candidate for entry in best], most)
        if not found:
            self._entering.place.notes.tell(NO_BUCKETS)
        return [self.add(one) for one in found if one not in self.candidates]

    def floats_ms(self, planned: Candidate) -> float:
        """The quickest exact variant with the options of a plan; infinite where none runs well enough."""
        found = math.inf
        for entry in self.entries:
            one = entry.candidate
            alike = (one.backend, one.options) == (planned.backend, planned.options)
            if alike and entry.contender is not None:
                with suppress(TrialError):
                    found = min(found, latency_ms(entry.contender))
        return found

    def close(self) -> None:
        """Ends every trial that still runs."""
        for entry in self.entries:
            if entry.contender is not None:
                entry.contender.close()

    def _filled(self, shaped: Shaped, able: Candidate) -> Shaped:
        given = self._entering
        given.place.notes.emit(Progress("tuning", "sizes from which padding pays"))
        path = self._variants.path(able.variant, able.backend)
        least = settle_filling(given.place.ground, shaped, able, path, given.ending.clock.until(LATEST))
        for dimension in shaped.dimensions:
            if dimension.name in least:
                given.place.notes.tell(said_of(dimension, least[dimension.name]))
        return dataclasses.replace(shaped, fill_from=least)

    def _is_far_below(self, variant: str) -> bool:
        """Whether a candidate of the variant misses the floor in dB by more than another precision may change."""
        floor_db = self._entering.standard.goal.target_db
        found = [entry.accuracy_db for entry in self.entries if entry.candidate.variant == variant]
        return floor_db is not None and any(each is not None and each < floor_db - _FAR_DB for each in found)

    def _screen(self, candidate: Candidate) -> None:
        given = self._entering
        if given.ending.is_asked:
            return
        candidate = at_first(candidate, given.room)
        left_s = max(0.0, given.ending.clock.until(1.0) - time.monotonic())
        given.place.notes.emit(Progress("screening", candidate.name, time_left_s=left_s))
        entry = self.add(candidate)
        if entry.contender is not None and self._small and not self.full:
            for other in other_threads(candidate, self.starts.space):
                self.add(other)


def _firsts(ready: Ready, starts: Starts) -> list[Candidate]:
    """A plan holds with its own options alone; a form is tried with each that changes its numbers."""
    if ready.planned is None:
        return first_candidates(ready.variant, ready.backends, starts)
    options = ready.planned.options
    if ready.variant == PLANNED:
        return [Candidate(ready.variant, backend, dict(options)) for backend in ready.backends]
    found = first_candidates(ready.variant, ready.backends, starts)
    fixed = [msgspec.structs.replace(each, options={**each.options, **options}) for each in found]
    return [each for place, each in enumerate(fixed) if each not in fixed[:place]]
