import ctypes
import dataclasses
import math
import sys
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from edgeopt.errors import MissingExtraError
from edgeopt.events import Progress
from edgeopt.quant.plan.search import choose
from edgeopt.quant.plan.solve import Border, decibels, problem_from, solve
from edgeopt.quant.records import FLOAT, FrontierPoint, Layer, LayerGain, LayerVerdict, PrecisionPlan, Sensitivity


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
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_plan_is_as_fast_as_the_floor_allows(random_problem, seed, factor):
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
    assert found.frontier[0] == FrontierPoint({}, 100.0, 200.0)
    assert found.point in found.frontier
    assert len(found.frontier) > 8
    times = [point.expected_ms for point in found.frontier]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)
    maximum = solve(made.problem, math.inf)
    assert times[-1] == pytest.approx(100.0 - made.problem.saved_ms(maximum))
    exact = [point.snr_db or point.expected_db for point in found.frontier]
    assert all(a > b - 1.5 for a, b in pairwise(exact))
    place = found.frontier.index(found.point)
    assert found.frontier[place - 1].snr_db is not None, "the next more exact point was run too"


def test_where_nothing_holds_everything_stays_float(random_problem):
    made = random_problem(2)
    found = choose(made.layers, made.sensitivities, made.gains, 30.0, always(-math.inf))
    assert found.point.choices == {}
    assert {verdict.scheme for verdict in found.verdicts} == {FLOAT}
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
        assert isinstance(verdict, LayerVerdict)
        assert verdict.scheme == found.point.choices.get(verdict.layer, FLOAT)
    plan = PrecisionPlan(
        "b", {}, 30.0, found.point, found.frontier, found.verdicts, made.sensitivities, made.gains
    )
    assert msgspec.json.decode(msgspec.json.encode(plan), type=PrecisionPlan) == plan


def test_runs_are_told(random_problem):
    made, told = random_problem(9), []
    check, asked = running(made.problem)
    choose(made.layers, made.sensitivities, made.gains, 30.0, check, emit=told.append)
    assert len(told) == len(asked)
    assert all(isinstance(each, Progress) for each in told)


def test_no_layers_at_all():
    found = choose((), (), (), 30.0, always(0.0))
    assert found == ((FrontierPoint({}, 0.0, 200.0),), FrontierPoint({}, 0.0, 200.0), (), 0)


def test_silent_outputs_hold_nothing_back(random_problem):
    """Where an output is as good as zero, no form makes noise that could be told from it."""
    made = random_problem(1)
    silent = tuple(Sensitivity(each.layer, each.scheme, (0.0,), 200.0) for each in made.sensitivities)
    found = choose(made.layers, silent, made.gains, 30.0, always(200.0))
    fast = {gain.layer for gain in made.gains if gain.saves_ms > 0}
    assert found.point.choices.keys() == fast
    assert found.checks == 1


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
def test_it_finds_what_trying_everything_finds(random_problem, max_saved, kind, budget):
    for seed in range(3):
        problem = random_problem(seed, **KINDS[kind]).problem
        choices = solve(problem, budget)
        assert problem.worst(choices) <= budget
        assert problem.saved_ms(choices) == pytest.approx(max_saved(problem, budget), rel=1e-4)


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
    gains = [LayerGain("a", "int8", 1.0, 0.5), LayerGain("b", "int8", 0.1, 0.15), LayerGain("c", "int8", 1.0, 0.5)]
    apart = problem_from(layers, sensitivities, gains)
    beside = problem_from(layers, sensitivities, gains, (Border("a", "b", 0.2), Border("b", "c", 0.2)))
    assert solve(apart, 1e-3) == {"a": "int8", "c": "int8"}
    assert solve(beside, 1e-3) == dict.fromkeys("abc", "int8")
    dear = problem_from(layers, sensitivities, gains, (Border("a", "b", 0.6), Border("b", "c", 0.6)))
    assert solve(dear, 1.5e-6) == {}, "a single layer in eight bits loses what it saves"


def test_an_infinitely_bad_form_is_never_taken():
    bad = [Sensitivity("a", "int8", (float("inf"),), -200.0), Sensitivity("b", "int8", (1e-5,), 50.0)]
    gains = [LayerGain("a", "int8", 9.0, 1.0), LayerGain("b", "int8", 1.0, 0.9)]
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
    gains = [LayerGain(*key, 1.0, 1.0 if key[0] == "d" else 0.5) for key in noise]
    # Only one of a and b fits beside c; d saves nothing.
    problem = problem_from(layers_named(names), costs, gains)
    assert solve(problem, 2.5e-5) == {"a": "int8", "c": "a16w8"}


def test_float_above_the_budget_has_no_choices():
    costs, gains = [Sensitivity("a", "int8", (1e-6,), 60.0)], [LayerGain("a", "int8", 1.0, 0.5)]
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


