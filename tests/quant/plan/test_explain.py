import pytest

from edgeopt.quant.plan.search import choose
from edgeopt.quant.plan.solve import Border, decibels, problem_from
from edgeopt.quant.records import FLOAT, Gain, Layer, Sensitivity


def layer(name, reason=""):
    return Layer(name, "Conv", (name,), f"{name}.weight", (), (), 10**6, reason=reason)


def told(rows, *, floor=30.0, borders=(), timed=True, in_decibels=True, extra=(), reasons=None, check=None):
    """Verdicts by layer; a row is a name, the layer's own dB, its time in float and in int8."""
    layers = [*(layer(name) for name, *_ in rows), *extra]
    costs = [Sensitivity(name, "int8", (10 ** (-db / 10),), db) for name, db, *_ in rows]
    gains = [Gain(name, "int8", before, after) for name, _, before, after in rows if after is not None]
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
    assert (verdict.form, verdict.reason) == ("int8", "int8: saves 0.410 ms, 38.0 dB alone")
    assert verdict.saves_ms == pytest.approx(0.41)
    assert verdict.snr_db == 38.04


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("a", 20.0, 0.1, 0.07)], "int8 saves 0.030 ms, but leaves 20.0 dB alone; the floor is 30 dB"),
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
    assert (verdict.form, verdict.reason) == (FLOAT, f"kept float: {reason}")


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
    assert slow.form == "int8"
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
    assert verdicts["b"].form == "int8"
    assert verdicts["a"].reason.startswith(
        "kept float: int8 saves 0.500 ms, but brings the metric to 0.9; the floor is 0.95"
    )
