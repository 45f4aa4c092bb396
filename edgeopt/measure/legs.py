"""Legs of fresh processes: the driver that runs them, and the proofs of speed that use it.

`edgeopt bench` and the proofs share the driver; the table of schedules and `LegPlan` hold their differences. A
proof ends as soon as the speed-up that it is to show is certain, or too small to wait for.
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
"""The fewest legs for models that take longer than SLOW_LOAD_MS to load."""
SLOW_LOAD_MS = 3000.0
# A leg is one observation, however long, so its slices are short; a run longer than that is one slice.
_RUNS_A_SLICE, _LONGEST_SLICE_MS = 4, 200.0
# The first processes start one after the other, later ones side by side.
_LATER_START = 0.8
# The warm-up of fresh processes, which have run once already.
_WARM, _WARM_MS = Schedule("warming up", (1,)), 20.0
# Time to start all processes of a leg, without the model: a minimum, and a multiple of the runtime's import time.
_STARTING_S, _IMPORTS = 0.6, 4.0
# Models that load faster are loaded side by side; larger ones might need more memory than there is.
_QUICK_LOAD_MS = 1000.0


class FallenError(TrialError):
    """Error of a side that cannot load, or that failed while it ran."""

    def __init__(self, name: str, error: TrialError) -> None:
        super().__init__(error.message, error.hint, error.code)
        self.name = name


class LegPlan(msgspec.Struct, frozen=True):
    """Division of the rounds into legs."""

    span_ms: float
    leg_rounds: int
    leg_s: float
    """Expected duration of a leg, with the start of its processes."""
    fresh: bool
    """Whether each leg has processes of its own."""


@dataclass(slots=True)
class LegDriver:
    """Runs legs of interleaved slices until every pair is decided or no further leg fits."""

    players: Sequence[Sliced]
    """The first side, then those compared with it."""
    schedule: Schedule
    plan: LegPlan
    pairs: Pairs
    watch: DeviceWatch
    end_s: float
    """Time limit on the monotonic clock; a leg that was begun is finished."""
    renew: Callable[[], Sequence[Sliced]]
    """Starts fresh processes, warms them up, and returns them in their order for the next leg."""
    is_over: Callable[[], bool]
    """Whether the results so far are enough."""
    running: Sequence[Sliced] = ()
    """The warm processes for the first leg."""
    after_round: Callable[[], object] = lambda: None
    collect: Callable[[], object] = lambda: None
    """Adds the measurements of a leg to the players."""
    is_stopped: Callable[[], bool] = lambda: False
    """Whether to stop after the fewest legs."""
    max_legs: int = 1000
    legs: int = 0
    rounds: int = 0
    begin_s: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Runs legs until the end; raises FallenError if a side fails and the schedule ends with it."""
        while True:
            if self.legs and self.plan.fresh:
                self.running = self.renew()
                if any(map(is_refused, self.players)):
                    # No further leg can run, so the decision uses the legs so far.
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
        """Number of the next leg's first round, by which the order of the sides changes.

        A side whose slice follows its own has the cores to itself, while threads of another one may still spin. In
        the same order in each leg, the first side was 6 % faster than itself.
        """
        return 2 * self.legs if self.schedule.rotates else self.rounds

    def _run_leg(self) -> int:
        """Runs one leg and returns its number of rounds; a leg is never cut short."""
        begin = self.rounds
        maximum = min(self.plan.leg_rounds, self.pairs.rules.max_rounds - begin)
        span_ms = self.plan.span_ms
        for _ in run_slices(self.running, self.schedule, lambda: span_ms, self.watch, maximum, self.position):
            self.rounds += 1
            self.after_round()
        if self.schedule.falls == "ends it":
            for side in self.running:
                if side.failure is not None:
                    raise FallenError(side.name, side.error or TrialError(side.failure))
        self.collect()
        return self.rounds - begin

    def is_open(self, place: int) -> bool:
        """Whether a pair can still be compared; a side that only lacks a new process counts as running."""
        return all(p.failure is None or is_refused(p) for p in (self.players[0], self.players[place + 1]))

    @property
    def leg_s(self) -> float:
        """Duration of a leg in seconds; the first counts half, because its processes started before it."""
        if self.legs > 1:
            return (time.monotonic() - self.begin_s) / (self.legs - 0.5 * self.plan.fresh)
        return self.plan.leg_s

    def _is_last(self) -> bool:
        rules = self.pairs.rules
        if self.rounds >= rules.max_rounds or all(player.failure is not None for player in self.players):
            return True
        maximum = rules.fewest if self.is_stopped() else max(self.max_legs, rules.fewest)
        needed = max(1, rules.fewest - self.legs)
        return self.legs >= maximum or self.end_s - time.monotonic() < needed * self.leg_s


