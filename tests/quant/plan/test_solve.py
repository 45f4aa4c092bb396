import time
from itertools import pairwise

import numpy as np
import pytest

from edgeopt.quant.plan.cut import best_side
from edgeopt.quant.plan.problem import Border, problem_from
from edgeopt.quant.plan.solve import Solver, corners
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
    ratios = []
    for seed in range(3):
        problem = random_problem(seed, **KINDS[kind]).problem
        choices = Solver(problem, budget).within(budget)
        assert problem.worst(choices) <= budget
        best = most_saved(problem, budget)
        ratios.append(problem.saved_ms(choices) / best if best else 1.0)
    assert min(ratios) > 0.97
    assert sum(ratio > 1 - 1e-9 for ratio in ratios) >= 2


def test_more_room_never_saves_less(random_problem):
    problem = random_problem(7, count=40, forms=("int8", "a16w8"), outputs=2, borders=8).problem
    solver = Solver(problem, 1e-3)
    saved = [problem.saved_ms(solver.within(budget)) for budget in np.geomspace(1e-5, 1.0, 12)]
    assert saved == sorted(saved)
    assert saved[0] < saved[-1]


def test_without_a_budget_only_time_counts(random_problem):
    problem = random_problem(1).problem
    wanted = {option.layer for some in problem.options for option in some if option.saves_ms > 0}
    assert {problem.layers.index(name) for name in Solver(problem, 1.0).within(float("inf"))} == wanted


def test_a_slower_layer_changes_where_that_spares_its_neighbours_conversions():
    layers = tuple(Layer(name, "Conv", (name,), "w", (), (), 1) for name in "abc")
    sensitivities = [Sensitivity(name, "int8", (1e-6,), 60.0) for name in "abc"]
    gains = [Gain("a", "int8", 1.0, 0.5), Gain("b", "int8", 0.1, 0.15), Gain("c", "int8", 1.0, 0.5)]
    apart = problem_from(layers, sensitivities, gains)
    beside = problem_from(layers, sensitivities, gains, (Border("a", "b", 0.2), Border("b", "c", 0.2)))
    assert Solver(apart, 1e-3).within(1e-3) == {"a": "int8", "c": "int8"}
    assert Solver(beside, 1e-3).within(1e-3) == dict.fromkeys("abc", "int8")
    dear = problem_from(layers, sensitivities, gains, (Border("a", "b", 0.6), Border("b", "c", 0.6)))
    assert Solver(dear, 1.5e-6).within(1.5e-6) == {}, "a single layer in eight bits loses what it saves"


def test_an_infinitely_bad_form_is_never_taken():
    layers = (Layer("a", "Conv", ("a",), "w", (), (), 1), Layer("b", "Conv", ("b",), "w", (), (), 1))
    bad = [Sensitivity("a", "int8", (float("inf"),), -200.0), Sensitivity("b", "int8", (1e-5,), 50.0)]
    gains = [Gain("a", "int8", 9.0, 1.0), Gain("b", "int8", 1.0, 0.9)]
    problem = problem_from(layers, bad, gains, (Border("a", "b", 0.01),))
    assert Solver(problem, 1e-3).within(1e-3) == {"b": "int8"}


def test_corners_are_each_faster_and_noisier_than_the_one_before(random_problem):
    found = corners(random_problem(2, count=60, borders=10).problem)
    assert len(found) > 10
    assert all(a.saved_ms < b.saved_ms and a.worst < b.worst for a, b in pairwise(found))


def test_the_cut_is_the_best_of_all_sets():
    random = np.random.default_rng(5)
    for _ in range(20):
        values = random.normal(size=8)
        borders = [
            (int(a), int(b), float(random.uniform(0, 1))) for a, b in random.integers(0, 8, (12, 2)) if a != b
        ]

        def worth(side, values=values, borders=borders):
            return sum(values[k] for k in side) - sum(cost for a, b, cost in borders if (a in side) != (b in side))

        sets = [{k for k in range(8) if bits >> k & 1} for bits in range(256)]
        assert worth(best_side(list(values), borders)) == pytest.approx(max(map(worth, sets)))


@pytest.mark.timing
def test_hundreds_of_layers_take_little_time(random_problem):
    problem = random_problem(3, count=120, forms=("int8", "a16w8"), outputs=2, borders=30).problem
    begin = time.process_time()
    Solver(problem, 1e-2).within(1e-2)
    assert time.process_time() - begin < 8
