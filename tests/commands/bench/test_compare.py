import msgspec
import numpy as np
import pytest

from edgeopt.commands.bench.compare import compare_runs
from edgeopt.commands.bench.limits import broken, exit_code
from edgeopt.errors import InputError, UsageError
from edgeopt.measure.report import Limits, RoundState


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


TELLS_NO_CLOCK = (RoundState(0, 0.0, 1.0, others_percent=1.0),)


@pytest.fixture
def judged(report):
    """What limits say of two runs, each `name=latency_ms`."""

    def make(before, after, limits=None, **more):
        runs = report(before, **more), report(after, seed=9, **more)
        return compare_runs(*runs, ("a.json", "b.json"), limits or Limits(0.02)).judgement

    return make


def test_without_limits_there_is_no_judgement(report):
    assert compare_runs(report({"a": 1.0}), report({"a": 1.0}), ("a.json", "b.json")).judgement is None


@pytest.mark.parametrize(
    ("after_ms", "states"),
    [(13.0, ["broken", "broken"]), (10.0, ["undecided", "broken"]), (5.0, ["held", "held"])],
)
def test_the_time_of_the_first_side(judged, after_ms, states):
    found = judged({"a": 10.0}, {"a": after_ms}, Limits(0.02, 1.5))
    assert [each.state for each in found.checks] == states
    assert (found.checks[0].first, found.checks[0].second) == ("a in b.json", "a in a.json")
    if after_ms == 10.0:
        assert "measure both interleaved" in found.checks[0].sentence


def test_the_ratio_to_a_side_of_both_runs_is_the_better_evidence(judged):
    """All got slower, as on a slower day; and then the first alone."""
    (check,) = judged({"a": 5.0, "b": 10.0}, {"a": 10.0, "b": 20.0}, Limits(0.1)).checks
    assert (check.state, check.measured) == ("held", "the ratio to b")
    found = judged({"a": 5.0, "b": 10.0, "c": 7.0}, {"a": 6.5, "b": 10.0, "c": 7.0}, Limits(0.1))
    assert [(each.measured, each.state) for each in found.checks] == [
        ("the ratio to b", "broken"),
        ("the ratio to c", "broken"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "more", "why"),
    [
        ({"a": 1.0}, {"a": 1.0}, {"states": TELLS_NO_CLOCK}, "did not report its clock"),
        ({"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0}, {}, "the first sides of the two runs are not the same"),
    ],
)
def test_what_gets_no_verdict_does_not_pass(judged, before, after, more, why):
    (check,) = judged(before, after, **more).checks
    assert (check.state, check.passed) == ("not judged", False)
    assert why in check.sentence


def test_different_devices_cannot_be_judged(report):
    runs = report({"a": 1.0}), report({"a": 1.0}, device={"cpu": "2"})
    (check,) = compare_runs(*runs, ("a.json", "b.json"), Limits(0.02)).judgement.checks
    assert check.sentence.endswith("measured on different devices.")


def test_a_first_side_that_fell_cannot_be_judged(report):
    made = report({"a": 1.0, "b": 1.0})
    fallen = msgspec.structs.replace(made.sides[0], figures=None, slices=(), failure="crashed")
    runs = msgspec.structs.replace(made, sides=(fallen, made.sides[1])), made
    (check,) = compare_runs(*runs, ("a.json", "b.json"), Limits(0.02)).judgement.checks
    assert (check.state, check.passed) == ("not judged", False)
    assert "'a' was not measured in both runs" in check.sentence


@pytest.mark.parametrize(("undecided", "passed"), [("pass", True), ("fail", False)])
def test_a_limit_inside_the_interval_passes_unless_it_is_to_fail(judged, undecided, passed):
    found = judged({"a": 10.0}, {"a": 10.0}, Limits(0.02, undecided=undecided))
    assert (found.checks[0].state, found.passed, exit_code(found)) == ("undecided", passed, 0 if passed else 4)
    assert ("--undecided fail" in found.checks[0].sentence) is not passed
    assert broken(found) is None or "undecided, which fails" in broken(found).message


def test_a_side_that_was_renamed_is_judged_by_its_pair(report):
    runs = report({"old=1": 10.0, "b": 20.0}), report({"new": 5.0, "b": 20.0}, seed=9)
    found = compare_runs(*runs, ("a.json", "b.json"), Limits(0.02), ["old=1=new"])
    assert [side.name for side in found.sides] == ["new", "b"]
    assert (found.only_before, found.only_after) == ((), ())
    assert "'old=1' before is 'new' after (--name)." in found.differences
    assert found.judgement.passed


@pytest.mark.parametrize("pair", ["old=nobody", "old", "old=b"])
def test_a_pair_of_names_that_the_runs_do_not_have_is_refused(report, pair):
    runs = report({"old": 10.0, "b": 20.0}), report({"new": 5.0, "b": 20.0})
    with pytest.raises(UsageError, match="--name"):
        compare_runs(*runs, ("a.json", "b.json"), pairs=[pair])


def test_runs_without_a_common_side_are_told_how_to_match_them(report):
    with pytest.raises(InputError) as raised:
        compare_runs(report({"old": 1.0}), report({"new": 1.0}), ("a.json", "b.json"))
    assert "--name 'old=new'" in raised.value.hint
