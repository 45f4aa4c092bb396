"""A planted slowdown is found by the contest's own rules, from simulated times, and no other cell is."""

import msgspec
import numpy as np
import pytest

from edgeopt.commands.bench.limits import judge
from edgeopt.commands.lab import failure
from edgeopt.measure.report import Comparison, ContestReport, Limits, SideReport
from edgeopt.measure.schedules import CONTEST
from edgeopt.measure.sequential import decide, leg_of, rules_of

LIMITS = Limits(0.03)
MAX_LEGS, ROUNDS = 40, 12
# Deviations of the times of a round, and of a process from others of the same model.
ROUND_NOISE, PROCESS_NOISE = 0.01, 0.003


def report(slowdown, seed):
    """The report of a contest whose first side is slower by this fraction."""
    random = np.random.default_rng(seed)
    rules = msgspec.structs.replace(rules_of(CONTEST), limits=tuple(each for _, each in LIMITS.minimum))
    legs, found = [], None
    while found is None or not found.done:
        old = random.lognormal(random.normal(0, PROCESS_NOISE), ROUND_NOISE, ROUNDS)
        new = (1 + slowdown) * random.lognormal(random.normal(0, PROCESS_NOISE), ROUND_NOISE, ROUNDS)
        legs.append(leg_of(new, old))
        found = decide(legs, rules, last=len(legs) == MAX_LEGS)
    comparison = Comparison("new", "old", found.speedup.stated, found.verdict, luck_percent=found.luck_percent)
    sides = tuple(SideReport(name, name, "bundle") for name in ("new", "old"))
    bare = ContestReport(sides, (comparison,))
    return msgspec.structs.replace(bare, judgement=judge(bare, LIMITS))


def test_cell_that_is_5_percent_slower_is_found_among_others(fake_lab):
    lab = fake_lab(models=("small", "medium", "large"))
    lab.run(out="last")
    cells = [(model, device) for model in lab.models for device in ("east", "west")]
    for seed, cell in enumerate(cells):
        lab.answer_cell(*cell, report(0.05 if cell == ("medium", "west") else 0.0, seed))
    results = lab.run(out="next", against=lab.folder / "last")
    assert [each.name for each in results.slower] == ["medium on west"]
    assert (len(results.cells), results.not_compared, results.failed) == (6, (), ())
    assert failure(results).exit_code == 4


@pytest.mark.parametrize(("slowdown", "state"), [(0.0, "held"), (0.05, "broken")])
def test_forty_cells_are_judged_rightly(slowdown, state):
    states = [report(slowdown, seed).judgement.checks[0].state for seed in range(40)]
    assert states == [state] * 40
