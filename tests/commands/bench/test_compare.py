import msgspec
import numpy as np
import pytest

from edgeopt.commands.bench.compare import compare_runs
from edgeopt.errors import InputError
from edgeopt.measure.report import RoundState


def compared(before, after):
    return compare_runs(before, after, ("before.json", "after.json"))


def test_a_large_difference_is_seen_and_a_small_one_is_not_trusted(report):
    found = compared(report({"a": 10.0}), report({"a": 5.0}, seed=9))
    (side,) = found.sides
    assert side.verdict == "faster"
    assert side.speedup.low < 2.0 < side.speedup.high
    assert 2 < side.trust_above_percent < 15
    (side,) = compared(report({"a": 10.0}), report({"a": 9.85}, seed=9)).sides
    assert side.verdict == "no difference seen"
    (side,) = compared(report({"a": 5.0}), report({"a": 10.0}, seed=9)).sides
    assert side.verdict == "slower"


def test_two_runs_of_one_model_hardly_ever_differ(report):
    random = np.random.default_rng(3)
    said = []
    for seed in range(200):
        # What no number of rounds shows: where the memory of each process lies.
        one, other = 10 * np.exp(0.01 * random.standard_normal(2))
        said.append(compared(report({"a": one}, 2 * seed), report({"a": other}, 2 * seed + 1)).sides[0].verdict)
    assert said.count("faster") + said.count("slower") <= 10


def test_a_run_that_drifted_is_trusted_less(report):
    steady, drifting = report({"a": 10.0}), report({"a": 10.0}, seed=4)
    (side,) = drifting.sides
    bent = tuple(
        type(piece)(piece.round, piece.begin_s, piece.seconds, tuple(v * 1.3 for v in piece.latencies_ms))
        if piece.round >= 15
        else piece
        for piece in side.slices
    )
    bent_side = type(side)(side.name, side.subject, side.kind, figures=side.figures, slices=bent)
    drifting = msgspec.structs.replace(drifting, sides=(bent_side,))
    assert compared(steady, drifting).sides[0].trust_above_percent > 30


def test_the_ratio_within_each_run_is_compared_where_both_have_two_sides(report):
    # The second run was on a slower machine state: all times doubled, the ratio did not.
    found = compared(report({"a": 5.0, "b": 10.0}), report({"a": 10.0, "b": 20.0}, seed=5))
    assert [side.verdict for side in found.sides] == ["slower", "slower"]
    (ratio,) = found.ratios
    assert (ratio.first, ratio.second, ratio.verdict) == ("a", "b", "no difference seen")
    assert ratio.before == pytest.approx(2, rel=0.02)
    assert ratio.after == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("more", "says", "forbids"),
    [
        ({"device": {"cpu": "2"}}, "different devices: they differ in cpu", "measured on different devices"),
        ({"data": "other.npz"}, "different inputs: data.npz and other.npz", "different inputs"),
        ({"duty": "paced"}, "different workloads: steady and paced", "different workloads"),
        ({"versions": {"edgeopt": "2"}}, "edgeopt: 1 before, 2 after", ""),
    ],
)
def test_what_differs_between_the_runs_is_said_and_may_forbid_a_verdict(report, more, says, forbids):
    found = compared(report({"a": 10.0}), report({"a": 5.0}, **more))
    assert any(says in difference for difference in found.differences)
    assert forbids in found.no_verdict
    assert bool(found.no_verdict) == bool(forbids)
    assert found.sides[0].verdict == ("no verdict" if forbids else "faster")


def test_sides_of_one_run_only_are_named(report):
    found = compared(report({"a": 10.0, "b": 9.0}), report({"a": 10.0, "c": 9.0}))
    assert (found.only_before, found.only_after) == (("b",), ("c",))
    with pytest.raises(InputError, match="no side in common: a and c"):
        compared(report({"a": 10.0}), report({"c": 10.0}))


def quiet(**more):
    return {
        "states": tuple(RoundState(k, k, 1.0, **{"others_percent": 1.0, "clock_hz": 2e9} | more) for k in (0, 1))
    }


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ({"states": ()}, "the second run does not record the state"),
        (quiet(bad=("The clock fell.",)), "was not quiet in the second run"),
        (quiet(bad=("The clock fell.",), repeated=True), "was not quiet in the second run"),
        (quiet(clock_hz=None), "did not report its clock in the second run"),
        (quiet(others_percent=None), "does not record other load"),
        (quiet(clock_hz=1.2e9), "the clock was 2.00 GHz in the first run and 1.20 GHz in the second"),
        (quiet(clock_hz=1.98e9), ""),
    ],
)
def test_a_machine_that_drifted_does_not_make_a_side_slower(report, states, says):
    # One and the same model, 28 ms on one day and 48 ms on the next.
    found = compared(report({"a": 28.0, "b": 14.0}), report({"a": 48.0, "b": 24.0}, seed=5, **states))
    assert says in found.times_unjudged
    assert {side.verdict for side in found.sides} == ({"no verdict"} if says else {"slower"})
    assert found.ratios[0].verdict == "no difference seen"


def test_a_run_whose_stretches_lay_apart_is_trusted_less(report):
    even, uneven = report({"a": 10.0}), report({"a": 10.0}, seed=4)
    (side,) = uneven.sides
    slices = tuple(
        msgspec.structs.replace(
            piece, latencies_ms=tuple(v * (1.3 if k // 4 % 2 else 1) for v in piece.latencies_ms)
        )
        for k, piece in enumerate(side.slices)
    )
    uneven = msgspec.structs.replace(uneven, sides=(msgspec.structs.replace(side, slices=slices),))
    assert compared(even, uneven).sides[0].trust_above_percent > 30
