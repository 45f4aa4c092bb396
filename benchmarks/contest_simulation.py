"""What the contest says of planted differences, under noise recorded from real machines.

python benchmarks/contest_simulation.py [--contests 1000] [--noise FOLDER] [--max-slowdown 0.02]

The recordings are contests of models with themselves (`record_noise.py`), several pairs of processes each. A leg
is some consecutive rounds of one pair, begun anywhere, the sides swapped by chance, and a difference planted into
them; a contest is legs of one model, judged by edgeopt's own rules until these end it or the time is up.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.measure.contest import plan_legs
from edgeopt.measure.legs import LegPlan
from edgeopt.measure.report import Limits, lies
from edgeopt.measure.rounds import slice_ms
from edgeopt.measure.sequential import Decision, Leg, Rules, decide, leg_of

NOISE = Path(__file__).parents[1] / "tests" / "measure" / "noise"
PERCENTS = (0.0, 1.0, 2.0, 5.0, 10.0)
SPLITS = ((2.0, -5.0), (5.0, -2.0), (0.0, 5.0))
"""A side that jumps between two speeds: what its least disturbed slices gain, and what its median round does."""
# What it takes to start and warm up two processes: Python, a runtime, a small model.
STARTING_S = 1.2
_POOL = 200


class Source(NamedTuple):
    """One model's recorded legs, none of them with a difference."""

    name: str
    plan: LegPlan
    legs: list[list[Leg]]
    """Of each pair of processes."""
    maximum: int
    """The number of legs that fit into the time."""


class Found(NamedTuple):
    contests: int
    right: int
    """Said the side that is faster."""
    wrong: int
    """Said the other one; without a difference, either; where the two measures say opposite things, anything."""
    rounds: float
    """The mean."""
    seconds: float
    unsettled: int
    """Ended by the limit, not by an answer."""


def sources(folder: Path, rules: Rules, starting_s: float = STARTING_S, seed: int = 0) -> list[Source]:
    """The recorded models, each with a pool of legs to draw from; starts that take too long are made once."""
    random = np.random.default_rng(seed)
    pairs: dict[str, list[tuple[list[float], list[float]]]] = {}
    for path in sorted(folder.glob("*.json")):
        for each in json.loads(path.read_text()):
            name = f"{path.stem} {each['model']}, {each['threads'] or 'all'} threads"
            pairs.setdefault(name, []).append((each["a_ms"], each["b_ms"]))
    return [_source(name, recorded, rules, starting_s, random) for name, recorded in pairs.items()]


def _source(
    name: str,
    pairs: Sequence[tuple[list[float], list[float]]],
    rules: Rules,
    starting_s: float,
    random: np.random.Generator,
) -> Source:
    span_ms = slice_ms(float(np.median([ms for pair in pairs for side in pair for ms in side])))
    plan = plan_legs(rules, span_ms, 2 * span_ms / 1e3, starting_s)
    legs: list[list[Leg]] = []
    for first, second in ((np.array(a), np.array(b)) for a, b in pairs):
        begins = random.integers(len(first), size=_POOL)
        places = [(begin + np.arange(plan.leg_rounds)) % len(first) for begin in begins]
        legs.append([leg_of(first[k].tolist(), second[k].tolist(), plan.fresh) for k in places])
    maximum = min(int(rules.time_limit_s / plan.leg_s), rules.max_rounds // plan.leg_rounds)
    return Source(name, plan, legs, maximum)


def simulate(
    source: Source, percent: float, contests: int, rules: Rules, typical: float | None = None, seed: int = 1
) -> Found:
    """Contests in which the first side is faster by this share; its median round by `typical` if given."""
    random = np.random.default_rng([seed, int(percent * 100)])
    planted = math.log1p(percent / 100), math.log1p((percent if typical is None else typical) / 100)
    right = wrong = unsettled = legs = 0
    for _ in range(contests):
        decision, count = _contest(source, planted, random, rules)
        said = decision.verdict
        if typical is None:
            right += said == "faster" and percent > 0
            wrong += said == "slower" or (said == "faster" and percent == 0)
        else:
            # Either direction is wrong for one of the two measures, and so is a limit below what one of them has.
            within = decision.at_most_percent is not None and decision.at_most_percent < rules.at_most_percent
            wrong += said in {"faster", "slower"} or within
        unsettled += (
            said in {"no difference seen", "too noisy to tell"}
            and (decision.at_most_percent or math.inf) > rules.at_most_percent
        )
        legs += count
    rounds, seconds = (legs / contests * each for each in (source.plan.leg_rounds, source.plan.leg_s))
    return Found(contests, right, wrong, rounds, seconds, unsettled)


class Judged(NamedTuple):
    """What `--max-slowdown` said of contests."""

    contests: int
    held: int
    broken: int
    undecided: int
    seconds: float
    """The mean."""


def judge(source: Source, slower_percent: float, limits: Limits, contests: int, rules: Rules) -> Judged:
    """Contests in which the first side is slower by this share, judged by the limit."""
    random = np.random.default_rng([2, int(slower_percent * 100)])
    planted = (-math.log1p(slower_percent / 100),) * 2
    ((_, minimum),) = limits.minimum
    rules = msgspec.structs.replace(rules, limits=(minimum,))
    said: Counter[str] = Counter()
    legs = 0
    for _ in range(contests):
        decision, count = _contest(source, planted, random, rules)
        said[lies(decision.speedup, minimum, decision.luck_percent)] += 1
        legs += count
    return Judged(contests, said["above"], said["below"], said["across"], legs / contests * source.plan.leg_s)


def print_judged(models: Sequence[Source], max_slowdown: float, contests: int, rules: Rules) -> None:
    """A row for each planted slowdown, around the limit."""
    print(f"{'slower by':>10} {'contests':>8} {'held':>6} {'broken':>6} {'undecided':>9} {'seconds':>8}")
    for share in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0):
        percent = 100 * max_slowdown * share
        found = [judge(m, percent, Limits(max_slowdown), contests, rules) for m in models]
        held, broken, undecided = (sum(each[k] for each in found) for k in (1, 2, 3))
        seconds = sum(each.seconds for each in found) / len(found)
        total = contests * len(models)
        print(f"{percent:8.1f} % {total:8d} {held:6d} {broken:6d} {undecided:9d} {seconds:8.1f}")


