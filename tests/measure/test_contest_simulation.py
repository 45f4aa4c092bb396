"""The contest's own decisions, under noise that was recorded from real machines."""

import importlib.util
import sys
from pathlib import Path

import pytest

from edgeopt.measure.sequential import Rules

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "contest_simulation.py"
CONTESTS = 1000


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("contest_simulation", SCRIPT)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def simulated(script):
    """What so many contests said: of a difference, and of one that the median round may not share."""
    rules = Rules()
    models = script.sources(script.NOISE, rules)
    each = -(-CONTESTS // len(models))
    return lambda p, typical=None: script.total([script.simulate(m, p, each, rules, typical) for m in models])


@pytest.fixture(scope="module")
def found(simulated):
    return {p: simulated(p) for p in (0.0, 1.0, 2.0, 5.0, 10.0)}


def test_equal_sides_are_called_different_in_at_most_fifty_of_a_thousand(found):
    assert found[0.0].contests >= CONTESTS
    assert found[0.0].wrong <= 50


def test_a_real_five_percent_is_found_in_at_least_950_of_a_thousand(found):
    assert found[5.0].right >= 950 * found[5.0].contests / 1000


def test_a_larger_difference_is_found_more_often_and_sooner(found):
    rights = [found[p].right for p in (1.0, 2.0, 5.0, 10.0)]
    assert rights == sorted(rights)
    assert found[10.0].right >= 990 * found[10.0].contests / 1000
    assert found[10.0].rounds < found[5.0].rounds < found[2.0].rounds


@pytest.mark.parametrize("percent", [1.0, 2.0, 5.0, 10.0])
def test_the_slower_side_is_hardly_ever_called_faster(found, percent):
    assert found[percent].wrong <= 5


@pytest.mark.parametrize(("calm", "typical"), [(2.0, -5.0), (0.0, 5.0)])
def test_a_side_that_jumps_between_two_speeds_gets_no_clear_answer(simulated, calm, typical):
    """Neither a direction that most rounds contradict, nor a limit below what they show."""
    assert simulated(calm, typical).wrong <= 50


def test_a_limit_is_hardly_ever_broken_by_a_side_that_keeps_to_it(script):
    models = script.sources(script.NOISE, Rules())
    limit = script.Limits(0.02)
    equal, at_the_limit, beyond = (
        [script.judge(m, percent, limit, 40, Rules()) for m in models] for percent in (0.0, 2.0, 5.0)
    )
    assert sum(each.broken for each in equal) == 0
    contests = sum(each.contests for each in at_the_limit)
    assert sum(each.broken for each in at_the_limit) <= 0.03 * contests
    assert sum(each.held for each in at_the_limit) <= 0.03 * contests
    assert sum(each.broken for each in beyond) >= 0.85 * contests
    assert sum(each.held for each in beyond) == 0
