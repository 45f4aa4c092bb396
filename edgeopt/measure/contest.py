"""The contest of `edgeopt bench`: interleaved sides, in legs of fresh processes, until the result is clear.

The first side is compared with each other one. A side that crashes, hangs, takes all memory or gives invalid
answers is a result too, and the contest continues with the others.
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
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.legs import LegDriver, LegPlan
from edgeopt.measure.report import Comparison, ContestReport
from edgeopt.measure.rounds import DeviceWatch, slice_ms
from edgeopt.measure.schedules import CONTEST, LUCK_PERCENT
from edgeopt.measure.scoreboard import Scoreboard, with_energy
from edgeopt.measure.sequential import Decision, Pairs, Rules, decide
from edgeopt.measure.stats import IDENTICAL, UNITY
from edgeopt.workers.host import TrialHost

# With few rounds or little time, legs are shorter, so that there are enough of them.
_ENOUGH_LEGS = (6, 4)
# Fresh processes are not worth starting if that takes more than this many times as long as the rounds.
_START_SHARE = 4.0
# A single side has no comparison: it runs until its windows agree, and at least this long.
_ALONE_S, _ALONE_ROUNDS = 5.0, 30


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
    players = [Scoreboard(side, gauges, meter, rules.patience_s) for side in sides]
    with ExitStack() as stack:
        for player in players:
            stack.callback(player.close)
        return _Contest(host, players, rules, emit, state).run()


class _Contest:
    """Legs that go on without the sides that fail."""

    def __init__(
        self, host: TrialHost, players: list[Scoreboard], rules: Rules, emit: Emit, state: StateSampler | None
    ) -> None:
        self.players = players
        # Each further comparison is one more chance to report a difference between equal sides.
        self._pair_rules = msgspec.structs.replace(rules, error=rules.error / max(1, len(players) - 1))
        self._host, self._rules, self._emit = host, rules, emit
        self._begin_s = time.monotonic()
        self._so_far: str | None = None
        pairs = Pairs.of(len(players) - 1, self._pair_rules)
        for place, player in enumerate(players[1:]):
            if player.side.same_as_first:
                pairs.decisions[place] = Decision(True, IDENTICAL, UNITY, None, 0)
        self._driver = LegDriver(
            players=players,
            schedule=CONTEST,
            plan=LegPlan(0.0, 0, 0.0, fresh=False),
            pairs=pairs,
            watch=DeviceWatch(state, rules.repeats),
            end_s=self._begin_s + rules.time_limit_s,
            renew=self._renew,
            is_over=self._is_over,
            running=players,
            after_round=self._emit_progress,
            begin_s=self._begin_s,
        )

    def run(self) -> ContestReport:
        self._driver.plan = self._prepare()
        self._driver.run()
        self._need_a_result()
        report = self._report()
        metered = tuple(with_energy(side, player) for side, player in zip(report.sides, self.players, strict=True))
        return msgspec.structs.replace(report, sides=metered)

    @property
    def _running(self) -> list[Scoreboard]:
        return [player for player in self.players if player.failure is None]

    @property
    def _compares(self) -> bool:
        """Whether a pair is left to compare: the first side runs, and so does one that is not identical to it."""
        others = [each for each in self._running if each is not self.players[0]]
        return self.players[0].failure is None and not all(each.side.same_as_first for each in others)

    def _prepare(self) -> LegPlan:
        """Starts all sides, and plans the legs from the measured times of a start and of a round."""
        self._start_all(None)
        running = self._running
        if not running:
            self._need_a_result()
        starting_s = time.monotonic() - self._begin_s
        # A first round, which is not counted, gives the time of a run and so the length of slices.
        slowest_ms = max((player.warm_ms for player in running), default=1.0)
        span_ms = slice_ms(slowest_ms)
        round_s = len(running) * max(span_ms, 1.2 * slowest_ms) / 1e3
        plan = plan_legs(self._rules, span_ms, round_s, starting_s)
        # A single side gains nothing from fresh processes.
        return plan if self._compares else msgspec.structs.replace(plan, fresh=False)

    def _renew(self) -> list[Scoreboard]:
        self._start_all(self._driver.plan.span_ms)
        return self.players

    def _start_all(self, span_ms: float | None) -> None:
        """Starts fresh processes of all sides that still run, and warms each up by a slice that does not count.

        They start one after the other, because loading times are reported.
        """
        for player in self._running:
            self._emit(Progress("loading", player.name, self._driver.rounds or None, best=self._so_far))
            player.renew(self._host, self._rules.load_patience_s)
        for player in self._running:
            first_ms = player.loaded.first_run_ms if player.loaded else 1.0
            player.warm_up(span_ms or slice_ms(first_ms))

    def _is_over(self) -> bool:
        self._so_far = self._standing()
        driver = self._driver
        if not self._compares:
            settled = all(player.stable for player in self._running) and driver.rounds >= _ALONE_ROUNDS
            long_enough = time.monotonic() - self._begin_s >= _ALONE_S
            return settled and long_enough and driver.rounds >= self._rules.min_rounds
        known = driver.pairs.decisions
        return all(found is not None and found.done for k, found in enumerate(known) if driver.is_open(k))

    def _standing(self) -> str | None:
        """Returns the first pair's speed-up so far as text for the progress display; no decision depends on it."""
        pairs = zip(self._driver.pairs.legs, self.players[1:], strict=True)
        legs = next((legs for legs, other in pairs if other.failure is None), [])
        found = decide(legs, self._pair_rules, last=True) if self._compares else None
        return f"{self.players[0].name} {found.speedup}" if found is not None and found.speedup.usable else None

    def _need_a_result(self) -> None:
        """Raises TrialError when no side has run a single round."""
        if self._driver.rounds and any(t.slices for t in self.players):
            return
        failed = [t for t in self.players if t.failure]
        if not failed:
            return
        reasons = "; ".join(f"'{t.name}' {(t.failure or '').rstrip('.')}" for t in failed)
        if self._running:
            return
        errors = [t.error for t in failed if t.error]
        hint = next((e.hint for e in errors if e.hint), how_to_check(failed[0].side))
        codes = {e.code for e in errors}
        raise TrialError(f"{reasons}.", hint, codes.pop() if len(codes) == 1 else "")

    def _emit_progress(self) -> None:
        driver = self._driver
        left_s = max(0.0, driver.end_s - time.monotonic())
        running = self._running
        what = f"{len(running)} interleaved" if len(running) > 1 else (running[0].name if running else "")
        legs_left = max(1, math.ceil(left_s / max(driver.leg_s, 1e-3)))
        total = min(self._rules.max_rounds, driver.rounds + legs_left * driver.plan.leg_rounds)
        self._emit(Progress("measuring", what, driver.rounds, total, self._so_far, left_s))

    def _report(self) -> ContestReport:
        return ContestReport(
            sides=tuple(player.report() for player in self.players),
            comparisons=tuple(self._comparison(other, found) for other, found in self._decided()),
            states=tuple(self._driver.watch.states),
            measured_while=self._driver.watch.sentence,
            rounds=self._driver.rounds,
            seconds=time.monotonic() - self._begin_s,
            warnings=self._warnings(),
        )

    def _decided(self) -> list[tuple[Scoreboard, Decision]]:
        """Returns the decided pairs, also those of a side that failed later, but not its undecided ones."""
        known = enumerate(zip(self.players[1:], self._driver.pairs.decisions, strict=True))
        return [(other, found) for k, (other, found) in known if found and (found.done or self._driver.is_open(k))]

    def _comparison(self, other: Scoreboard, found: Decision) -> Comparison:
        return Comparison(
            self.players[0].name,
            other.name,
            found.speedup.stated,
            found.verdict,
            found.at_most_percent,
            found.looks,
            self._pair_rules.error,
            found.luck_percent,
        )

    def _warnings(self) -> tuple[str, ...]:
        warnings = []
        first, known = self.players[0], self._decided()
        for other, found in known:
            pair = f"'{first.name}' and '{other.name}'"
            if found.torn:
                warnings.append(
                    f"{pair}: the least disturbed slices and the median round disagree, for example because a "
                    "side switches between two speeds or other processes are busy at times; the interval "
                    "includes both."
                )
            warnings += [
                f"{pair} were compared before '{player.name}' failed: it {player.failure.rstrip('.')}."
                for player in (first, other)
                if player.failure is not None
            ]
        if any(found.verdict != IDENTICAL for _, found in known) and not self._driver.plan.fresh:
            warnings.append(
                "All rounds ran in the same processes, because there was too little time or too few rounds "
                f"for fresh ones: differences below {LUCK_PERCENT:g} % may be chance of one process and are "
                "not reported."
            )
        for player in self.players:
            if player.loaded is not None:
                warnings += [f"'{player.name}': {warning}" for warning in player.loaded.warnings]
        return tuple(warnings)


def plan_legs(rules: Rules, span_ms: float, round_s: float, starting_s: float) -> LegPlan:
    """Cuts the rounds and the time that the rules allow into enough legs.

    `starting_s` is what it takes to start and warm up all sides.
    """
    round_s = max(round_s, 1e-3)
    by_rounds = rules.max_rounds // max(_ENOUGH_LEGS)
    # The longer a start takes, the more rounds follow it.
    usual, maximum = CONTEST.leg_rounds
    target = min(maximum, max(usual, math.ceil(starting_s / _START_SHARE / round_s)))
    for legs in _ENOUGH_LEGS:
        rounds = min(target, max(1, by_rounds), int((rules.time_limit_s / legs - starting_s) / round_s))
        worth_it = by_rounds >= usual or starting_s <= _START_SHARE * rounds * round_s
        if rounds >= 1 and worth_it:
            return LegPlan(span_ms, rounds, rounds * round_s + starting_s, True)
    by_time = int(rules.time_limit_s / max(_ENOUGH_LEGS) / round_s)
    rounds = max(1, min(usual, by_rounds, by_time))
    return LegPlan(span_ms, rounds, rounds * round_s, False)
