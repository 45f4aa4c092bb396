"""The contest's own decisions, under noise that was recorded from real machines."""

import importlib.util
import sys
from pathlib import Path

import pytest

from edgeopt.bench.sequential import Rules

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "contest_simulation.py"
CONTESTS = 1000


@pytest.fixture(scope="module")
def simulated():
    """What so many contests said: of a difference, and of one that the median round may not share."""
    spec = importlib.util.spec_from_file_location("contest_simulation", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
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