def _contest(
    source: Source, planted: tuple[float, float], random: np.random.Generator, rules: Rules
) -> tuple[Decision, int]:
    legs: list[Leg] = []
    # The side that wins stands first or second by chance, and so does the one that luck favours.
    for leg, swap in _draw(source, random):
        sign = -1 if swap else 1
        legs.append(leg._replace(calm=sign * leg.calm + planted[0], typical=sign * leg.typical + planted[1]))
        if len(legs) not in rules.looks and len(legs) < source.maximum:
            continue
        decision = decide(legs, rules, last=len(legs) == source.maximum)
        if decision is not None and decision.done:
            return decision, len(legs)
    raise AssertionError("the last look ends every contest")


def _draw(source: Source, random: np.random.Generator) -> Iterator[tuple[Leg, bool]]:
    pair, swap = random.integers(len(source.legs)), random.random() < 0.5
    for _ in range(source.maximum):
        if source.plan.fresh:
            pair, swap = random.integers(len(source.legs)), random.random() < 0.5
        yield source.legs[pair][random.integers(_POOL)], swap


def total(found: Sequence[Found]) -> Found:
    contests = sum(f.contests for f in found)
    rounds, seconds = (
        sum(f.contests * each for f, each in zip(found, values, strict=True)) / contests
        for values in ([f.rounds for f in found], [f.seconds for f in found])
    )
    right, wrong, unsettled = (
        sum(values) for values in zip(*((f.right, f.wrong, f.unsettled) for f in found), strict=True)
    )
    return Found(contests, right, wrong, rounds, seconds, unsettled)


def main() -> None:
    """Prints the table of all models, and one line a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contests", type=int, default=1000, help="for each difference, all models together")
    parser.add_argument("--noise", type=Path, default=NOISE)
    parser.add_argument("--time-limit", type=float, default=Rules().time_limit_s, metavar="SECONDS")
    parser.add_argument(
        "--starting", type=float, default=STARTING_S, metavar="SECONDS", help="two processes; 100: never again"
    )
    parser.add_argument(
        "--max-slowdown", type=float, metavar="SHARE", help="what that limit says instead: 0.02 for 2 %%"
    )
    given = parser.parse_args()
    rules = Rules(time_limit_s=given.time_limit)
    models = sources(given.noise, rules, given.starting)
    each = math.ceil(given.contests / len(models))
    if given.max_slowdown is not None:
        print_judged(models, given.max_slowdown, each, rules)
        return
    table = {p: {m.name: simulate(m, p, each, rules) for m in models} for p in PERCENTS}
    print(f"{'planted':>8} {'contests':>8} {'right':>6} {'wrong':>6} {'limit':>6} {'rounds':>7} {'seconds':>8}")
    for percent, by_model in table.items():
        f = total(list(by_model.values()))
        right = f"{f.right:6d}" if percent else "     -"
        print(
            f"{percent:6.0f} % {f.contests:8d} {right} {f.wrong:6d} {f.unsettled:6d} "
            f"{f.rounds:7.0f} {f.seconds:8.1f}"
        )
    for calm, typical in SPLITS:
        f = total([simulate(m, calm, each, rules, typical) for m in models])
        name = f"{calm:+.0f}/{typical:+.0f} %"
        print(f"{name:>8} {f.contests:8d} {'-':>6} {f.wrong:6d} {f.unsettled:6d} {f.rounds:7.0f} {f.seconds:8.1f}")
    print(
        "\nright: said faster; wrong: said slower, or without a difference either; limit: ended by the time limit"
        "\n+2/-5 %: the least disturbed slices are 2 % faster, the median round 5 % slower; wrong: any verdict, or"
        "\na difference said to be smaller than either"
    )
    print(f"\n{'of ' + str(each) + ' contests':45} {'legs':>9}  0 % wrong   5 % right   5 % rounds")
    for model in models:
        none, five = table[0.0][model.name], table[5.0][model.name]
        legs = f"{model.maximum} of {model.plan.leg_rounds}"
        print(f"{model.name:45} {legs:>9} {none.wrong:10d} {five.right:11d} {five.rounds:12.0f}")


if __name__ == "__main__":
    main()
