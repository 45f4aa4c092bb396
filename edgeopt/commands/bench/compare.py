"""A comparison of two saved runs. They were not interleaved, so the interval is wider.

What changes between runs (where memory lies, the clock, other work) moves all rounds of one run together, and more
rounds do not show it. So a side's own time is judged only where both runs say that the device was quiet and its
clock the same; even then the interval takes in how far the stretches of each run lay apart, and its drift. Where
the runs share two sides, the ratio within each run is free of most of this, and is judged in any case.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np

from edgeopt.commands.bench.limits import check_of
from edgeopt.errors import InputError, UsageError
from edgeopt.measure.report import ContestReport, Judgement, Limits, SideReport, judgement
from edgeopt.measure.stats import SAME, Direction, Interval, direction

_NORMAL_95 = 1.96
_BLOCKS = 8
_CLOCK_PERCENT = 3.0
_Logs = np.ndarray[tuple[int], np.dtype[np.float64]]
Word = Direction | Literal["no verdict"]


class SideChange(msgspec.Struct, frozen=True):
    name: str
    before_p50_ms: float
    after_p50_ms: float
    speedup: Interval
    """Speed in the second run relative to the first; the interval includes between-run variation."""
    trust_above_percent: float
    """Smallest difference that the comparison can show."""
    verdict: Word


class RatioChange(msgspec.Struct, frozen=True):
    """The speed-up between two sides in each run, if both runs measured both interleaved."""

    first: str
    second: str
    before: float
    after: float
    change: Interval
    verdict: Word


class RunsCompared(msgspec.Struct, frozen=True):
    before: str
    after: str
    sides: tuple[SideChange, ...]
    ratios: tuple[RatioChange, ...] = ()
    differences: tuple[str, ...] = ()
    """Differences between the runs other than the figures."""
    no_verdict: str = ""
    """Reason for giving no verdict at all, as the start of a sentence; empty if there are verdicts."""
    times_unjudged: str = ""
    """Reason for giving no verdict on the sides' own times (ratios may have one), as the end of a sentence."""
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """Device of the later run, in words."""
    versions: dict[str, str] = {}
    """Package versions of the later run."""
    judgement: Judgement | None = None
    """Result for the requested limits; None if none was requested."""


def compare_runs(
    before: ContestReport,
    after: ContestReport,
    names: tuple[str, str],
    limits: Limits | None = None,
    pairs: Sequence[str] = (),
) -> RunsCompared:
    """Compares the sides of the same name; raises InputError if there are none.

    `pairs`: each `OLD=NEW`, a side of the earlier run that the later one has under another name.
    """
    renames = _renames(before, after, pairs)
    before = _renamed(before, renames)
    ours, theirs = ({s.name: s for s in run.sides if s.figures and s.slices} for run in (before, after))
    shared = [name for name in ours if name in theirs]
    if not shared:
        raise InputError(
            f"The two runs have no side in common: {', '.join(ours) or 'none'} and {', '.join(theirs) or 'none'}.",
            f"Sides are matched by name. Pair others with {_example(ours, theirs)}",
        )
    differences, no_verdict = _differences(before, after)
    unjudged = _times_unjudged(before, after)
    found = RunsCompared(
        before=names[0],
        after=names[1],
        sides=tuple(_side_change(ours[n], theirs[n], bool(no_verdict or unjudged)) for n in shared),
        ratios=tuple(
            change
            for a, b in combinations(shared, 2)
            if (change := _ratio_change((ours[a], ours[b]), (theirs[a], theirs[b]), bool(no_verdict)))
        ),
        differences=(
            *(f"'{old}' before is '{new}' after (--name)." for old, new in renames.items()),
            *differences,
        ),
        no_verdict=no_verdict,
        times_unjudged=unjudged,
        only_before=tuple(n for n in ours if n not in theirs),
        only_after=tuple(n for n in theirs if n not in ours),
        machine=after.machine,
        versions=after.versions,
    )
    if limits is None or not limits.least:
        return found
    return msgspec.structs.replace(found, judgement=_judge_runs(before, after, found, limits))


