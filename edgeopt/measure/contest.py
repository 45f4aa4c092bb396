"""The contest of `edgeopt bench`: interleaved sides, in legs of fresh processes, until the answer is clear.

The first side is compared with each other one. A side that crashes, hangs, takes all memory or answers nonsense
is a result of the contest, which goes on with the others.
"""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec

from edgeopt.errors import TrialError
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import Unavailable
from edgeopt.measure.contender import Side, how_to_check
from edgeopt.measure.host import NOT_STARTED, TrialHost
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.report import Comparison, ContestReport
from edgeopt.measure.rounds import DeviceWatch, run_slices, slice_ms
from edgeopt.measure.schedules import CONTEST, LUCK_PERCENT
from edgeopt.measure.scoreboard import Scoreboard, with_energy
from edgeopt.measure.sequential import Decision, Pairs, Rules, decide, leg_after_leg
from edgeopt.measure.stats import IDENTICAL, UNITY

# With few rounds or little time, legs are shorter, so that there are enough of them.
_ENOUGH_LEGS = (6, 4)
# Fresh processes are not worth starting if that takes more than this many times as long as the rounds.
_START_SHARE = 4.0
# A single side has no comparison: it runs until its windows agree, and at least this long.
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
    """Measures the sides interleaved; raises TrialError if none of them can run.

    With `state`, rounds that the device spoils are run again. With `meter`, each slice's energy is noted.
    """
    if not sides:
        raise ValueError("a contest needs a side")
    gauges = Gauges(emit)
    tallies = [Scoreboard(side, gauges, meter, rules.patience_s) for side in sides]
    with ExitStack() as stack:
        for tally in tallies:
            stack.callback(tally.close)
        return _Contest(host, tallies, rules, emit, state).run()


