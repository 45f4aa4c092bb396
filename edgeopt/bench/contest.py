"""The contest of `edgeopt bench`: sides run in turns, leg after leg of fresh processes, until the answer is clear.

The first side is compared with each other one. A side that crashes, hangs, takes all memory or answers nonsense
is a result of the contest, which goes on with the others.
"""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec
import numpy as np

from edgeopt.bench.contender import Side
from edgeopt.bench.host import NOT_STARTED, TrialHost
from edgeopt.bench.instruments.energy import EnergyMeter
from edgeopt.bench.instruments.gauges import Gauges
from edgeopt.bench.instruments.machine_state import StateSampler, sentence
from edgeopt.bench.report import Comparison, ContestReport, RoundState
from edgeopt.bench.rounds import in_turn, slice_ms
from edgeopt.bench.sequential import LUCK_PERCENT, Decision, Leg, Rules, decide, leg_of
from edgeopt.bench.stretch import with_energy
from edgeopt.bench.tally import Tally
from edgeopt.errors import TrialError
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import Unavailable

# A leg of so many rounds has seen every order of two sides twice; more of them say little more of one process.
# With few rounds or little time, legs are shorter, so that there are enough of them.
_LEG_ROUNDS, _LONGEST_LEG = 8, 24
_ENOUGH_LEGS = (6, 4)
# Where few rounds are wanted, they are not worth starting processes for that take more than so many times as long.
_START_SHARE = 4.0
# One side alone is compared with nothing: it runs until its windows agree, and for so long at least.
_ALONE_S, _ALONE_ROUNDS = 5.0, 30
_MEASURED = "measuring"


class Plan(msgspec.Struct, frozen=True):
    """How the rounds are cut into legs."""

    span_ms: float
    leg_rounds: int
    leg_s: float
    """What a leg is going to take, with the start of its processes."""
    fresh: bool
    """Each leg has processes of its own."""


def contest(
    host: TrialHost,
    sides: Sequence[Side],
    rules: Rules,
    emit: Emit,
    state: StateSampler | None = None,
    meter: EnergyMeter | Unavailable | None = None,
) -> ContestReport:
    """Measures the sides in turns; raises TrialError when not one of them can run.

    With `state`, rounds that the device spoils are run again. With `meter`, each slice's energy is noted.
    """
    if not sides:
        raise ValueError("a contest needs a side")
    running = _Contest(host, [Tally(side) for side in sides], rules, emit, state, meter)
    with ExitStack() as stack:
        for tally in running.tallies:
            stack.callback(tally.close)
        return running.run()


