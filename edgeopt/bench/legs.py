"""Proofs of speed: the rounds of some sides in legs of fresh processes, and when they are enough.

Where a process happens to lie in memory and on the cores makes it a few per cent faster or slower for as long as
it lives, and more rounds of the same processes only make one sure of that. So a leg is one observation, and they
are judged as `edgeopt bench` judges its own: see `sequential`. A proof knows what it wants to show, and ends when
that is shown, or too little to wait for.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec

from edgeopt.bench.contender import Contender, Side, entered, load_patience_s
from edgeopt.bench.host import Child, TrialHost
from edgeopt.bench.instruments.machine_state import StateSampler
from edgeopt.bench.report import RoundState
from edgeopt.bench.rounds import run_rounds
from edgeopt.bench.sequential import LUCK_PERCENT, Decision, Leg, Rules, decide, leg_of
from edgeopt.bench.stats import FASTER, NO_DIFFERENCE, SAME
from edgeopt.errors import TrialError

# Every order of two sides at least. Further rounds of one process say little more, so they are not to take longer
# than half of its start.
_LEG_ROUNDS, _MOST_ROUNDS = 4, 8
FEWEST, SHORT_FEWEST = 3, 4
"""Fewer legs would be no evidence, however long they run; of short runs, which differ more from one process to the
next.

