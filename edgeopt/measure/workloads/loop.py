"""The loop of the workloads that run in rounds, and the comparison of their sides by pairs within rounds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol, TypeVar

from edgeopt.errors import TrialError
from edgeopt.hw.device import Unavailable
from edgeopt.measure.contender import Side
from edgeopt.measure.instruments.energy import EnergyMeter, energy
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.report import Comparison, Energy, Verdict
from edgeopt.measure.rounds import DeviceWatch, take_turns
from edgeopt.measure.schedules import LUCK_PERCENT, Schedule
from edgeopt.measure.stats import Interval, direction, paired_ratios, sign_interval, total


class NamedSide(Protocol):
    """A side while it is measured."""

    @property
    def name(self) -> str: ...

    @property
    def failure(self) -> str | None: ...


@dataclass(slots=True)
class LoopMember:
    """A side, or one of its levels, while it is measured."""

    side: str
    failure: str | None = None
    rounds: dict[int, Any] = field(default_factory=dict)
    """Measurement of each round, by its number."""

    @property
    def name(self) -> str:
        return self.side


MemberT = TypeVar("MemberT", bound=LoopMember)


def run_members(
    members: Sequence[MemberT],
    sides: Sequence[Side],
    schedule: Schedule,
    turn: Callable[[MemberT], object | None],
    before: Callable[[int, int], object] = lambda _number, _count: None,
    needed: Sequence[MemberT] = (),
    is_late: Callable[[], bool] = lambda: False,
) -> DeviceWatch:
    """Runs the interleaved rounds of the schedule; raises TrialError when all of `needed` fail (default: all)."""
    # The server of a served model counts as one of the other processes, so their load spoils no round.
    state = StateSampler(tuple, judge_others=all(side.kind != "url" for side in sides))
    watch = DeviceWatch(state, before=before)
    for each in take_turns(members, schedule, turn, watch, is_late=is_late):
        for member, found in each.taken:
            member.rounds[each.number] = found
        require_one({member.side: member.failure for member in needed or members})
    return watch


def require_one(failures: dict[str, str | None], hint: str = "Run it in its own runtime for details.") -> None:
    """Raises TrialError if all sides have failed; a failure of some is part of the report."""
    if failures and all(why is not None for why in failures.values()):
        name, why = next(iter(failures.items()))
        raise TrialError(f"'{name}' {(why or '').rstrip('.')}.", hint)


@dataclass(slots=True)
class EnergyLog:
    """Energy drawn by the device while a side runs, over one or more stretches."""

    meter: EnergyMeter | Unavailable | None
    drawn_j: list[float | None] = field(default_factory=list)
    walls_s: list[float] = field(default_factory=list)

    def joules(self) -> float | None:
        return self.meter.joules() if isinstance(self.meter, EnergyMeter) else None

    @contextmanager
    def stretch(self) -> Iterator[None]:
        before, begin_s = self.joules(), monotonic()
        yield
        self.note(before, self.joules(), monotonic() - begin_s)

    def note(self, before_j: float | None, after_j: float | None, seconds: float) -> None:
        self.drawn_j.append(None if before_j is None or after_j is None else after_j - before_j)
        self.walls_s.append(seconds)

    def of_runs(self, runs: int) -> Energy | None:
        """Returns the energy per run; None if no energy was requested."""
        if self.meter is None:
            return None
        seconds = sum(self.walls_s)
        return energy(
            self.meter, total(self.drawn_j), seconds, runs / max(seconds, 1e-9), min(self.walls_s, default=None)
        )


def comparisons(
    members: Sequence[LoopMember], figure_ms: Callable[[Any], float], schedule: Schedule
) -> tuple[Comparison, ...]:
    """Compares the first member with each other one, over the rounds that all members with any round have run."""
    first, *others = members
    shared = [r for r in first.rounds if all(r in other.rounds for other in others if other.rounds)]
    values = [[figure_ms(each.rounds[r]) for r in shared if r in each.rounds] for each in members]
    made = (
        compared(first.side, other.side, values[0], theirs, schedule)
        for other, theirs in zip(others, values[1:], strict=True)
    )
    return tuple(each for each in made if each is not None)


def compared(
    name: str, other: str, mine_ms: Sequence[float], theirs_ms: Sequence[float], schedule: Schedule
) -> Comparison | None:
    """Returns the speed-up of the first side over the second, judged once; None without a common round."""
    rounds = min(len(mine_ms), len(theirs_ms))
    if not rounds:
        return None
    ratio = sign_interval(paired_ratios(theirs_ms[:rounds], mine_ms[:rounds]), 1 - schedule.error)
    verdict = _verdict(ratio, schedule)
    at_most = 100 * (max(ratio.high, 1 / max(ratio.low, 1e-9)) - 1) if verdict == "no difference seen" else None
    luck_percent = schedule.same_percent if schedule.same_percent >= LUCK_PERCENT else 0.0
    return Comparison(name, other, ratio.stated, verdict, at_most, error=schedule.error, luck_percent=luck_percent)


def _verdict(ratio: Interval, schedule: Schedule) -> Verdict:
    # All rounds of equal sides lie on one side of 1x with this chance, and then their interval excludes 1x.
    if 2 * 0.5**ratio.rounds > schedule.error:
        return "too few rounds to tell"
    return direction(ratio, 1 + schedule.same_percent / 100)
