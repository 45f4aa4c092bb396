import msgspec
import pytest

from edgeopt.commands.bench.compare import compare_runs
from edgeopt.commands.bench.limits import broken, exit_code
from edgeopt.errors import InputError, UsageError
from edgeopt.measure.report import Limits, RoundState

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