def is_refused(player: Sliced) -> bool:
    """Whether the player has run, but the system refused it another process."""
    return bool(player.slices_ms) and player.error is not None and player.error.code == NOT_STARTED


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Interleaved processes; the first is compared with each of the others."""

    first: Contender
    others: tuple[Contender, ...]

    @property
    def every(self) -> tuple[Contender, ...]:
        return (*self.others, self.first)

    def forget(self) -> None:
        """Discards the measurements so far."""
        for each in self.every:
            each.slices_ms.clear()
            each.latencies_ms.clear()
            each.laps.clear()

    def take(self, fresh: "ProcessGroup") -> None:
        """Adds the measurements of other processes of the same sides."""
        for mine, its in zip(self.every, fresh.every, strict=True):
            mine.slices_ms += its.slices_ms
            mine.latencies_ms += its.latencies_ms
            mine.laps += its.laps


class Starter:
    """Starter of processes for the same sides, again for each leg; the stack ends those that run."""

    def __init__(self, host: TrialHost, sides: Sequence[Side], stack: ExitStack, by_sample: bool = False) -> None:
        self._host, self._sides, self._stack, self._by_sample = host, sides, stack, by_sample
        self._together = False
        self.seconds = 0.0
        """Time to start the first processes, in seconds."""

    def first(self) -> ProcessGroup:
        """Starts the first processes one after the other, so that each reports its own loading time."""
        begin_s = time.monotonic()
        pack = self._start()
        self.seconds = time.monotonic() - begin_s
        self._together = max(each.loaded.load_ms for each in pack.every) < _QUICK_LOAD_MS
        return pack

    def again(self, span_ms: float, position: int) -> ProcessGroup:
        """Ends the running processes and returns new ones, warmed up in the order of the next rounds."""
        self._stack.close()
        pack = self._start()
        deque(run_slices(pack.every, _WARM, lambda: min(span_ms, _WARM_MS), first=position), 0)
        pack.forget()
        return pack

    def _start(self) -> ProcessGroup:
        """Starts a process for each side; side by side, each may take as many times longer as there are sides."""
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
    """Goals and limits of a proof."""

    turns: Schedule
    maximum: int
    """The most legs."""
    until_s: float
    """Time limit on the monotonic clock; if too few legs fit, the proof ends early."""
    required: Sequence[int]
    """Indices, among the others, of the sides that the first must beat."""
    is_stopped: Callable[[], bool] = lambda: False
    """Whether to stop; called before each round too, so that a request to stop is reported at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """Results of a proof: the decision on the first against each other side, in their order."""

    pairs: Pairs
    states: Sequence[RoundState]
    legs: int
    """Number of legs, each with fresh processes of all sides."""
    fewest: int
    """The fewest legs that decide anything."""
    leg_s: float
    """Duration of a leg in seconds."""

    @property
    def decisions(self) -> list[Decision | None]:
        return self.pairs.decisions

    @property
    def warning(self) -> str:
        """Warning that the time was too short, with the missing seconds; empty if it was long enough."""
        if self.legs >= self.fewest:
            return ""
        missing_s = (self.fewest - self.legs) * self.leg_s
        return (
            f"The time limit left {units.count(self.legs, 'start')} of fresh processes, and a proof needs "
            f"{self.fewest}: allow about {math.ceil(missing_s)} s more."
        )


