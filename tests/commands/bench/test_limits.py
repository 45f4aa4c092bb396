import math

import msgspec
import pytest

from edgeopt.commands.bench.limits import broken, exit_code, judge, read_limits, refuse_without_verdict
from edgeopt.errors import UsageError
from edgeopt.measure.report import Comparison, Limits
from edgeopt.measure.stats import Interval
from edgeopt.measure.workloads.records import ColdReport, ColdSide


def compared(second, low, high, **more):
    return Comparison("a", second, Interval(math.sqrt(low * high), low, high, 30, 0.997), "faster", **more)


@pytest.fixture
def judged(report):
    """What limits say of contests of `a` with others, each with the interval as told."""

    def make(limits, **intervals):
        comparisons = tuple(compared(name, *ends) for name, ends in intervals.items() if ends)
        sides = {"a": 1.0, **dict.fromkeys(intervals, 1.0)}
        return judge(report(sides, comparisons=comparisons), limits)

    return make


@pytest.mark.parametrize(
    ("text", "value"),
    [("2%", 0.02), ("2 %", 0.02), ("0.5%", 0.005), ("0.02", 0.02), ("0", 0.0), ("150%", 1.5), ("5e-05", 5e-5)],
)
def test_a_slowdown_as_it_is_written(text, value):
    assert read_limits(text, None) == Limits(pytest.approx(value))


@pytest.mark.parametrize(
    ("text", "value"), [("1.1", 1.1), ("1.1x", 1.1), ("2 x", 2.0), ("0.98", 0.98), ("1", 1.0)]
)
def test_a_speedup_as_it_is_written(text, value):
    assert read_limits(None, text) == Limits(None, value)


@pytest.mark.parametrize(
    "text", ["2", "1.02", "1.02x", "two", "", "%", "-2%", "nan", "inf", "2%%", "1,5%", "1e999"]
)
def test_what_is_no_slowdown_is_said(text):
    with pytest.raises(UsageError, match="--max-slowdown") as raised:
        read_limits(text, None)
    assert "0.02" in raised.value.hint


@pytest.mark.parametrize("text", ["10%", "0.1", "0", "-1", "fast", "", "x", "1.1xx", "inf", "nan", "1,1"])
def test_what_is_no_speedup_is_said(text):
    with pytest.raises(UsageError, match="--min-speedup") as raised:
        read_limits(None, text)
    assert "1.1x" in raised.value.hint


@pytest.mark.parametrize(
    ("ends", "slowdown", "speedup"),
    [
        ((1.2, 1.3), ("held", True), ("held", True)),
        ((0.99, 1.15), ("held", True), ("undecided", False)),
        ((0.97, 1.05), ("undecided", True), ("broken", False)),
        ((0.90, 0.97), ("broken", False), ("broken", False)),
        ((0.0, math.inf), ("not judged", False), ("not judged", False)),
        (None, ("not judged", False), ("not judged", False)),
    ],
)
def test_each_limit_by_the_whole_interval(judged, ends, slowdown, speedup):
    found = judged(Limits(0.02, 1.1), b=ends)
    assert [(each.state, each.passed) for each in found.checks] == [slowdown, speedup]
    assert found.passed == (slowdown[1] and speedup[1])
    assert [each.minimum for each in found.checks] == pytest.approx([1 / 1.02, 1.1])
    assert (found.checks[0].speedup is None) == (slowdown[0] == "not judged")


def test_every_other_side_counts(judged):
    found = judged(Limits(0.02), b=(1.2, 1.3), c=(0.9, 0.95))
    assert [(each.second, each.state) for each in found.checks] == [("b", "held"), ("c", "broken")]
    assert not found.passed
    assert broken(found).message == "a is 8.1 % slower than c; 2 % allowed."
    assert broken(judged(Limits(0.02), b=(1.2, 1.3))) is None
    assert broken(None) is None


def test_a_limit_that_fails_says_by_how_much(judged):
    assert broken(judged(Limits(0.05), b=(0.15, 0.16))).message == "a is 6.5x slower than b; 5 % allowed."
    found = judged(Limits(None, 1.1), b=(1.0, 1.05))
    assert broken(found).message == "a is 1.02x as fast as b; at least 1.1x required."