class _Contest:
    def __init__(
        self,
        host: TrialHost,
        tallies: list[Tally],
        rules: Rules,
        emit: Emit,
        state: StateSampler | None,
        meter: EnergyMeter | Unavailable | None,
    ) -> None:
        self.tallies = tallies
        # Each further comparison is one more chance to call a difference where none is.
        self._pair_rules = msgspec.structs.replace(rules, error=rules.error / max(1, len(tallies) - 1))
        self._host, self._rules, self._emit, self._state, self._meter = host, rules, emit, state, meter
        self._gauges = Gauges(emit)
        self._begin_s = time.monotonic()
        self._rounds = self._repeats = 0
        self._states: list[RoundState] = []
        self._legs: dict[int, list[Leg]] = {place: [] for place in range(1, len(tallies))}
        self._decisions: dict[int, Decision] = {}
        self._so_far: str | None = None
        self._leg_s = 0.0

    def run(self) -> ContestReport:
        plan = self._prepare()
        first = True
        while self._running:
            leg_begin_s = time.monotonic()
            if plan.fresh and not first:
                self._start_all(plan.span_ms)
                if self._refused:
                    # The device gives no more processes: the legs so far are all that there will be.
                    self._judge(last=True)
                    break
            self._run_leg(plan, fresh=plan.fresh or first)
            # The first leg's processes were started before it.
            self._leg_s = max(plan.leg_s if first else 0.0, time.monotonic() - leg_begin_s)
            first = False
            last = self._is_last()
            if self._judge(last) or last:
                break
        self._need_a_result()
        report = self._report(plan)
        metered = tuple(
            with_energy(side, tally.contender, self._meter, self._gauges, self._rules.patience_s)
            for side, tally in zip(report.sides, self.tallies, strict=True)
        )
        return msgspec.structs.replace(report, sides=metered)

    @property
    def _running(self) -> list[Tally]:
        return [t for t in self.tallies if t.runs_on]

    @property
    def _refused(self) -> list[Tally]:
        """Those who have run, and to whom the system gave no further process."""
        return [t for t in self.tallies if t.slices and t.error is not None and t.error.code == NOT_STARTED]

    def _still_judged(self, place: int) -> bool:
        """Whether this comparison is still open: both sides run on, or would if there were processes."""
        pair = self.tallies[0], self.tallies[place]
        return all(tally.runs_on or tally in self._refused for tally in pair)

    @property
    def _compares(self) -> bool:
        """Whether there is still a pair to compare: the first side, and another."""
        return self.tallies[0].runs_on and len(self._running) > 1

    def _prepare(self) -> Plan:
        """Starts all sides, and measures what starting and a round take."""
        begin_s = time.monotonic()
        self._start_all(None)
        running = self._running
        if not running:
            self._need_a_result()
        starting_s = time.monotonic() - begin_s
        # A first round each, which is not counted, says how long slices must be.
        slowest_ms = max((float(np.median(t.leg_ms)) for t in running if t.leg_ms), default=1.0)
        for tally in self.tallies:
            tally.leg_ms.clear()
        span_ms = slice_ms(slowest_ms)
        round_s = len(running) * max(span_ms, 1.2 * slowest_ms) / 1e3
        plan = plan_legs(self._rules, span_ms, round_s, starting_s)
        # What is compared with nothing needs no other processes.
        return plan if self._compares else msgspec.structs.replace(plan, fresh=False)

    def _start_all(self, span_ms: float | None) -> None:
        """Fresh processes for all who still run, each warmed up by a slice that does not count."""
        for tally in self._running:
            self._emit(Progress("loading", tally.side.name, self._rounds or None, best=self._so_far))
            tally.renew(self._host, self._rules.load_patience_s)
        for tally in self._running:
            first_ms = tally.loaded.first_run_ms if tally.loaded else 1.0
            tally.turn(span_ms or slice_ms(first_ms), self._gauges, None, self._rules.patience_s)
            tally.warmed_up()

    def _run_leg(self, plan: Plan, fresh: bool) -> None:
        for tally in self.tallies:
            tally.leg_ms.clear()
        rounds = min(plan.leg_rounds, self._rules.rounds_most - self._rounds)
        for _ in range(rounds):
            if not self._round(plan):
                return
        first = self.tallies[0]
        for place, other in enumerate(self.tallies[1:], 1):
            if first.runs_on and other.runs_on:
                self._legs[place].append(leg_of(first.leg_ms, other.leg_ms, fresh))
        self._so_far = self._look_by_the_way()

    def _look_by_the_way(self) -> str | None:
        """How the first pair stands, for who watches: nothing is decided by it."""
        legs = next((self._legs[k] for k in self._legs if self.tallies[k].runs_on), [])
        found = decide(legs, self._pair_rules, last=True) if self._compares else None
        if found is None:
            return None
        ratio = f"{found.speedup}" if len(legs) > 1 else f"{found.speedup.median:.2f}x"
        return f"{self.tallies[0].side.name} {ratio}"

    def _round(self, plan: Plan) -> bool:
        """One round that counts, after those that the device spoiled; False when nobody is left."""
        while self._running:
            if self._state is not None:
                self._state.begin_round(self._rounds)
            for tally in in_turn(self._running, self._rounds):
                tally.turn(plan.span_ms, self._gauges, self._meter, self._rules.patience_s)
            seen = self._state.end_round() if self._state is not None else None
            again = seen is not None and bool(seen.bad) and self._repeats < self._rules.repeats
            if seen is not None:
                self._states.append(msgspec.structs.replace(seen, repeated=again))
            if again:
                self._repeats += 1
                continue
            for tally in self._running:
                tally.keep(self._rounds)
            self._rounds += 1
            self._tell(plan)
            return bool(self._running)
        return False

    def _is_last(self) -> bool:
        """Whether no further leg fits."""
        if self._rounds >= self._rules.rounds_most or not self._running:
            return True
        return time.monotonic() - self._begin_s + self._leg_s > self._rules.time_limit_s

    def _judge(self, last: bool) -> bool:
        """Looks at the legs so far; whether the contest has its answers."""
        if not self._compares and not self._refused:
            settled = all(t.stable for t in self._running) and self._rounds >= _ALONE_ROUNDS
            long_enough = time.monotonic() - self._begin_s >= _ALONE_S and self._rounds >= self._rules.rounds_least
            return settled and long_enough
        for place, legs in self._legs.items():
            before = self._decisions.get(place)
            # A verdict stands once it is given: to look again would be to look more often than was paid for.
            if not self._still_judged(place) or (before is not None and before.done):
                continue
            found = decide(legs, self._pair_rules, last)
            if found is not None:
                self._decisions[place] = found
        return all(
            self._decisions[place].done if place in self._decisions else False
            for place in self._legs
            if self._still_judged(place)
        )

    def _need_a_result(self) -> None:
        """Raises TrialError when no side has run a single round."""
        if self._rounds and any(t.slices for t in self.tallies):
            return
        failed = [t for t in self.tallies if t.failure]
        if not failed:
            return
        said = "; ".join(f"'{t.side.name}' {(t.failure or '').rstrip('.')}" for t in failed)
        if self._running:
            return
        errors = [t.error for t in failed if t.error]
        hint = next(
            (e.hint for e in errors if e.hint), "Check the file with `edgeopt verify`, or its own runtime."
        )
        codes = {e.code for e in errors}
        raise TrialError(f"{said}.", hint, codes.pop() if len(codes) == 1 else "")

    def _tell(self, plan: Plan) -> None:
        left_s = max(0.0, self._rules.time_limit_s - (time.monotonic() - self._begin_s))
        running = self._running
        what = f"{len(running)} in turns" if len(running) > 1 else (running[0].side.name if running else "")
        still = max(1, math.ceil(left_s / max(self._leg_s, plan.leg_s, 1e-3))) * plan.leg_rounds
        total = min(self._rules.rounds_most, self._rounds + still)
        self._emit(Progress(_MEASURED, what, self._rounds, total, self._so_far, left_s))

    def _report(self, plan: Plan) -> ContestReport:
        return ContestReport(
            sides=tuple(t.report(self._meter) for t in self.tallies),
            comparisons=tuple(
                self._comparison(place, self._decisions[place])
                for place in self._legs
                if place in self._decisions and self._stands(place)
            ),
            states=tuple(self._states),
            measured_while=sentence(self._states, self._state is None or self._state.judge_others),
            rounds=self._rounds,
            seconds=time.monotonic() - self._begin_s,
            warnings=self._warnings(plan),
        )

    def _stands(self, place: int) -> bool:
        """What was decided stays true when a side falls later; what was still open is no result."""
        return self._decisions[place].done or self._still_judged(place)

    def _comparison(self, place: int, found: Decision) -> Comparison:
        return Comparison(
            self.tallies[0].side.name,
            self.tallies[place].side.name,
            found.speedup,
            found.verdict,
            found.at_most_percent,
            found.looks,
            self._pair_rules.error,
            found.luck_percent,
        )

    def _warnings(self, plan: Plan) -> tuple[str, ...]:
        said = []
        for place, found in self._decisions.items():
            first, other = self.tallies[0], self.tallies[place]
            if not self._stands(place):
                continue
            if found.torn:
                said.append(
                    f"'{first.side.name}' and '{other.side.name}': the least disturbed "
                    "slices and the median round do not agree, as when a side jumps between two speeds or others "
                    "are busy at times; the interval holds both."
                )
            said += [
                f"'{first.side.name}' and '{other.side.name}' were compared before '{tally.side.name}' fell: it "
                f"{tally.failure.rstrip('.')}."
                for tally in (first, other)
                if tally.failure is not None
            ]
        if self._decisions and not plan.fresh:
            said.append(
                "All rounds ran in the same processes, because there was too little time, or too few rounds, to "
                f"start fresh ones: differences below {LUCK_PERCENT:g} % may be the luck of one process for its "
                "whole life, and are not called."
            )
        for tally in self.tallies:
            if tally.loaded is not None:
                said += [f"'{tally.side.name}': {warning}" for warning in tally.loaded.warnings]
        return tuple(said)


def plan_legs(rules: Rules, span_ms: float, round_s: float, starting_s: float) -> Plan:
    """Cuts the rounds and the time that the rules allow into enough legs.

    `starting_s` is what it takes to start and warm up all sides.
    """
    round_s = max(round_s, 1e-3)
    by_rounds = rules.rounds_most // max(_ENOUGH_LEGS)
    # Long starts are worth more rounds each.
    wanted = min(_LONGEST_LEG, max(_LEG_ROUNDS, math.ceil(starting_s / _START_SHARE / round_s)))
    for legs in _ENOUGH_LEGS:
        rounds = min(wanted, max(1, by_rounds), int((rules.time_limit_s / legs - starting_s) / round_s))
        worth_it = by_rounds >= _LEG_ROUNDS or starting_s <= _START_SHARE * rounds * round_s
        if rounds >= 1 and worth_it:
            return Plan(span_ms, rounds, rounds * round_s + starting_s, True)
    by_time = int(rules.time_limit_s / max(_ENOUGH_LEGS) / round_s)
    rounds = max(1, min(_LEG_ROUNDS, by_rounds, by_time))
    return Plan(span_ms, rounds, rounds * round_s, False)
