"""The loop of legs: interleaved sides in fresh processes for each leg, the first against each other one.

Where a process happens to lie in memory and on the cores makes it a few per cent faster or slower for as long as
it lives, and more rounds of the same processes only make one sure of that. So a leg is one observation: see
`sequential`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edgeopt.measure.rounds import Sliced
from edgeopt.measure.sequential import Decision, Leg, Rules, decide, leg_of


class Match(Protocol):
    """Who runs leg after leg."""

    @property
    def is_fresh(self) -> bool:
        """Each leg has processes of its own."""
        ...

    @property
    def players(self) -> Sequence[Sliced]:
        """The first, and those that it is compared with."""
        ...

    def renew(self) -> bool:
        """Starts fresh processes, which are warm then; False where the system gives none."""
        ...

    def run_leg(self) -> int:
        """How many rounds it ran."""
        ...

    def is_open(self, place: int) -> bool:
        """Whether the answer to the other at this place may still be had."""
        ...

    def is_last(self) -> bool:
        """Whether no further leg fits; asked once after each."""
        ...

    def is_over(self) -> bool:
        """Whether what is known by now is enough."""
        ...


@dataclass(slots=True)
class Pairs:
    """What the legs say of the first against each other side, in their order."""

    rules: Rules
    legs: list[list[Leg]]
    decisions: list[Decision | None] = field(default_factory=list)

    @classmethod
    def of(cls, others: int, rules: Rules) -> "Pairs":
        return cls(rules, [[] for _ in range(others)], [None] * others)

    def note(self, players: Sequence[Sliced], rounds: int, fresh: bool) -> None:
        """A leg of those whose processes ran to its end."""
        first, *others = players
        for legs, other in zip(self.legs, others, strict=True):
            if rounds and first.failure is None and other.failure is None:
                legs.append(leg_of(first.slices_ms[-rounds:], other.slices_ms[-rounds:], fresh))

    def judge(self, last: bool, is_open: Callable[[int], bool]) -> None:
        """A verdict stands once it is given: to look again would be to look more often than was paid for."""
        for place, (legs, before) in enumerate(zip(self.legs, self.decisions, strict=True)):
            if is_open(place) and not (before and before.done):
                self.decisions[place] = decide(legs, self.rules, last) or before


def leg_after_leg(match: Match, pairs: Pairs) -> None:
    """Runs legs until the answers are clear or no further one fits; the first leg's processes are warm."""
    begun = False
    while True:
        if begun and match.is_fresh and not match.renew():
            # The legs so far are all that there will be.
            pairs.judge(True, match.is_open)
            return
        rounds = match.run_leg()
        pairs.note(match.players, rounds, match.is_fresh or not begun)
        begun, last = True, match.is_last()
        pairs.judge(last, match.is_open)
        if last or match.is_over():
            return