def layer(name, reason=""):
    return Layer(name, "Conv", (name,), f"{name}.weight", (), (), 10**6, reason=reason)


def told(rows, *, floor=30.0, borders=(), timed=True, in_decibels=True, extra=(), reasons=None, check=None):
    """Verdicts by layer; a row is a name, the layer's own dB, its time in float and in int8."""
    layers = [*(layer(name) for name, *_ in rows), *extra]
    costs = [Sensitivity(name, "int8", (10 ** (-db / 10),), db) for name, db, *_ in rows]
    gains = [LayerGain(name, "int8", before, after) for name, _, before, after in rows if after is not None]
    problem = problem_from(layers, costs, gains, borders)

    def summed(choices):
        ratio = decibels(problem.worst(choices))
        return ratio, ratio

    found = choose(
        *(layers, costs, gains if timed else (), floor, check or summed),
        borders=borders,
        in_decibels=in_decibels,
        reasons=reasons,
    )
    return {verdict.layer: verdict for verdict in found.verdicts}


def test_one_that_changes_says_what_it_saves_and_costs():
    verdict = told([("a", 38.04, 0.6, 0.19)])["a"]
    assert (verdict.scheme, verdict.reason) == ("int8", "int8: saves 0.410 ms, 38.0 dB alone")
    assert verdict.saves_ms == pytest.approx(0.41)
    assert verdict.snr_db == 38.04


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("a", 20.0, 0.1, 0.07)], "int8 saves 0.030 ms, but leaves 20.0 dB alone; the floor is 30 dB"),
        (
            [("a", -200.0, 0.1, 0.07)],
            "int8 saves 0.030 ms, but leaves outputs that cannot be compared with the source's",
        ),
        ([("a", 40.0, 0.1, 0.3)], "int8 is 0.200 ms slower here"),
        ([("a", 40.0, 0.1, 0.1)], "int8 saves nothing here"),
        (
            [("a", 30.2, 1.0, 0.9), ("b", 30.1, 9.0, 4.0)],
            "int8 saves 0.100 ms, but brings the outputs to 27.1 dB; the floor is 30 dB",
        ),
        (
            [("a", 31.0, 0.5, 0.45), ("b", 32.5, 9.0, 4.0), ("c", 32.0, 1.0, 0.8)],
            "int8 saves 0.050 ms, but costs 3.8 dB, with 2.5 dB left",
        ),
        ([("a", 40.0, 0.1, None), ("b", 40.0, 1.0, 0.5)], "its time in int8 is unknown"),
    ],
)
def test_one_that_stays_says_why(rows, reason):
    verdict = told(rows)["a"]
    assert (verdict.scheme, verdict.reason) == (FLOAT, f"kept float: {reason}")


def test_reasons_found_before_are_passed_on():
    odd = layer("odd", reason="its weights are computed while the model runs")
    verdicts = told(
        [("a", 40.0, 1.0, 0.5)], extra=(odd, layer("b"), layer("c")), reasons={"b": "int8 is for cats"}
    )
    assert verdicts["odd"].reason == "kept float: its weights are computed while the model runs"
    assert verdicts["b"].reason == "kept float: int8 is for cats"
    assert verdicts["c"].reason == "kept float: no scheme fits it on this backend"


def test_conversions_are_named_where_they_decide():
    slow = told(
        [("a", 50.0, 1.0, 0.5), ("b", 50.0, 0.1, 0.15), ("c", 50.0, 1.0, 0.5)],
        borders=(Border("a", "b", 0.2), Border("b", "c", 0.2)),
    )["b"]
    assert slow.scheme == "int8"
    assert slow.reason.startswith("int8: 0.050 ms slower itself, but it saves conversions next to it")
    alone = told([("a", 50.0, 1.0, 0.9), ("b", 20.0, 1.0, 0.5)], borders=(Border("a", "b", 0.3),))["a"]
    assert alone.reason == "kept float: int8 saves 0.100 ms, but 0.300 ms go into conversions next to float layers"


def test_without_times_only_the_cost_is_told():
    verdicts = told([("a", 40.0, 1.0, 0.5), ("b", 20.0, 1.0, 0.5)], timed=False)
    assert verdicts["a"].reason == "int8: 40.0 dB alone"
    assert verdicts["b"].reason == "kept float: int8 leaves 20.0 dB alone; the floor is 30 dB"


def test_a_metric_of_its_own_speaks_of_that():
    def share(choices):
        return (0.9, 0.9) if "a" in choices else (1.0, 1.0)

    verdicts = told([("a", 20.0, 1.0, 0.5), ("b", 50.0, 1.0, 0.5)], floor=0.95, in_decibels=False, check=share)
    assert verdicts["b"].scheme == "int8"
    assert verdicts["a"].reason.startswith(
        "kept float: int8 saves 0.500 ms, but brings the metric to 0.9; the floor is 0.95"
    )