def _renames(before: ContestReport, after: ContestReport, pairs: Sequence[str]) -> dict[str, str]:
    """Raises UsageError for names that the runs do not have; names may hold a `=` themselves."""
    ours, theirs = [side.name for side in before.sides], [side.name for side in after.sides]
    found: dict[str, str] = {}
    for pair in pairs:
        known = [(old, new) for old in ours for new in theirs if f"{old}={new}" == pair]
        if not known:
            raise UsageError(
                f"--name {pair} is not a pair of sides of these runs: the earlier one has {', '.join(ours)}, "
                f"the later one {', '.join(theirs)}.",
                f"Example: {_example(ours, theirs)}",
            )
        old, new = known[0]
        if old in found or new in found.values() or (new in ours and new != old):
            raise UsageError(f"--name {pair} pairs '{new}' with several sides.", "Pair each side once.")
        found[old] = new
    return found


def _renamed(run: ContestReport, renames: dict[str, str]) -> ContestReport:
    sides = (msgspec.structs.replace(side, name=renames.get(side.name, side.name)) for side in run.sides)
    return msgspec.structs.replace(run, sides=tuple(sides))


def _example(ours: Iterable[str], theirs: Iterable[str]) -> str:
    return f"--name '{next(iter(ours), 'OLD')}={next(iter(theirs), 'NEW')}'"


def _judge_runs(before: ContestReport, after: ContestReport, found: RunsCompared, limits: Limits) -> Judgement:
    """Judges the later run's first side against the earlier run's.

    Uses the ratios to sides that both runs measured with it, the better evidence; otherwise its own time.
    """
    ours, theirs = before.sides[0].name, after.sides[0].name
    evidence: list[tuple[str, Interval | str]]
    if ours != theirs:
        evidence = [("", f"the first sides of the two runs are not the same: '{ours}' and '{theirs}'")]
    elif found.no_verdict:
        evidence = [("", found.no_verdict)]
    else:
        evidence = [
            (f"the ratio to {each.second}", each.change) for each in found.ratios if each.first == ours
        ] or _own_time(found, ours)
    pair = f"{theirs} in {found.after}", f"{ours} in {found.before}"
    return judgement(
        limits,
        tuple(
            check_of(limits, name, least, pair, said, measured, _advice(said))
            for measured, said in evidence
            for name, least in limits.least
        ),
    )


def _advice(found: Interval | str) -> str:
    """Returns advice for an undecided limit: more rounds would not make the interval narrower."""
    if isinstance(found, str):
        return ""
    reach_percent = 100 * (math.sqrt(found.high / found.low) - 1)
    return f"these runs show only differences above {reach_percent:.1f} %; measure both interleaved"


def _own_time(found: RunsCompared, name: str) -> list[tuple[str, Interval | str]]:
    side = next((each for each in found.sides if each.name == name), None)
    if side is None:
        return [("", f"'{name}' was not measured in both runs")]
    if found.times_unjudged:
        return [("", f"{found.times_unjudged}, and no other side is in both runs (--against)")]
    return [("", side.speedup)]


def _differences(before: ContestReport, after: ContestReport) -> tuple[tuple[str, ...], str]:
    """Returns each difference as a sentence, and the one that forbids a verdict, if any."""
    said, forbids = [], ""
    # `versions` lists the installed packages by name.
    parts = [
        part
        for part in dict.fromkeys([*before.device, *after.device])
        if part != "runtimes" and before.device.get(part) != after.device.get(part)
    ]
    if parts:
        said.append(f"Measured on different devices: they differ in {', '.join(parts)}.")
        forbids = "measured on different devices"
    for name in dict.fromkeys([*before.versions, *after.versions]):
        old, new = before.versions.get(name), after.versions.get(name)
        if old != new:
            said.append(f"{name}: {old or 'not there'} before, {new or 'not there'} after.")
    if before.data != after.data:
        said.append(f"Measured on different inputs: {before.data or 'unknown'} and {after.data or 'unknown'}.")
        forbids = forbids or "measured on different inputs"
    if before.duty != after.duty:
        said.append(f"Measured with different workloads: {before.duty} and {after.duty}.")
        forbids = forbids or "measured with different workloads"
    settings = _settings(before, after)
    return (*said, *settings), forbids


