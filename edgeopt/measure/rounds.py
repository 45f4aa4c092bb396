"""The loop of rounds: the sides run interleaved, so that a disturbance affects all of them.

On a noisy machine a time means little and a ratio within one round means much: each round gives every side one
turn, in changing order, and only ratios within a round are compared. `schedules` has the differences between
kinds of measurements.
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

# A slice has enough runs for a stable median, within the limits of its length.
_RUNS_A_SLICE = 10
SHORTEST_SLICE_MS = 40.0
LONGEST_SLICE_MS = 400.0


class Player(Protocol):
    """A side that has a turn in each round until it fails."""

    failure: str | None


class Sliced(Player, Protocol):
    """A side whose turns are time slices."""

    @property
    def name(self) -> str: ...

    error: TrialError | None
    """The failure with its hint and code."""
    slices_ms: list[float]
    """Figures in milliseconds of the slices in rounds that count."""

    def turn(self, span_ms: float) -> Any | None:  # noqa: ANN401 - what `keep` takes
        """Runs one slice and returns its measurement, or None if it failed."""
        ...

    def keep(self, number: int, taken: Any) -> None:  # noqa: ANN401 - what `turn` gave
        """Stores a slice's measurement after its round was found to count."""
        ...


_Member = TypeVar("_Member")
_Player = TypeVar("_Player", bound=Player)
_Taken = TypeVar("_Taken")


class Round(NamedTuple, Generic[_Player, _Taken]):
    """One round that counts."""

    number: int
    done: int
    """Number of rounds so far, including this one."""
    is_look: bool
    """Whether this round decides which sides stay and whether to stop; False if the time is up."""
    taken: list[tuple[_Player, _Taken]]
    """The measurements of the sides that did not fail in this round."""


class DeviceWatch:
    """Hooks around each round that check the device; a limited number of spoiled rounds is run again.

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
        """Whether the round that ends now counts."""
        if self._state is None:
            return True
        seen = self._state.end_round()
        again = bool(seen.bad) and self._left > 0
        self._left -= again
        self.states.append(msgspec.structs.replace(seen, repeated=again))
        return not again

    @property
    def sentence(self) -> str:
        """Describes the state of the device over the rounds so far."""
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
    """Yields each round of the sides that have not failed, up to the limit of `terms` or `rounds`.

    A side that fails in its turn takes no further part; a list of players may be changed after each round.
    `first` is the number of the first round, by which the order changes.
    """
    maximum, done, watch = terms.maximum if rounds is None else rounds, 0, watch or DeviceWatch()
    while done < maximum and (running := [player for player in players if player.failure is None]):
        watch.begin(first + done, len(running))
        turns = ((player, _turn(player, turn)) for player in in_turn(running, first + done))
        taken = [(player, found) for player, found in turns if found is not None]
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
    """Yields rounds of time slices, whose length may change from round to round."""
    turns = take_turns(players, terms, lambda player: player.turn(span_ms()), watch, rounds, first, is_late)
    for each in turns:
        for player, found in each.taken:
            player.keep(each.number, found)
        yield each


def run_rounds(
    contenders: Sequence[Contender], rounds: int, span_ms: float, is_late: Callable[[], bool] = lambda: False
) -> None:
    """Runs this many rounds, without excluding any side, to warm up or to rank."""
    deque(run_slices(contenders, Schedule("rounds", (rounds,)), lambda: span_ms, is_late=is_late), 0)


def slice_ms(latency_ms: float) -> float:
    """Returns the length of a slice in milliseconds, from the latency of a run."""
    return float(np.clip(_RUNS_A_SLICE * latency_ms, SHORTEST_SLICE_MS, LONGEST_SLICE_MS))


def in_turn(members: Sequence[_Member], position: int) -> list[_Member]:
    """Returns the order of the members in one round.

    Each rotation is used once forwards and once backwards, so no member is always first or follows the same
    neighbour.
    """
    shift = position // 2 % max(len(members), 1)
    order = [*members[shift:], *members[:shift]]
    return order if position % 2 == 0 else order[::-1]


def latency_ms(contender: Contender) -> float:
    """Estimates the latency of a run in milliseconds from one short slice; raises TrialError if it cannot run."""
    answer = take_slice(contender, SHORTEST_SLICE_MS)
    if answer is None:
        raise TrialError(contender.failure or "failed")
    return float(np.median(answer.latencies_ms))


def speedup(baseline: Contender, other: Contender) -> Interval:
    """Returns the speed-up of `other` over `baseline`, from the latest rounds that both ran."""
    shared = min(len(baseline.slices_ms), len(other.slices_ms))
    return bootstrap_median(paired_ratios(baseline.slices_ms[-shared:], other.slices_ms[-shared:]))
