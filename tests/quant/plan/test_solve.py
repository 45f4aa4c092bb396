import ctypes
import sys

import numpy as np
import pytest

from edgeopt.errors import MissingExtraError
from edgeopt.quant.plan.solve import Border, problem_from, solve
from edgeopt.quant.records import Gain, Layer, Sensitivity

KINDS = {
    "plain": {},
    "several outputs": {"outputs": 3},
    "conversions": {"borders": 3},
    "both": {"borders": 3, "outputs": 2},
    "two forms": {"count": 6, "forms": ("int8", "a16w8")},
    "all at once": {"count": 6, "forms": ("int8", "a16w8"), "borders": 2, "outputs": 2},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [3e-4, 3e-3])
def test_it_finds_what_trying_everything_finds(random_problem, most_saved, kind, budget):
    for seed in range(3):
        problem = random_problem(seed, **KINDS[kind]).problem
        choices = solve(problem, budget)
        assert problem.worst(choices) <= budget
        assert problem.saved_ms(choices) == pytest.approx(most_saved(problem, budget), rel=1e-4)


def test_more_room_never_saves_less(random_problem):
    problem = random_problem(7, count=40, forms=("int8", "a16w8"), outputs=2, borders=8).problem
    saved = [problem.saved_ms(solve(problem, budget)) for budget in np.geomspace(1e-5, 1.0, 12)]
    assert saved == sorted(saved)
    assert saved[0] < saved[-1]


def test_without_a_budget_only_time_counts(random_problem):
    problem = random_problem(1).problem
    wanted = {option.layer for some in problem.options for option in some if option.saves_ms > 0}
    assert {problem.layers.index(name) for name in solve(problem, float("inf"))} == wanted


def layers_named(names):
    return tuple(Layer(name, "Conv", (name,), "w", (), (), 1) for name in names)


def test_a_slower_layer_changes_where_that_spares_its_neighbours_conversions():
    layers = layers_named("abc")
    sensitivities = [Sensitivity(name, "int8", (1e-6,), 60.0) for name in "abc"]
    gains = [Gain("a", "int8", 1.0, 0.5), Gain("b", "int8", 0.1, 0.15), Gain("c", "int8", 1.0, 0.5)]
    apart = problem_from(layers, sensitivities, gains)
    beside = problem_from(layers, sensitivities, gains, (Border("a", "b", 0.2), Border("b", "c", 0.2)))
    assert solve(apart, 1e-3) == {"a": "int8", "c": "int8"}
    assert solve(beside, 1e-3) == dict.fromkeys("abc", "int8")
    dear = problem_from(layers, sensitivities, gains, (Border("a", "b", 0.6), Border("b", "c", 0.6)))
    assert solve(dear, 1.5e-6) == {}, "a single layer in eight bits loses what it saves"


def test_an_infinitely_bad_form_is_never_taken():
    bad = [Sensitivity("a", "int8", (float("inf"),), -200.0), Sensitivity("b", "int8", (1e-5,), 50.0)]
    gains = [Gain("a", "int8", 9.0, 1.0), Gain("b", "int8", 1.0, 0.9)]
    problem = problem_from(layers_named("ab"), bad, gains, (Border("a", "b", 0.01),))
    assert solve(problem, 1e-3) == {"b": "int8"}


def test_of_equal_choices_the_fewest_and_most_exact_win():
    names = "abcd"
    noise = {
        ("a", "int8"): 1e-5,
        ("b", "int8"): 2e-5,
        ("c", "int8"): 1e-5,
        ("c", "a16w8"): 1e-6,
        ("d", "int8"): 0.0,
    }
    costs = [Sensitivity(*key, (value,), 0.0) for key, value in noise.items()]
    gains = [Gain(*key, 1.0, 1.0 if key[0] == "d" else 0.5) for key in noise]
    # Only one of a and b fits beside c; d saves nothing.
    problem = problem_from(layers_named(names), costs, gains)
    assert solve(problem, 2.5e-5) == {"a": "int8", "c": "a16w8"}


def test_float_above_the_budget_has_no_choices():
    costs, gains = [Sensitivity("a", "int8", (1e-6,), 60.0)], [Gain("a", "int8", 1.0, 0.5)]
    assert solve(problem_from(layers_named("a"), costs, gains, base=[1e-2]), 1e-3) == {}
    assert solve(problem_from((), (), ()), 1e-3) == {}


@pytest.fixture
def hard(random_problem):
    return random_problem(3, count=120, forms=("int8", "a16w8"), outputs=4, borders=30).problem


def test_a_hard_problem_has_the_same_choices_each_time(hard):
    first = solve(hard, 1e-3)
    assert first
    assert hard.worst(first) <= 1e-3
    assert solve(hard, 1e-3) == first


def test_repaired_solutions_print_nothing(random_problem, capfd):
    """Two of these the solver repairs, and says so."""
    for seed in (6, 8):
        assert solve(random_problem(seed, count=60).problem, 1e-2)
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("", "")


def test_at_the_time_limit_the_choices_still_keep_the_budget(hard):
    """The best found so far, or none."""
    choices = solve(hard, 1e-3, limit_s=0.05)
    assert hard.worst(choices) <= 1e-3
    assert 0 <= hard.saved_ms(choices) <= hard.saved_ms(solve(hard, 1e-3)) * (1 + 1e-6)


def test_without_scipy_the_error_says_what_to_install(random_problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match="Planning precisions needs the 'optimize' extra"):
        solve(random_problem(1).problem, 1e-3)