class _Contest:
    """A match that goes on without the sides that fail."""

    def __init__(
        self, host: TrialHost, tallies: list[Scoreboard], rules: Rules, emit: Emit, state: StateSampler | None
    ) -> None:
        self.players = tallies
        # Each further comparison is one more chance to call a difference where none is.
        self._pair_rules = msgspec.structs.replace(rules, error=rules.error / max(1, len(tallies) - 1))
        self._host, self._rules, self._emit = host, rules, emit
        self._watch = DeviceWatch(state, rules.repeats)
        self._begin_s = self._leg_begin_s = time.monotonic()
        self._rounds = 0
        self._pairs = Pairs.of(len(tallies) - 1, self._pair_rules)
        for place, tally in enumerate(tallies[1:]):
            if tally.side.same_as_first:
                self._pairs.decisions[place] = Decision(True, IDENTICAL, UNITY, None, 0)
        self._so_far: str | None = None
        self._leg_s = 0.0
        self._plan = Plan(0.0, 0, 0.0, False)

    def run(self) -> ContestReport:
        self._plan = self._prepare()
        self._leg_begin_s = time.monotonic()
        leg_after_leg(self, self._pairs)
        self._need_a_result()
        report = self._report()
        metered = tuple(with_energy(side, tally) for side, tally in zip(report.sides, self.players, strict=True))
        return msgspec.structs.replace(report, sides=metered)

    @property
    def is_fresh(self) -> bool:
        return self._plan.fresh

    @property
    def _running(self) -> list[Scoreboard]:
        return [t for t in self.players if t.failure is None]

    @property
    def _refused(self) -> list[Scoreboard]:
        """Those who have run, and to whom the system gave no further process."""
        return [t for t in self.players if t.slices and t.error is not None and t.error.code == NOT_STARTED]

    def is_open(self, place: int) -> bool:
        """Both sides run on, or would if there were processes."""
        refused = self._refused
        return all(t.failure is None or t in refused for t in (self.players[0], self.players[place + 1]))

    @property
    def _compares(self) -> bool:
        """Whether there is still a pair to compare: the first side, and another one than itself."""
        others = [each for each in self._running if each is not self.players[0]]
        return self.players[0].failure is None and not all(each.side.same_as_first for each in others)

    def _prepare(self) -> Plan:
        """Starts all sides, and measures what starting and a round take."""
        self._start_all(None)
        running = self._running
        if not running:
            self._need_a_result()
        starting_s = time.monotonic() - self._begin_s
        # A first round each, which is not counted, says how long slices must be.
        slowest_ms = max((t.warm_ms for t in running), default=1.0)
        span_ms = slice_ms(slowest_ms)
        round_s = len(running) * max(span_ms, 1.2 * slowest_ms) / 1e3
        plan = plan_legs(self._rules, span_ms, round_s, starting_s)
        # What is compared with nothing needs no other processes.
        return plan if self._compares else msgspec.structs.replace(plan, fresh=False)

    def _start_all(self, span_ms: float | None) -> None:
        """Fresh processes for all who still run, each warmed up by a slice that does not count.

        One after the other, because loading times are reported.
        """
        for tally in self._running:
            self._emit(Progress("loading", tally.side.name, self._rounds or None, best=self._so_far))
            tally.renew(self._host, self._rules.load_patience_s)
        for tally in self._running:
            first_ms = tally.loaded.first_run_ms if tally.loaded else 1.0
            tally.warm_up(span_ms or slice_ms(first_ms))

    def renew(self) -> bool:
        self._leg_begin_s = time.monotonic()
        self._start_all(self._plan.span_ms)
        return not self._refused

    def run_leg(self) -> int:
        begin, most = self._rounds, min(self._plan.leg_rounds, self._rules.rounds_most - self._rounds)
        for _ in run_slices(self.players, CONTEST, lambda: self._plan.span_ms, self._watch, most, self._rounds):
            self._rounds += 1
            self._tell()
        return self._rounds - begin

    def is_last(self) -> bool:
        now_s = time.monotonic()
        # The first leg's processes were started before it.
        self._leg_s = max(0.0 if self._leg_s else self._plan.leg_s, now_s - self._leg_begin_s)
        self._leg_begin_s = now_s
        self._so_far = self._look_by_the_way()
        if self._rounds >= self._rules.rounds_most or not self._running:
            return True
        return now_s - self._begin_s + self._leg_s > self._rules.time_limit_s

    def _look_by_the_way(self) -> str | None:
        """How the first pair stands, for who watches: nothing is decided by it."""
        running = zip(self._pairs.legs, self.players[1:], strict=True)
        legs = next((legs for legs, other in running if other.failure is None), [])
        found = decide(legs, self._pair_rules, last=True) if self._compares else None
        if found is None:
            return None
        ratio = f"{found.speedup}" if len(legs) > 1 else f"{found.speedup.median:.2f}x"
        return f"{self.players[0].side.name} {ratio}"

    def is_over(self) -> bool:
        if not self._compares and not self._refused:
            settled = all(t.stable for t in self._running) and self._rounds >= _ALONE_ROUNDS
            long_enough = time.monotonic() - self._begin_s >= _ALONE_S and self._rounds >= self._rules.rounds_least
            return settled and long_enough
        known = self._pairs.decisions
        return all(found is not None and found.done for k, found in enumerate(known) if self.is_open(k))

    def _need_a_result(self) -> None:
        """Raises TrialError when no side has run a single round."""
        if self._rounds and any(t.slices for t in self.players):
            return
        failed = [t for t in self.players if t.failure]
        if not failed:
            return
        said = "; ".join(f"'{t.side.name}' {(t.failure or '').rstrip('.')}" for t in failed)
        if self._running:
            return
        errors = [t.error for t in failed if t.error]
        hint = next((e.hint for e in errors if e.hint), how_to_check(failed[0].side))
        codes = {e.code for e in errors}
        raise TrialError(f"{said}.", hint, codes.pop() if len(codes) == 1 else "")

    def _tell(self) -> None:
        left_s = max(0.0, self._rules.time_limit_s - (time.monotonic() - self._begin_s))
        running = self._running
        what = f"{len(running)} interleaved" if len(running) > 1 else (running[0].side.name if running else "")
        leg_s = max(self._leg_s, self._plan.leg_s, 1e-3)
        still = max(1, math.ceil(left_s / leg_s)) * self._plan.leg_rounds
        total = min(self._rules.rounds_most, self._rounds + still)
        self._emit(Progress(_MEASURED, what, self._rounds, total, self._so_far, left_s))

    def _report(self) -> ContestReport:
        return ContestReport(
            sides=tuple(t.report() for t in self.players),
            comparisons=tuple(self._comparison(other, found) for other, found in self._decided()),
            states=tuple(self._watch.states),
            measured_while=self._watch.sentence,
            rounds=self._rounds,
            seconds=time.monotonic() - self._begin_s,
            warnings=self._warnings(),
        )

    def _decided(self) -> list[tuple[Scoreboard, Decision]]:
        """What was decided stays true when a side falls later; what was still open is no result."""
        known = enumerate(zip(self.players[1:], self._pairs.decisions, strict=True))
        return [(other, found) for k, (other, found) in known if found and (found.done or self.is_open(k))]

    def _comparison(self, other: Scoreboard, found: Decision) -> Comparison:
        return Comparison(
            self.players[0].side.name,
            other.side.name,
            found.speedup,
            found.verdict,
            found.at_most_percent,
            found.looks,
            self._pair_rules.error,
            found.luck_percent,
        )

    def _warnings(self) -> tuple[str, ...]:
        said = []
        first, known = self.players[0], self._decided()
        for other, found in known:
            pair = f"'{first.side.name}' and '{other.side.name}'"
            if found.torn:
                said.append(
                    f"{pair}: the least disturbed slices and the median round disagree, for example because a "
                    "side switches between two speeds or other processes are busy at times; the interval "
                    "includes both."
                )
            said += [
                f"{pair} were compared before '{tally.side.name}' failed: it {tally.failure.rstrip('.')}."
                for tally in (first, other)
                if tally.failure is not None
            ]
        if any(found.verdict != IDENTICAL for _, found in known) and not self.is_fresh:
            said.append(
                "All rounds ran in the same processes, because there was too little time or too few rounds "
                f"for fresh ones: differences below {LUCK_PERCENT:g} % may be chance of one process and are "
                "not reported."
            )
        for tally in self.players:
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
    usual, most = CONTEST.leg_rounds
    wanted = min(most, max(usual, math.ceil(starting_s / _START_SHARE / round_s)))
    for legs in _ENOUGH_LEGS:
        rounds = min(wanted, max(1, by_rounds), int((rules.time_limit_s / legs - starting_s) / round_s))
        worth_it = by_rounds >= usual or starting_s <= _START_SHARE * rounds * round_s
        if rounds >= 1 and worth_it:
            return Plan(span_ms, rounds, rounds * round_s + starting_s, True)
    by_time = int(rules.time_limit_s / max(_ENOUGH_LEGS) / round_s)
    rounds = max(1, min(usual, by_rounds, by_time))
    return Plan(span_ms, rounds, rounds * round_s, False)
