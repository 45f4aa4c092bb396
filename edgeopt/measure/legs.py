"""Legs of fresh processes: the driver that runs them, and the proofs of speed that use it.

`edgeopt bench` and the proofs share the driver; the table of schedules and `LegPlan` hold their differences. A
proof knows what it wants to show, and ends when that is shown, or too little to wait for.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec

from edgeopt import units
from edgeopt.errors import TrialError
from edgeopt.measure import rounds
from edgeopt.measure.contender import Contender, Side, entered, load_patience_s
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.report import RoundState
from edgeopt.measure.rounds import DeviceWatch, Sliced, run_slices
from edgeopt.measure.schedules import PROOF, Schedule
from edgeopt.measure.sequential import Decision, Pairs, rules_of
from edgeopt.measure.stats import FASTER, UNDECIDED
from edgeopt.workers.host import NOT_STARTED, Child, TrialHost

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


class LegPlan(msgspec.Struct, frozen=True):
    """How the rounds are cut into legs."""

    span_ms: float
    leg_rounds: int
    leg_s: float
    """Expected duration of a leg, with the start of its processes."""
    fresh: bool
    """Each leg has processes of its own."""


@dataclass(slots=True)
class LegDriver:
    """Runs legs of interleaved slices until every pair is decided or no further leg fits."""

    players: Sequence[Sliced]
    """The first, and those that it is compared with."""
    schedule: Schedule
    plan: LegPlan
    pairs: Pairs
    watch: DeviceWatch
    end_s: float
    """When it must be over; a leg that was begun is ended."""
    renew: Callable[[], Sequence[Sliced]]
    """Starts fresh processes, which are warm then, and returns those that run the leg, in their order."""
    is_over: Callable[[], bool]
    """Whether what is known by now is enough."""
    running: Sequence[Sliced] = ()
    """Those that run the first leg, warm."""
    after_round: Callable[[], object] = lambda: None
    collect: Callable[[], object] = lambda: None
    """Adds what a leg measured to the players."""
    is_stopped: Callable[[], bool] = lambda: False
    """Whether the fewest legs must do."""
    legs_most: int = 1000
    legs: int = 0
    rounds: int = 0
    begin_s: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Raises FallenError where the schedule ends with a side that falls."""
        while True:
            if self.legs and self.plan.fresh:
                self.running = self.renew()
                if any(map(is_refused, self.players)):
                    # The legs so far are all that there will be.
                    self.pairs.judge(True, self.is_open)
                    return
            ran = self._run_leg()
            self.pairs.note(self.players, ran, self.plan.fresh or not self.legs)
            self.legs += 1
            last = self._is_last()
            self.pairs.judge(last, self.is_open)
            if last or self.is_over():
                return

    @property
    def position(self) -> int:
        """Of the next leg's first round.

        A side whose slice follows its own has the cores to itself, while threads of another one may still spin. In
        the same order in each leg, the first side was 6 % faster than itself.
        """
        return 2 * self.legs if self.schedule.rotates else self.rounds

    def _run_leg(self) -> int:
        """It is not cut short, as there must be some in any case."""
        begin = self.rounds
        most = min(self.plan.leg_rounds, self.pairs.rules.rounds_most - begin)
        span_ms = self.plan.span_ms
        for _ in run_slices(self.running, self.schedule, lambda: span_ms, self.watch, most, self.position):
            self.rounds += 1
            self.after_round()
        if self.schedule.falls == "ends it":
            for side in self.running:
                if side.failure is not None:
                    raise FallenError(side.name, side.error or TrialError(side.failure))
        self.collect()
        return self.rounds - begin

    def is_open(self, place: int) -> bool:
        """Whether both sides of a pair run on, or would if there were processes."""
        return all(p.failure is None or is_refused(p) for p in (self.players[0], self.players[place + 1]))

    @property
    def leg_s(self) -> float:
        """The first leg's processes were started before it, one after the other."""
        if self.legs > 1:
            return (time.monotonic() - self.begin_s) / (self.legs - 0.5 * self.plan.fresh)
        return self.plan.leg_s

    def _is_last(self) -> bool:
        rules = self.pairs.rules
        if self.rounds >= rules.rounds_most or all(player.failure is not None for player in self.players):
            return True
        most = rules.fewest if self.is_stopped() else max(self.legs_most, rules.fewest)
        needed = max(1, rules.fewest - self.legs)
        return self.legs >= most or self.end_s - time.monotonic() < needed * self.leg_s


