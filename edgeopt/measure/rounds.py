"""The loop of rounds: the sides run interleaved, so that a disturbance hits all of them.

On a noisy machine a time means little and a ratio within one round means much: each round gives everybody one
turn, in changing order, and only ratios within a round are compared. In what those who take turns differ: see
`terms`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from edgeopt.errors import TrialError
from edgeopt.measure.contender import Contender, take_slice
from edgeopt.measure.instruments.machine_state import StateSampler, sentence
from edgeopt.measure.report import RoundState
from edgeopt.measure.schedules import Schedule
from edgeopt.measure.stats import Interval, bootstrap_median, paired_ratios

# Enough runs in a slice that its median is one, within what a round may take.
_RUNS_A_SLICE = 10
SHORTEST_SLICE_MS = 40.0
LONGEST_SLICE_MS = 400.0


class Player(Protocol):
    """Who has turns until it fails."""

    failure: str | None


class Sliced(Player, Protocol):
    """Whose turns are time slices."""

    @property
    def name(self) -> str: ...

    error: TrialError | None
    """The failure with its hint and code."""
    slices_ms: list[float]
    """What the slices of the rounds that count came down to."""

    def turn(self, span_ms: float) -> Any | None:  # noqa: ANN401 - what `keep` takes
        """One slice; None where it failed."""
        ...

    def keep(self, number: int, taken: Any) -> None:  # noqa: ANN401 - what `turn` gave
        """The round counts."""
        ...


_Member = TypeVar("_Member")
_Player = TypeVar("_Player", bound=Player)
_Taken = TypeVar("_Taken")


class Round(NamedTuple, Generic[_Player, _Taken]):
    """One round that counts."""

    number: int
    done: int
    """The number of rounds so far, with this one."""
    is_look: bool
    """It is looked who stays, and whether it is over; not where the time is up."""
    taken: list[tuple[_Player, _Taken]]
    """What those gave who did not fall."""


class DeviceWatch:
    """Hooks around each round: they check the device; a limited number of spoiled rounds is run again.

    `before` receives the number of the round and the number of sides.
    """

    def __init__(
        self,
        state: StateSampler | None = None,
        repeats: int = 0,
        before: Callable[[int, int], object] = lambda _number, _count: None,
    ) -> None:
        self._state, self._left, self._before = state, repeats, before
        self.states: list[RoundState] = []

    def begin(self, number: int, count: int) -> None:
        self._before(number, count)
        if self._state is not None:
            self._state.begin_round(number)

    def counts(self) -> bool:
        """Whether the round that ends now does."""
        if self._state is None:
            return True
        seen = self._state.end_round()
        again = bool(seen.bad) and self._left > 0
        self._left -= again
        self.states.append(msgspec.structs.replace(seen, repeated=again))
        return not again

    @property
    def sentence(self) -> str:
        """On the state of the device meanwhile."""
        return sentence(self.states, self._state is None or self._state.judge_others)


def take_turns(
    players: Sequence[_Player],
    terms: Schedule,
    turn: Callable[[_Player], _Taken | None],
    watch: DeviceWatch | None = None,
    rounds: int | None = None,
    first: int = 0,
    is_late: Callable[[], bool] = lambda: False,
) -> Iterator[Round[_Player, _Taken]]:
    """Rounds of those who have not failed, until `terms` or `rounds` have it that these are all.

    Who fails in its turn is out; a list of players may be changed after each round. `first` is the number of the
    first round, by which the order changes.
    """
    most, done, watch = terms.most if rounds is None else rounds, 0, watch or DeviceWatch()
    while done < most and (running := [player for player in players if player.failure is None]):
        watch.begin(first + done, len(running))
        asked = ((player, _turn(player, turn)) for player in in_turn(running, first + done))
        taken = [(player, found) for player, found in asked if found is not None]
        if terms.falls == "ends it" and any(player.failure is not None for player in running):
            return
        if not watch.counts():
            continue
        done += 1
        late = done >= terms.fewest and is_late()
        yield Round(first + done - 1, done, done in terms.looks and not late, taken)
        if late:
            return


def _turn(player: _Player, turn: Callable[[_Player], _Taken | None]) -> _Taken | None:
    try:
        return turn(player)
    except TrialError as error:
        player.failure = error.message
        return None


_Sliced = TypeVar("_Sliced", bound=Sliced)


def run_slices(
    players: Sequence[_Sliced],
    terms: Schedule,
    span_ms: Callable[[], float],
    watch: DeviceWatch | None = None,
    rounds: int | None = None,
    first: int = 0,
    is_late: Callable[[], bool] = lambda: False,
) -> Iterator[Round[_Sliced, Any]]:
    """Rounds of time slices, which may take another time from round to round."""
    turns = take_turns(players, terms, lambda player: player.turn(span_ms()), watch, rounds, first, is_late)
    for each in turns:
        for player, found in each.taken:
            player.keep(each.number, found)
        yield each


def run_rounds(
    contenders: Sequence[Contender], rounds: int, span_ms: float, is_late: Callable[[], bool] = lambda: False
) -> None:
    """As many rounds, after which nobody leaves: to warm up, and to rank."""
    deque(run_slices(contenders, Schedule("rounds", (rounds,)), lambda: span_ms, is_late=is_late), 0)


def slice_ms(latency_ms: float) -> float:
    """How long a slice should be for a model that takes this long."""
    return float(np.clip(_RUNS_A_SLICE * latency_ms, SHORTEST_SLICE_MS, LONGEST_SLICE_MS))


def in_turn(members: Sequence[_Member], position: int) -> list[_Member]:
    """The order of one round.

    Each rotation once forwards and once backwards: nobody is always first or follows the same neighbour.
    """
    shift = position // 2 % max(len(members), 1)
    order = [*members[shift:], *members[:shift]]
    return order if position % 2 == 0 else order[::-1]


def latency_ms(contender: Contender) -> float:
    """A first idea of how long a run takes, from one short slice; raises TrialError when it cannot run."""
    answer = take_slice(contender, SHORTEST_SLICE_MS)
    if answer is None:
        raise TrialError(contender.failure or "failed")
    return float(np.median(answer.latencies_ms))


def speedup(baseline: Contender, other: Contender) -> Interval:
    """How many times faster `other` is than `baseline`, over the rounds that both ran (the last ones)."""
    shared = min(len(baseline.slices_ms), len(other.slices_ms))
    return bootstrap_median(paired_ratios(baseline.slices_ms[-shared:], other.slices_ms[-shared:]))
