"""Proofs of speed: some sides in legs of fresh processes, and when these are enough.

They are judged as `edgeopt bench` judges its own, by the same loop (`pairs`). A proof knows what it wants to show,
and ends when that is shown, or too little to wait for.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from edgeopt import units
from edgeopt.errors import TrialError
from edgeopt.measure.contender import Contender, Side, entered, load_patience_s
from edgeopt.measure.host import Child, TrialHost
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.report import RoundState
from edgeopt.measure.rounds import SHORTEST_SLICE_MS, DeviceWatch, run_slices
from edgeopt.measure.schedules import PROOF, Schedule
from edgeopt.measure.sequential import Decision, Pairs, leg_after_leg, rules_of
from edgeopt.measure.stats import FASTER, UNDECIDED

FEWEST = PROOF.fewest_legs
SLOW_FEWEST = 3
"""Of models that take longer than SLOW_LOAD_MS to load."""
SLOW_LOAD_MS = 3000.0
# A leg is one observation however long it is, so its slices are short; a run that takes longer is one slice.
_RUNS_A_SLICE, _LONGEST_SLICE_MS = 4, 200.0
# The first processes start one after the other, later ones side by side.
_LATER_START = 0.8
# What warms up fresh processes, which have run once already.
_WARM, _WARM_MS = Schedule("warming up", (1,)), 20.0
# What all processes of one leg take to start, without the model: at least, and in imports of the runtime.
_STARTING_S, _IMPORTS = 0.6, 4.0
# Such models are loaded side by side, which is sooner; larger ones might need more memory than there is.
_QUICK_LOAD_MS = 1000.0


class FallenError(TrialError):
    """One of the sides cannot load, or fell while it ran."""

    def __init__(self, name: str, error: TrialError) -> None:
        super().__init__(error.message, error.hint, error.code)
        self.name = name


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Interleaved processes: the first is compared with each of the others."""

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

    def take(self, fresh: "ProcessGroup") -> None:
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

    def first(self) -> ProcessGroup:
        """One after the other, so that each says how long it takes to load."""
        begin_s = time.monotonic()
        pack = self._start()
        self.seconds = time.monotonic() - begin_s
        self._together = max(each.loaded.load_ms for each in pack.every) < _QUICK_LOAD_MS
        return pack

    def again(self, span_ms: float, position: int) -> ProcessGroup:
        """Ends those that run; the new ones are warm, in the order of the rounds that follow."""
        self._stack.close()
        pack = self._start()
        deque(run_slices(pack.every, _WARM, lambda: min(span_ms, _WARM_MS), first=position), 0)
        pack.forget()
        return pack

    def _start(self) -> ProcessGroup:
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
        return ProcessGroup(found[0], tuple(found[1:]))

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

    turns: Schedule
    most: int
    """The number of legs."""
    until_s: float
    """When it must be over. It is not begun in earnest if too few legs fit."""
    wanted: Sequence[int]
    """The places, among the others, of those that the first must be faster than."""
    is_stopped: Callable[[], bool] = lambda: False
    """Asked before each round, so that it can tell at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the legs said of the first against each other side, in their order."""

    pairs: Pairs
    states: Sequence[RoundState]
    legs: int
    """Each with fresh processes of all sides."""
    fewest: int
    """The number of legs without which nothing is decided."""
    leg_s: float
    """What one of them takes."""

    @property
    def decisions(self) -> list[Decision | None]:
        return self.pairs.decisions

    @property
    def warning(self) -> str:
        """That there was too little time, and how much is missing; empty where there was enough."""
        if self.legs >= self.fewest:
            return ""
        missing_s = (self.fewest - self.legs) * self.leg_s
        return (
            f"The time limit left {units.count(self.legs, 'start')} of fresh processes, and a proof needs "
            f"{self.fewest}: allow about {math.ceil(missing_s)} s more."
        )


def run_legs(pack: ProcessGroup, starter: Starter, terms: Terms, span_ms: float) -> Found:
    """The first processes, warm, run the first leg, and fresh ones each further leg.

    Adds the measurements to those of the first. Raises FallenError if a process fails.
    """
    proof = _Proof(pack, starter, terms, span_ms)
    leg_after_leg(proof, proof.pairs)
    return Found(proof.pairs, proof.watch.states, proof.legs, proof.fewest, proof.leg_s)