def _times_unjudged(before: ContestReport, after: ContestReport) -> str:
    """Returns why the device alone may have changed a side's time; "" if it was quiet at the same clock."""
    clocks_hz = []
    for run, which in ((before, "first"), (after, "second")):
        if not run.states:
            return f"the {which} run does not record the state of the device"
        if any(state.bad for state in run.states):
            return f"the device was not quiet in the {which} run"
        known = [state.clock_hz for state in run.states if state.clock_hz is not None]
        if not known:
            return f"the device did not report its clock in the {which} run"
        if all(state.others_percent is None for state in run.states):
            return f"the {which} run does not record other load"
        clocks_hz.append(float(np.median(known)))
    if abs(math.log(clocks_hz[1] / clocks_hz[0])) > math.log1p(_CLOCK_PERCENT / 100):
        first, second = (f"{clock / 1e9:.2f} GHz" for clock in clocks_hz)
        return f"the clock was {first} in the first run and {second} in the second"
    return ""


def _settings(before: ContestReport, after: ContestReport) -> list[str]:
    """Sides of one name that were not set up alike."""
    theirs = {side.name: side for side in after.sides}
    said = []
    for side in before.sides:
        other = theirs.get(side.name)
        if other is None:
            continue
        if side.backend != other.backend:
            said.append(f"{side.name} ran on {side.backend or 'nothing'} before and on {other.backend} after.")
        if side.options != other.options:
            said.append(f"{side.name} had other options: {_told(side)} before, {_told(other)} after.")
    return said


def _told(side: SideReport) -> str:
    return ", ".join(f"{name}={value}" for name, value in side.options.items()) or "none"


def _side_change(before: SideReport, after: SideReport, no_verdict: bool) -> SideChange:
    assert before.figures is not None and after.figures is not None  # noqa: S101, PT018 - asked for those
    old, new = _logs(before), _logs(after)
    within = math.hypot(_noise(old), _noise(new))
    spread = math.hypot(_NORMAL_95 * within, _between(old, new))
    center = float(np.median(old) - np.median(new))
    ratio = _interval(center, spread, min(len(old), len(new)))
    return SideChange(
        before.name,
        before.figures.p50_ms,
        after.figures.p50_ms,
        ratio,
        100 * (math.exp(spread) - 1),
        "no verdict" if no_verdict else direction(ratio),
    )


def _ratio_change(
    before: tuple[SideReport, SideReport], after: tuple[SideReport, SideReport], no_verdict: bool
) -> RatioChange | None:
    old, new = _paired(*before), _paired(*after)
    if not len(old) or not len(new):
        return None
    # Where the memory of each of the processes lies stays, and does not cancel within a run.
    spread = math.hypot(_NORMAL_95 * math.hypot(_noise(old), _noise(new)), _between(old, new))
    center = float(np.median(new) - np.median(old))
    change = _interval(center, spread, min(len(old), len(new)))
    return RatioChange(
        before[0].name,
        before[1].name,
        math.exp(float(np.median(old))),
        math.exp(float(np.median(new))),
        change,
        "no verdict" if no_verdict else direction(change),
    )


def _interval(center: float, spread: float, rounds: int) -> Interval:
    return Interval(math.exp(center), math.exp(center - spread), math.exp(center + spread), rounds)


def _logs(side: SideReport) -> _Logs:
    """Returns the logarithms of the medians of a side's slices."""
    return np.log([float(np.median(piece.latencies_ms)) for piece in side.slices if piece.latencies_ms])


def _paired(first: SideReport, second: SideReport) -> _Logs:
    """Returns, round by round, the logarithm of how many times faster the first side was."""
    ours, theirs = (
        {piece.round: float(np.median(piece.latencies_ms)) for piece in side.slices if piece.latencies_ms}
        for side in (first, second)
    )
    return np.log([theirs[number] / ours[number] for number in ours if number in theirs])


def _between(old: _Logs, new: _Logs) -> float:
    """Estimates how far whole runs may differ: at least as much as the stretches of one run do."""
    apart = max(_NORMAL_95 * _spread(_blocks(logs)) for logs in (old, new))
    return math.sqrt(2) * max(math.log(SAME), _drift(old), _drift(new), apart)


def _noise(logs: _Logs) -> float:
    """Returns the standard error of the median, by blocks of neighbours, whose rounds are alike."""
    blocks = _blocks(logs)
    return _spread(blocks) / math.sqrt(len(blocks)) if len(blocks) > 1 else math.log(SAME)


def _blocks(logs: _Logs) -> list[float]:
    return [float(np.median(block)) for block in np.array_split(np.asarray(logs), _BLOCKS) if len(block)]


def _spread(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _drift(logs: _Logs) -> float:
    """Returns how far the second half of a run differs from the first."""
    half = len(logs) // 2
    return abs(float(np.median(logs[half:]) - np.median(logs[:half]))) if half else 0.0