def run_legs(group: ProcessGroup, starter: Starter, terms: Terms, span_ms: float) -> Found:
    """Runs the first leg with the first processes, which are warm, and each further leg with fresh ones.

    Adds all measurements to those of the first processes. Raises FallenError if a process fails.
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
        is_over=lambda: is_settled(driver.pairs.decisions, terms.required, driver.legs, terms.turns),
        running=group.every,
        collect=collect,
        is_stopped=terms.is_stopped,
        max_legs=terms.maximum,
    )
    driver.run()
    return Found(driver.pairs, driver.watch.states, driver.legs, rules.fewest, driver.leg_s)


def _proof_plan(group: ProcessGroup, starter: Starter, terms: Terms, fewest: int, span_ms: float) -> LegPlan:
    """Returns a plan with legs short enough that the fewest legs fit into the time."""
    round_s = sum(max(span_ms, each.run_ms) for each in group.every) / 1e3
    starting_s = _LATER_START * starter.seconds
    left_s = (terms.until_s - time.monotonic()) / fewest - starting_s
    able = max(terms.turns.leg_rounds[0], 2 * int(left_s / 2 / round_s))
    count = min(able, leg_rounds(starter.seconds, round_s, terms.turns))
    return LegPlan(span_ms, count, starting_s + count * round_s, fresh=True)


def shortest_seconds(group: ProcessGroup, starter: Starter) -> float:
    """Returns the seconds for the fewest legs, from the first processes, which start slowly on a busy machine."""
    slow = max(each.loaded.load_ms for each in group.every) >= SLOW_LOAD_MS
    runs_ms = [max(each.run_ms, each.loaded.first_run_ms) for each in group.every]
    round_s = sum(max(leg_slice_ms(run_ms), run_ms) for run_ms in runs_ms) / 1e3
    return (SLOW_FEWEST if slow else FEWEST) * (_LATER_START * starter.seconds + PROOF.leg_rounds[0] * round_s)


def proof_seconds(baseline: Contender, sides: int = 2) -> float:
    """Estimates the seconds for the shortest proof from the baseline's process; most proofs take no longer."""
    run_ms = baseline.slices_ms[-1] if baseline.slices_ms else baseline.loaded.first_run_ms
    round_s = sides * max(leg_slice_ms(run_ms), run_ms) / 1e3
    starting_s = (
        starting_seconds(baseline) + sides * (baseline.loaded.load_ms + baseline.loaded.first_run_ms) / 1e3
    )
    legs = SLOW_FEWEST if baseline.loaded.load_ms >= SLOW_LOAD_MS else FEWEST
    return legs * (starting_s + leg_rounds(starting_s, round_s) * round_s)


def starting_seconds(baseline: Contender) -> float:
    """Estimates the seconds to start a leg's processes without the model, from the baseline's import time."""
    return max(_STARTING_S, _IMPORTS * (baseline.loaded.import_ms or 0.0) / 1e3)


def leg_slice_ms(run_ms: float) -> float:
    """Returns the length of a leg's slices in milliseconds, from the time of a run."""
    return min(max(_RUNS_A_SLICE * run_ms, rounds.SHORTEST_SLICE_MS), _LONGEST_SLICE_MS)


def leg_rounds(starting_s: float, round_s: float, turns: Schedule = PROOF) -> int:
    """Returns the number of rounds in a leg, which is even; they take about half as long as its start.

    A leg is one observation, and its processes differ more than its rounds.
    """
    minimum, maximum = turns.leg_rounds
    return max(minimum, min(maximum, 2 * round(starting_s / 4 / round_s)))


def is_settled(
    decisions: Sequence[Decision | None], required: Sequence[int], legs: int, turns: Schedule = PROOF
) -> bool:
    """Whether every decision is clear, or a required gain is too small to continue."""
    known = [each for each in decisions if each is not None]
    if len(known) < len(decisions):
        return False
    if all(each.verdict not in UNDECIDED for each in known):
        return True
    minimum = 1 + turns.same_percent / 100 if legs >= turns.patient else 1.0
    return any(known[k].speedup.median < minimum for k in required if known[k].verdict != FASTER)