class _Proof:
    """A match that ends when one falls."""

    is_fresh = True

    def __init__(self, pack: ProcessGroup, starter: Starter, terms: Terms, span_ms: float) -> None:
        self.players = (pack.first, *pack.others)
        self._pack = self._now = pack
        self._starter, self._terms, self._span_ms = starter, terms, span_ms
        slow = max(each.loaded.load_ms for each in pack.every) >= SLOW_LOAD_MS
        self.fewest = SLOW_FEWEST if slow else FEWEST
        rules = msgspec.structs.replace(rules_of(terms.turns), fewest=self.fewest)
        self.pairs = Pairs.of(len(pack.others), rules)
        self.watch = DeviceWatch(StateSampler(lambda: ()), before=lambda _number, _count: terms.is_stopped())
        self._round_s = sum(max(span_ms, each.run_ms) for each in pack.every) / 1e3
        self._rounds = self._rounds_that_fit()
        self._begin_s = time.monotonic()
        self.legs = 0

    def _rounds_that_fit(self) -> int:
        """In a leg, so that there is time for as many legs as decide something."""
        left_s = (self._terms.until_s - time.monotonic()) / self.fewest - _LATER_START * self._starter.seconds
        able = max(self._terms.turns.leg_rounds[0], 2 * int(left_s / 2 / self._round_s))
        return min(able, leg_rounds(self._starter.seconds, self._round_s, self._terms.turns))

    @property
    def _position(self) -> int:
        """Of the first round of a leg: each leg begins with another side.

        A side whose slice follows its own has the cores to itself, while threads of another one may still spin. In
        the same order in each leg, the first side was 6 % faster than itself.
        """
        return 2 * self.legs

    def renew(self) -> bool:
        self._now = self._starter.again(self._span_ms, self._position)
        return True

    def run_leg(self) -> int:
        """It is not cut short, as there must be some in any case."""
        now, ran = self._now, 0
        slices = run_slices(
            now.every, self._terms.turns, lambda: self._span_ms, self.watch, self._rounds, self._position
        )
        for each in slices:
            ran = each.done
        for side in (now.first, *now.others):
            if side.failure is not None:
                raise FallenError(side.name, side.error or TrialError(side.failure))
        if now is not self._pack:
            self._pack.take(now)
        self.legs += 1
        return ran

    @property
    def leg_s(self) -> float:
        """The first leg's processes were started before it, one after the other."""
        if self.legs > 1:
            return (time.monotonic() - self._begin_s) / (self.legs - 0.5)
        return _LATER_START * self._starter.seconds + self._rounds * self._round_s

    def is_open(self, _place: int) -> bool:
        return True

    def is_last(self) -> bool:
        most = self.fewest if self._terms.is_stopped() else max(self._terms.most, self.fewest)
        left_s = self._terms.until_s - time.monotonic()
        needed = max(1, self.fewest - self.legs)
        return self.legs >= most or left_s < needed * self.leg_s

    def is_over(self) -> bool:
        return is_settled(self.pairs.decisions, self._terms.wanted, self.legs, self._terms.turns)


def proof_seconds(baseline: Contender, sides: int = 2) -> float:
    """What the shortest proof takes, by the process of the baseline: most are clear as soon as they may be."""
    run_ms = baseline.slices_ms[-1] if baseline.slices_ms else baseline.loaded.first_run_ms
    round_s = sides * max(leg_slice_ms(run_ms), run_ms) / 1e3
    starting_s = (
        starting_seconds(baseline) + sides * (baseline.loaded.load_ms + baseline.loaded.first_run_ms) / 1e3
    )
    legs = SLOW_FEWEST if baseline.loaded.load_ms >= SLOW_LOAD_MS else FEWEST
    return legs * (starting_s + leg_rounds(starting_s, round_s) * round_s)


def starting_seconds(baseline: Contender) -> float:
    """What the processes of a leg take to start, without the model: on a loaded machine several times as long."""
    return max(_STARTING_S, _IMPORTS * (baseline.loaded.import_ms or 0.0) / 1e3)


def leg_slice_ms(run_ms: float) -> float:
    """How long a slice of a leg is for a model that takes this long."""
    return min(max(_RUNS_A_SLICE * run_ms, SHORTEST_SLICE_MS), _LONGEST_SLICE_MS)


def leg_rounds(starting_s: float, round_s: float, turns: Schedule = PROOF) -> int:
    """How many rounds a leg has, an even number: they take about as long as its start."""
    least, most = turns.leg_rounds
    return max(least, min(most, 2 * round(starting_s / 2 / round_s)))


def is_settled(
    decisions: Sequence[Decision | None], wanted: Sequence[int], legs: int, turns: Schedule = PROOF
) -> bool:
    """Whether every answer is clear by now, or the least that is wanted is too little to go on for."""
    known = [each for each in decisions if each is not None]
    if len(known) < len(decisions):
        return False
    if all(each.verdict not in UNDECIDED for each in known):
        return True
    least = 1 + turns.same_percent / 100 if legs >= turns.patient else 1.0
    return any(known[k].speedup.median < least for k in wanted if known[k].verdict != FASTER)
