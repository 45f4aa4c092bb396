import dataclasses
import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from edgeopt.events import Progress
from edgeopt.quant.plan.search import choose
from edgeopt.quant.plan.solve import decibels, solve
from edgeopt.quant.records import FLOAT, Plan, Point, Sensitivity, Verdict


def running(problem, factor=1.0, margin_db=1.0, jitter=0.0):
    """A check whose noise is not just the sum, as real models have it; and what it was asked."""
    asked = []

    def check(choices):
        asked.append(dict(choices))
        ratio = decibels(problem.worst(choices) * factor * (1 + jitter * math.sin(7 * len(choices))))
        return ratio, ratio - margin_db

    return check, asked


def always(value):
    return lambda _: (value, value)


@pytest.mark.parametrize("factor", [*(pytest.param(each, marks=pytest.mark.slow) for each in (0.4, 1.0)), 2.5])
def test_the_plan_is_as_fast_as_the_floor_allows(random_problem, factor):
    for seed in range(2):
        made = random_problem(seed, count=40, forms=("int8", "a16w8"), outputs=2, borders=8)
        check, asked = running(made.problem, factor, jitter=0.05)
        found = choose(made.layers, made.sensitivities, made.gains, 30.0, check, borders=made.borders)
        assert found.point.low_db >= 30
        assert found.point.snr_db == found.point.low_db + 1
        assert len(asked) == found.checks <= 20
        allowed = 10**-3.1 / factor
        ideal = made.problem.saved_ms(solve(made.problem, allowed))
        assert made.problem.saved_ms(found.point.choices) > 0.93 * ideal


def test_what_all_together_costs_is_asked_only_once(random_problem):
    made = random_problem(1)
    check, asked = running(made.problem)
    found = choose(made.layers, made.sensitivities, made.gains, 5.0, check)
    assert found.point == found.frontier[-1]
    assert len({frozenset(choices.items()) for choices in asked}) == len(asked)


def test_the_frontier_goes_from_float_to_the_fastest(random_problem):
    made = random_problem(4, count=40, borders=5)
    check, _ = running(made.problem)
    found = choose(made.layers, made.sensitivities, made.gains, 30.0, check, borders=made.borders, float_ms=100.0)
    assert found.frontier[0] == Point({}, 100.0, 200.0)
    assert found.point in found.frontier
    assert len(found.frontier) > 8
    times = [point.expected_ms for point in found.frontier]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)
    most = solve(made.problem, math.inf)
    assert times[-1] == pytest.approx(100.0 - made.problem.saved_ms(most))
    exact = [point.snr_db or point.expected_db for point in found.frontier]
    assert all(a > b - 1.5 for a, b in pairwise(exact))
    place = found.frontier.index(found.point)
    assert found.frontier[place - 1].snr_db is not None, "the next more exact point was run too"


def test_where_nothing_holds_everything_stays_float(random_problem):
    made = random_problem(2)
    found = choose(made.layers, made.sensitivities, made.gains, 30.0, always(-math.inf))
    assert found.point.choices == {}
    assert {verdict.form for verdict in found.verdicts} == {FLOAT}
    assert found.checks < 20
    assert all(point.snr_db is None for point in found.frontier)


def test_noise_that_the_backend_adds_leaves_less_room(random_problem):
    made = random_problem(3, count=30)
    saved = {}
    for base in (0.0, 8e-4, 2e-3):
        check, _ = running(with_base(made.problem, base), margin_db=0.0)
        found = choose(made.layers, made.sensitivities, made.gains, 30.0, check, base=[base])
        saved[base] = made.problem.saved_ms(found.point.choices)
    assert saved[0.0] > saved[8e-4] > saved[2e-3] == 0


def with_base(problem, base):
    return dataclasses.replace(problem, base=np.array([base]))


def test_a_metric_that_is_no_ratio_is_held_too(random_problem):
    """The share of samples on which a class stays the same, say; nothing is known of how noise moves it."""
    made = random_problem(5, count=40)

    def agreement(choices):
        value = 1 - 5 * made.problem.worst(choices)
        return value, value - 0.005

    found = choose(made.layers, made.sensitivities, made.gains, 0.95, agreement, in_decibels=False)
    assert agreement(found.point.choices)[1] >= 0.95
    allowed = 0.045 / 5
    ideal = made.problem.saved_ms(solve(made.problem, allowed))
    assert made.problem.saved_ms(found.point.choices) > 0.93 * ideal
    assert all(point.snr_db is None for point in found.frontier), "its values are no decibels"


def test_without_times_products_count(random_problem):
    made = random_problem(6, count=20)
    sizes = zip(made.layers, [3, 8] * 10, strict=True)
    layers = tuple(msgspec.structs.replace(layer, multiply_adds=10**size) for layer, size in sizes)
    check, _ = running(made.problem)
    found = choose(layers, made.sensitivities, (), 25.0, check)
    assert found.point.choices
    assert found.point.low_db >= 25
    big = {layer.name for layer in layers if layer.multiply_adds == 10**8}
    assert len(big & found.point.choices.keys()) > len(found.point.choices.keys() - big)
    assert all(verdict.saves_ms is None for verdict in found.verdicts)


def test_every_layer_has_a_verdict_and_all_of_it_is_json(random_problem):
    made = random_problem(8, count=30)
    check, _ = running(made.problem)
    found = choose(made.layers, made.sensitivities, made.gains, 30.0, check)
    assert [verdict.layer for verdict in found.verdicts] == [layer.name for layer in made.layers]
    for verdict in found.verdicts:
        assert isinstance(verdict, Verdict)
        assert verdict.form == found.point.choices.get(verdict.layer, FLOAT)
    plan = Plan("b", {}, 30.0, found.point, found.frontier, found.verdicts, made.sensitivities, made.gains)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_runs_are_told(random_problem):
    made, told = random_problem(9), []
    check, asked = running(made.problem)
    choose(made.layers, made.sensitivities, made.gains, 30.0, check, emit=told.append)
    assert len(told) == len(asked)
    assert all(isinstance(each, Progress) for each in told)


def test_no_layers_at_all():
    found = choose((), (), (), 30.0, always(0.0))
    assert found == ((Point({}, 0.0, 200.0),), Point({}, 0.0, 200.0), (), 0)


def test_silent_outputs_hold_nothing_back(random_problem):
    """Where an output is as good as zero, no form makes noise that could be told from it."""
    made = random_problem(1)
    silent = tuple(Sensitivity(each.layer, each.form, (0.0,), 200.0) for each in made.sensitivities)
    found = choose(made.layers, silent, made.gains, 30.0, always(200.0))
    fast = {gain.layer for gain in made.gains if gain.saves_ms > 0}
    assert found.point.choices.keys() == fast
    assert found.checks == 1
