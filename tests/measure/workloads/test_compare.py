import msgspec
import numpy as np
import pytest

from edgeopt.errors import TrialError
from edgeopt.measure.schedules import COLD, PACED
from edgeopt.measure.workloads.cold import run_cold
from edgeopt.measure.workloads.concurrent import run_concurrent
from edgeopt.measure.workloads.loop import LoopMember, compared, comparisons, require_one
from edgeopt.measure.workloads.paced import run_paced
from edgeopt.measure.workloads.records import ColdRules, ConcurrentRules, PacedRules


def noisy(middle, rounds, seed):
    return list(middle * np.exp(0.02 * np.random.default_rng(seed).standard_normal(rounds)))


@pytest.mark.parametrize(("theirs", "verdict"), [(11.0, "faster"), (9.0, "slower"), (10.02, "no difference seen")])
def test_the_first_side_is_judged_by_pairs(theirs, verdict):
    found = compared("a", "b", noisy(10, 11, 1), noisy(theirs, 11, 2), PACED)
    assert (found.first, found.second, found.verdict) == ("a", "b", verdict)
    assert found.speedup.median == pytest.approx(theirs / 10, rel=0.03)
    assert (found.at_most_percent is not None) == (verdict == "no difference seen")


def test_equal_sides_are_rarely_told_apart():
    found = [compared("a", "b", noisy(10, 9, k), noisy(10, 9, 1000 + k), PACED).verdict for k in range(300)]
    assert found.count("faster") + found.count("slower") <= 0.03 * len(found)


def test_what_two_processes_of_one_model_differ_by_is_no_verdict():
    mine, theirs = [10.0] * 11, [10.3] * 11
    assert compared("a", "b", mine, theirs, PACED).verdict == "no difference seen"
    assert compared("a", "b", mine, theirs, COLD).verdict == "faster"


def test_few_rounds_give_no_verdict_and_none_no_comparison():
    assert compared("a", "b", [1.0] * 6, [9.0] * 6, PACED).verdict == "too few rounds to tell"
    assert compared("a", "b", [], [1.0], PACED) is None
    members = LoopMember("a", rounds={0: 1.0}), LoopMember("b", rounds={0: 2.0}), LoopMember("c")
    assert [c.second for c in comparisons(members, float, PACED)] == ["b"]


def test_only_when_all_have_failed_it_is_an_error():
    require_one({"a": "crashed", "b": None})
    with pytest.raises(TrialError, match="'a' crashed"):
        require_one({"a": "crashed.", "b": "hung"})


@pytest.mark.parametrize(
    ("run", "rules"),
    [(run_cold, ColdRules(1)), (run_paced, PacedRules(100, 1)), (run_concurrent, ConcurrentRules((1,), rounds=1))],
)
def test_the_server_of_a_served_model_is_not_held_against_the_device(bench, run, rules):
    served = msgspec.structs.replace(bench.side("served"), kind="url")
    said = run(bench.host, [bench.side("model"), served], rules, bench.emit).measured_while
    # What the hypervisor takes counts all the same, and a round may be too short to tell anything.
    assert "other processes were busy" not in said
    assert "because a server is measured" in said or "hypervisor" in said or "without information" in said
    assert "busy" not in said
