"""Limits held to two saved runs: how the later run's first side does against the earlier run's."""

import math
from typing import TYPE_CHECKING

from edgeopt.commands.bench.limits import check_of
from edgeopt.measure.limits import Judgement, Limits, judgement
from edgeopt.measure.report import ContestReport
from edgeopt.measure.stats import Interval

if TYPE_CHECKING:
    from edgeopt.commands.bench.compare import RunsCompared


def judge_runs(before: ContestReport, after: ContestReport, found: "RunsCompared", limits: Limits) -> Judgement:
    """By the ratios to sides that both runs took in turns with it, the better evidence; else by its own time."""
    ours, theirs = before.sides[0].name, after.sides[0].name
    evidence: list[tuple[str, Interval | str]]
    if ours != theirs:
        evidence = [("", f"the first sides of the two runs are not the same: '{ours}' and '{theirs}'")]
    elif found.no_verdict:
        evidence = [("", found.no_verdict.removesuffix(": no verdict"))]
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
    """More rounds would not make it narrower."""
    if isinstance(found, str):
        return ""
    reach_percent = 100 * (math.sqrt(found.high / found.low) - 1)
    return f"these two runs show differences above {reach_percent:.1f} % only, so measure the two in turns"


def _own_time(found: "RunsCompared", name: str) -> list[tuple[str, Interval | str]]:
    side = next((each for each in found.sides if each.name == name), None)
    if side is None:
        return [("", f"'{name}' was not measured in both runs")]
    if found.times_unjudged:
        return [("", f"{found.times_unjudged}, and no other side is in both runs (--against)")]
    return [("", side.speedup)]