def is_refused(player: Sliced) -> bool:
    """Whether it has run, and the system gave it no further process."""
    return bool(player.slices_ms) and player.error is not None and player.error.code == NOT_STARTED


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


def run_legs(group: ProcessGroup, starter: Starter, terms: Terms, span_ms: float) -> Found:
    """The first processes, warm, run the first leg, and fresh ones each further leg.

    Adds the measurements to those of the first. Raises FallenError if a process fails.
    """
    slow = max(each.loaded.load_ms for each in group.every) >= SLOW_LOAD_MS
    rules = msgspec.structs.replace(rules_of(terms.turns), fewest=SLOW_FEWEST if slow else FEWEST)
    now = group

    def renew() -> Sequence[Contender]:
        nonlocal now
        now = starter.again(span_ms, driver.position)
        return now.every

    def collect() -> None:
        if now is not group:
            group.take(now)

    driver = LegDriver(
        players=(group.first, *group.others),
        schedule=terms.turns,
        plan=_proof_plan(group, starter, terms, rules.fewest, span_ms),
        pairs=Pairs.of(len(group.others), rules),
        watch=DeviceWatch(StateSampler(tuple), before=lambda _number, _count: terms.is_stopped()),
        end_s=terms.until_s,
        renew=renew,
        is_over=lambda: is_settled(driver.pairs.decisions, terms.wanted, driver.legs, terms.turns),
        running=group.every,
        collect=collect,
        is_stopped=terms.is_stopped,
        legs_most=terms.most,
    )
    driver.run()
    return Found(driver.pairs, driver.watch.states, driver.legs, rules.fewest, driver.leg_s)


def _proof_plan(group: ProcessGroup, starter: Starter, terms: Terms, fewest: int, span_ms: float) -> LegPlan:
    """Legs as short as it takes to have time for as many as decide something."""
    round_s = sum(max(span_ms, each.run_ms) for each in group.every) / 1e3
    starting_s = _LATER_START * starter.seconds
    left_s = (terms.until_s - time.monotonic()) / fewest - starting_s
    able = max(terms.turns.leg_rounds[0], 2 * int(left_s / 2 / round_s))
    count = min(able, leg_rounds(starter.seconds, round_s, terms.turns))
    return LegPlan(span_ms, count, starting_s + count * round_s, fresh=True)


def shortest_seconds(group: ProcessGroup, starter: Starter) -> float:
    """What the fewest legs take, by the first processes: on a busy machine they start several times as slowly."""
    slow = max(each.loaded.load_ms for each in group.every) >= SLOW_LOAD_MS
    runs_ms = [max(each.run_ms, each.loaded.first_run_ms) for each in group.every]
    round_s = sum(max(leg_slice_ms(run_ms), run_ms) for run_ms in runs_ms) / 1e3
    return (SLOW_FEWEST if slow else FEWEST) * (_LATER_START * starter.seconds + PROOF.leg_rounds[0] * round_s)


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
    return min(max(_RUNS_A_SLICE * run_ms, rounds.SHORTEST_SLICE_MS), _LONGEST_SLICE_MS)


def leg_rounds(starting_s: float, round_s: float, turns: Schedule = PROOF) -> int:
    """How many rounds a leg has, an even number: they take about half as long as its start.

    A leg is one observation, and its processes differ more than its rounds.
    """
    least, most = turns.leg_rounds
    return max(least, min(most, 2 * round(starting_s / 4 / round_s)))


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