Where each process of a model has one of two speeds, four legs of equal sides all favour the same one in at most 4
of 1,000 proofs, three in 16.
"""
SHORT_MS = 2.0
# After so many legs, a gain too small to be worth anything is not waited for: it may never be clear.
_PATIENT = 6
LONGEST_S = 8.0
"""A proof may take so long whatever time is left."""
# Fresh processes also so many times as long as their rounds.
_OF_ONE = 4
# Such models are loaded side by side, which is sooner; larger ones might need more memory than there is.
_QUICK_LOAD_MS = 1000.0


class FallenError(TrialError):
    """One of the sides cannot load, or fell while it ran."""

    def __init__(self, name: str, error: TrialError) -> None:
        super().__init__(error.message, error.hint, error.code)
        self.name = name


@dataclass(frozen=True, slots=True)
class Pack:
    """Processes that run in turns: the first is held against each of the others."""

    first: Contender
    others: tuple[Contender, ...]

    @property
    def every(self) -> tuple[Contender, ...]:
        return (*self.others, self.first)

    def forget(self) -> None:
        """What was measured so far does not count."""
        for each in self.every:
            each.slices_ms.clear()
            each.latencies_ms.clear()
            each.laps.clear()

    def take(self, fresh: "Pack") -> None:
        """What other processes of the same sides measured counts as theirs."""
        for mine, its in zip(self.every, fresh.every, strict=True):
            mine.slices_ms += its.slices_ms
            mine.latencies_ms += its.latencies_ms
            mine.laps += its.laps


class Starter:
    """Starts processes of the same sides again and again; the stack ends those that run."""

    def __init__(self, host: TrialHost, sides: Sequence[Side], stack: ExitStack, by_sample: bool = False) -> None:
        self._host, self._sides, self._stack, self._by_sample = host, sides, stack, by_sample
        self._together = False
        self.seconds = 0.0
        """What it took to start the first."""

    def first(self) -> Pack:
        """One after the other, so that each says how long it takes to load."""
        begin_s = time.monotonic()
        pack = self._start()
        self.seconds = time.monotonic() - begin_s
        self._together = max(each.loaded.load_ms for each in pack.every) < _QUICK_LOAD_MS
        return pack

    def again(self, span_ms: float) -> Pack:
        """Ends those that run; the new ones are warm."""
        self._stack.close()
        pack = self._start()
        run_rounds(list(pack.every), 1, span_ms)
        pack.forget()
        return pack

    def _start(self) -> Pack:
        """Side by side, each may take as much longer as there are others."""
        begun, found = [], []
        for side in self._sides:
            child = self._host.start()
            self._stack.callback(child.close)
            child.send(msgspec.json.encode(side.load))
            begun.append((child, side))
            if not self._together:
                found.append(self._entered(child, side, 1))
        if self._together:
            found = [self._entered(child, side, len(begun)) for child, side in begun]
        return Pack(found[0], tuple(found[1:]))

    def _entered(self, child: Child, side: Side, beside: int) -> Contender:
        try:
            contender = entered(child, side.name, side.load, beside * load_patience_s(side.load), side.concurrency)
        except TrialError as error:
            raise FallenError(side.name, error) from None
        contender.by_sample = self._by_sample
        return contender


@dataclass(frozen=True, slots=True)
class Terms:
    """What a proof is to show, and what it may cost."""

    rules: Rules
    most: int
    """So many legs."""
    until_s: float
    """Then it ends, once it has run for some seconds and there are as many legs as are evidence."""
    wanted: Sequence[int]
    """The places, among the others, of those that the first must be faster than."""
    is_stopped: Callable[[], bool] = lambda: False
    """Asked before each round, so that it can tell at once."""
    most_stopped: int = SHORT_FEWEST
    """So many legs then."""
    patience_s: float = LONGEST_S
    """It may take so long when there is less time left."""


@dataclass(slots=True)
class Found:
    """What the legs said of the first against each other side, in their order."""

    terms: Terms
    legs: list[list[Leg]]
    decisions: list[Decision | None]
    fewest: int
    """Before there are so many, nothing is said."""
    states: list[RoundState] = field(default_factory=list)
    fresh: bool = True
    """Each leg had processes of its own."""
    starting_s: float = 0.0

    @property
    def count(self) -> int:
        return len(self.legs[0])

    @property
    def processes(self) -> int:
        """Of each side."""
        return self.count if self.fresh else 1

    def judge(self, last: bool) -> None:
        """A verdict stands once it is given: to look again would be to look more often than was paid for."""
        if self.count < self.fewest:
            return
        for place, legs in enumerate(self.legs):
            before = self.decisions[place]
            if before is None or not before.done:
                self.decisions[place] = decide(legs, self.terms.rules, last) or before

    @property
    def warning(self) -> str:
        """What is not known, as there was no time for fresh processes; empty where there was."""
        if self.fresh:
            return ""
        return (
            f"Starting the processes takes {self.starting_s:.0f} s, too long to prove the speed in fresh ones: "
            f"differences below {LUCK_PERCENT:g} % may be the luck of one process for its whole life, and are not "
            "called."
        )


def run_legs(pack: Pack, starter: Starter, terms: Terms, span_ms: float) -> Found:
    """The first processes, warm, run the first leg, and fresh ones each further leg.

    What is measured is added to what is known of the first. FallenError where one falls.
    """
    short = min(each.run_ms for each in pack.every) < SHORT_MS
    fewest = SHORT_FEWEST if short else FEWEST
    found = Found(
        terms, [[] for _ in pack.others], [None for _ in pack.others], fewest, starting_s=starter.seconds
    )
    sampler, now = StateSampler(lambda: ()), pack
    round_s = sum(max(span_ms, each.run_ms) for each in pack.every) / 1e3
    rounds = leg_rounds(starter.seconds, round_s)
    until_s = max(terms.until_s, time.monotonic() + terms.patience_s)
    while True:
        begin_s = time.monotonic()
        _run(now, rounds, span_ms, sampler, found)
        if now is not pack:
            pack.take(now)
        if found.count == 1:
            found.fresh = affords(terms.until_s, starter.seconds, time.monotonic() - begin_s)
        most = terms.most_stopped if terms.is_stopped() else terms.most
        # One leg more than is evidence, which needs half of the difference to be clear.
        last = found.count >= max(fewest, min(most, SHORT_FEWEST) if time.monotonic() >= until_s else most)
        found.judge(last)
        if last or is_settled(found):
            return found
        if found.fresh:
            now = starter.again(span_ms)


def leg_rounds(starting_s: float, round_s: float) -> int:
    """How many rounds a leg has."""
    return max(_LEG_ROUNDS, min(_MOST_ROUNDS, round(starting_s / 2 / round_s)))


def affords(until_s: float, starting_s: float, running_s: float) -> bool:
    """Whether there is time for as many fresh processes as are evidence.

    There is, where that takes no longer than what is left, or not much longer than the same processes would.
    """
    left_s = until_s - time.monotonic()
    return (FEWEST - 1) * (starting_s + running_s) <= max(LONGEST_S, left_s, _OF_ONE * running_s)


def is_settled(found: Found) -> bool:
    """Whether every answer is clear by now, or the least that is wanted is too little to go on for."""
    known = [each for each in found.decisions if each is not None]
    if len(known) < len(found.decisions):
        return False
    if all(each.verdict != NO_DIFFERENCE for each in known):
        return True
    least = SAME if found.count >= _PATIENT else 1.0
    return any(known[k].speedup.median < least for k in found.terms.wanted if known[k].verdict != FASTER)


def _run(now: Pack, rounds: int, span_ms: float, sampler: StateSampler, found: Found) -> None:
    """One leg; it is not cut short, as there must be some in any case."""
    for place in range(rounds):
        found.terms.is_stopped()
        sampler.begin_round(len(found.states))
        run_rounds(list(now.every), 1, span_ms, first=place)
        found.states.append(sampler.end_round())
    for each in (now.first, *now.others):
        if each.failure is not None:
            raise FallenError(each.name, each.error or TrialError(each.failure))
    fresh = found.fresh or not found.count
    mine = now.first.slices_ms[-rounds:]
    for legs, other in zip(found.legs, now.others, strict=True):
        legs.append(leg_of(mine, other.slices_ms[-rounds:], fresh))
