import dataclasses

import pytest

from edgeopt.bundle import write
from edgeopt.bundle.read import read_bundle
from edgeopt.hw.probe import probe
from edgeopt.measure.legs import FEWEST
from edgeopt.measure.stats import IDENTICAL, UNITY
from edgeopt.profiles.targets import profile_for
from edgeopt.search.delivering.proving import Means, Written, measured, unchanged
from edgeopt.search.delivering.report import deployment_of
from edgeopt.search.making.variants import Variants
from edgeopt.search.outcome import Candidate


@pytest.fixture
def proved(track, tmp_path, quick_profile):
    """What the proof of a null model says of it, with these faults and options; held against another, perhaps."""

    def work(options=None, today=None, same=False, **faults):
        delivery = track.delivery(tmp_path / "out.edgeopt", profile_for(probe(), None, quick_profile))
        means = Means(track.ground, track.ending(), track.notes)

        def bundle(name, how):
            path = track.null_model(name, **{"latency_ms": 4.0, **faults})
            case = dataclasses.replace(delivery.case, model=path)
            deployment = deployment_of(case, Variants(), Candidate("source", "null", how))
            (tmp_path / name).mkdir()
            write.fill(tmp_path / name, {path.name: path}, deployment, {})
            return read_bundle(tmp_path / name)

        proving = delivery.proving
        if today is not None:
            rivals = proving.rivals._replace(today=bundle("today", today))
            proving = dataclasses.replace(proving, rivals=rivals)
        written = Written(bundle("new", options or {}).folder, 10)
        if same:
            return unchanged(proving, means, written)
        return measured(proving, means, written, FEWEST)

    return work


def test_a_model_is_no_contest_for_itself(proved, track):
    """Two processes of one model differ, and a proof of it once said 1.16x."""
    found = proved(same=True)
    proof = found.proof
    assert (proof.verdict, proof.speedup, proof.legs) == (IDENTICAL, UNITY, 1)
    assert proof.latency_ms == proof.baseline_ms > 3.9
    assert (proof.accuracy_db, proof.met) == (200, True)
    assert proof.memory is not None
    assert proof.measured_while
    assert len(found.outputs) == track.standard.split.prove_count


def test_what_is_faster_is_proved_to_be_on_the_samples_set_aside(proved, track):
    found = proved({"latency_ms": 0.5})
    proof, split = found.proof, track.standard.split
    assert proof.verdict == "faster"
    assert proof.baseline_ms > 3.9 > proof.latency_ms
    assert (proof.samples, proof.set_aside, proof.met) == (split.prove_count, split.calibration_count > 0, True)
    assert len(found.reference) == len(found.outputs) == split.prove_count
    assert (proof.figure, proof.less, proof.current, proof.by_size) == (None, None, None, ())
    assert proof.taken.runs > 0
    assert [output.name for output in proof.outputs] == ["y"]


def test_what_answers_otherwise_is_below_the_floor(proved):
    proof = proved(noise=0.5).proof
    assert not proof.met
    assert proof.accuracy_db < 30


def test_what_runs_today_is_faced_besides(proved):
    proof = proved({"latency_ms": 0.5}, today={"latency_ms": 12.0}).proof
    assert (proof.verdict, proof.current_verdict) == ("faster", "faster")
    assert proof.current.median > proof.speedup.median
