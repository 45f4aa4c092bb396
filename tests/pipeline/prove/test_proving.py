import dataclasses
from types import SimpleNamespace

import msgspec
import pytest

from edgeopt.bundle import write
from edgeopt.bundle.read import read_bundle
from edgeopt.measure.legs import FEWEST
from edgeopt.measure.stats import IDENTICAL, TOO_NOISY, UNITY, Interval
from edgeopt.pipeline.builders.variants import Variants
from edgeopt.pipeline.context import SearchResources
from edgeopt.pipeline.goal import SearchGoal
from edgeopt.pipeline.objectives import ResourceLimits, objective_named
from edgeopt.pipeline.outcome import Candidate, Proof
from edgeopt.pipeline.prove.deliver import meets_conditions, rejection_reason
from edgeopt.pipeline.prove.proving import BundleDraft, MissedFloor, measured, unchanged
from edgeopt.pipeline.prove.report import plan_of, warnings_of
from edgeopt.profiles.targets import profile_for
from tests.conftest import this_device


@pytest.fixture
def proved(track, tmp_path, quick_profile):
    """What the proof of a null model says of it, with these faults and options; held against another, perhaps."""

    def work(options=None, today=None, same=False, **faults):
        search = track.search(tmp_path / "out.edgeopt", profile_for(this_device(), None, quick_profile))
        means = SearchResources(track.runner, track.notes, track.ending(), track.baseline)

        def bundle(name, how):
            path = track.null_model(name, **{"latency_ms": 2.0, **faults})
            mine = dataclasses.replace(search, request=msgspec.structs.replace(search.request, model=path))
            plan = plan_of(mine, Variants(), Candidate("source", "null", how))
            deployment = plan.deployment(search.device)
            (tmp_path / name).mkdir()
            write.fill(tmp_path / name, {path.name: path}, deployment, {})
            return read_bundle(tmp_path / name)

        proving = search
        if today is not None:
            proving = dataclasses.replace(search, incumbent=bundle("today", today))
        written = BundleDraft(bundle("new", options or {}).folder, 10)
        if same:
            return unchanged(proving, means, written)
        found = measured(proving, means, written, FEWEST)
        for _ in range(4):  # other processes may leave a proof without a verdict
            if TOO_NOISY not in {found.proof.verdict, found.proof.current_verdict}:
                break
            found = measured(proving, means, written, FEWEST)
        return found

    return work


def test_a_model_is_no_contest_for_itself(proved, track):
    """Two processes of one model differ, and a proof of it once said 1.16x."""
    found = proved(same=True)
    proof = found.proof
    assert (proof.verdict, proof.speedup, proof.legs) == (IDENTICAL, UNITY, 1)
    assert proof.latency_ms == proof.baseline_ms > 1.9
    assert (proof.accuracy_db, proof.met) == (200, True)
    assert proof.memory is not None
    assert proof.measured_while
    assert len(found.outputs) == track.reference.split.prove_count


def test_what_is_faster_is_proved_to_be_on_the_samples_set_aside(proved, track, long_slices):
    found = proved({"latency_ms": 0.1})
    proof, split = found.proof, track.reference.split
    assert proof.verdict == "faster"
    assert proof.baseline_ms > 1.9 > proof.latency_ms
    assert (proof.samples, proof.set_aside, proof.met) == (split.prove_count, split.is_set_aside, True)
    assert len(found.reference) == len(found.outputs) == split.prove_count
    assert (proof.figure, proof.less, proof.current, proof.by_size) == (None, None, None, ())
    assert proof.taken.runs > 0
    assert [output.name for output in proof.outputs] == ["y"]


def test_what_answers_otherwise_is_below_the_floor(proved):
    """Its speed is not measured, which would take the time of the next one."""
    with pytest.raises(MissedFloor) as missed:
        proved({"latency_ms": 0.1}, noise=0.5)
    assert float(str(missed.value).split(" dB")[0]) < 30


def test_what_runs_today_is_faced_besides(proved, long_slices):
    proof = proved({"latency_ms": 0.1}, today={"latency_ms": 6.0}).proof
    assert (proof.verdict, proof.current_verdict) == ("faster", "faster")
    assert proof.current.median > proof.speedup.median


TWO = Candidate("source", "onnxruntime-cpu")
ONE = Candidate("cleaned", "onnxruntime-cpu", {"threads": 1})


AIM = SearchGoal(objective_named("latency"), ResourceLimits())


def today_with(threads):
    """What runs today takes so many threads; None: as many as there are."""
    options = {} if threads is None else {"threads": threads}
    return SimpleNamespace(deployment=SimpleNamespace(run=SimpleNamespace(options=options)))


def proof_of(low, verdict="faster"):
    ratio = Interval(low + 0.05, low, low + 0.1, 22)
    return SimpleNamespace(
        by_size=(),
        verdict="no difference seen",
        speedup=ratio,
        current=ratio,
        current_verdict=verdict,
        figure=None,
    )


@pytest.mark.parametrize(
    ("threads", "candidate", "low", "won"),
    [
        (1, TWO, 1.05, False),
        (1, TWO, 1.12, False),
        (1, TWO, 1.20, True),
        (1, ONE, 1.05, True),
        (None, TWO, 1.05, True),
        (None, TWO, 0.99, False),
    ],
    ids=[
        "a-core-for-little",
        "a-core-for-what-a-race-asks",
        "a-core-for-more",
        "one-for-one",
        "several-for-several",
        "not-sure",
    ],
)
def test_to_take_more_cores_than_what_runs_today_must_be_worth_them(threads, candidate, low, won):
    today, proof = today_with(threads), proof_of(low, "faster" if low > 1 else "no difference seen")
    assert meets_conditions(AIM, today, proof, candidate) is won
    assert ("the gain of the other cores" in rejection_reason(AIM, today, proof, candidate)) == (
        threads == 1 and candidate is TWO
    )


@pytest.mark.parametrize("verdict", ["faster", "no difference seen", "too few rounds to tell", "slower"])
def test_only_what_is_proved_faster_than_the_source_wins(verdict):
    proof = SimpleNamespace(by_size=(), verdict=verdict, current=None, figure=None)
    assert meets_conditions(AIM, None, proof, TWO) is (verdict == "faster")


def proof(**more):
    return Proof("faster", Interval(2.0, 1.9, 2.1, 11), 2.0, 1.0, 60.0, 4, True, **more)


def test_a_bundle_of_which_a_part_falls_back_says_so():
    said = "3 of 9 nodes do not run on CUDA but on CPU: Gather: g"
    assert warnings_of(proof(fallback=said)) == (f"In the bundle, {said}.",)
    assert warnings_of(proof()) == ()