def test_sentences_say_what_the_interval_says(judged):
    said = [judged(Limits(0.02), b=ends).checks[0].sentence for ends in ((1.0, 1.1), (0.9, 0.95), (0.97, 1.0))]
    assert (
        said[0]
        == "--max-slowdown 2% holds: a against b is 1.049x [1.000 1.100], entirely above the limit of 0.980x."
    )
    assert said[1].startswith("--max-slowdown 2% fails: a against b is 0.925x [0.900 0.950], entirely below")
    assert said[2].endswith("is 0.985x [0.970 1.000], which includes the limit of 0.980x; more rounds may tell.")
    assert "too few rounds to tell" in judged(Limits(0.02), b=None).checks[0].sentence


def test_a_side_that_fell_is_not_judged_and_why_is_said(report):
    made = report({"a": 1.0, "b": 1.0})
    fallen = msgspec.structs.replace(made.sides[1], failure="crashed: SIGSEGV.")
    (check,) = judge(msgspec.structs.replace(made, sides=(made.sides[0], fallen)), Limits(0.02)).checks
    assert (check.state, check.passed) == ("not judged", False)
    assert check.sentence.endswith("'b' crashed: SIGSEGV.")


def test_the_luck_of_processes_is_not_held_against_anybody(report):
    """4 % slower in the same processes from begin to end: not proved to be slower by more than 2 %."""
    found = [
        judge(
            report({"a": 1.0, "b": 1.0}, comparisons=(compared("b", 0.955, 0.965, luck_percent=luck),)),
            Limits(0.02),
        )
        for luck in (0.0, 4.0)
    ]
    assert [each.checks[0].state for each in found] == ["broken", "undecided"]
    assert "may differ by 4 % by chance" in found[1].checks[0].sentence


def test_duties_say_what_was_compared():
    cold = ColdReport((ColdSide("a"), ColdSide("b")), comparisons=(compared("b", 0.5, 0.6),))
    (check,) = judge(cold, Limits(0.02)).checks
    assert check.measured == "the time to the first answer"
    assert "a against b, by the time to the first answer, is" in check.sentence


@pytest.mark.parametrize(
    ("ends", "otherwise", "code"),
    [
        ((1.2, 1.3), 0, 0),
        ((1.2, 1.3), 1, 1),
        ((0.9, 0.95), 0, 4),
        ((0.9, 0.95), 1, 4),
        ((0.9, 0.95), 6, 4),
        ((0.9, 0.95), 130, 130),
        (None, 0, 4),
        (None, 1, 1),
        (None, 3, 3),
    ],
)
def test_what_the_command_leaves_with(judged, ends, otherwise, code):
    assert exit_code(judged(Limits(0.02), b=ends), otherwise) == code


def test_without_limits_nothing_changes():
    assert (exit_code(None, 0), exit_code(None, 1)) == (0, 1)


@pytest.mark.parametrize(
    ("sides", "duty", "sweep", "says"),
    [
        (1, "steady", False, "no other side"),
        (1, "steady", True, "a sweep does not compare sides"),
        (2, "sustained", False, "get no verdict"),
    ],
)
def test_a_limit_where_nothing_is_judged_is_wrong_usage(sides, duty, sweep, says):
    with pytest.raises(UsageError, match=says):
        refuse_without_verdict(Limits(0.02), sides, duty, sweep)
    refuse_without_verdict(Limits(), sides, duty, sweep)


@pytest.mark.parametrize("given", [("2%", None, "perhaps"), (None, None, "fail")])
def test_a_word_for_undecided_that_means_nothing_is_refused(given):
    with pytest.raises(UsageError, match="--undecided"):
        read_limits(*given)


@pytest.mark.parametrize(
    ("verdict", "slowdown", "speedup"),
    [
        ("too noisy to tell", ("undecided", True), ("undecided", False)),
        ("too few rounds to tell", ("not judged", False), ("not judged", False)),
    ],
)
def test_without_an_interval_no_limit_is_decided(report, verdict, slowdown, speedup):
    comparisons = (Comparison("a", "b", None, verdict),)
    found = judge(report({"a": 1.0, "b": 1.0}, comparisons=comparisons), Limits(0.02, 1.5)).checks
    assert [(each.state, each.passed) for each in found] == [slowdown, speedup]
    assert all(verdict in each.sentence and each.speedup is None for each in found)
