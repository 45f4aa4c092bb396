"""What a few real searches, each made once for this file, tell, prove and hand out."""

import itertools
import json

import msgspec
import numpy as np
import pytest

import edgeopt
from edgeopt import units
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.request import ReplayRequest
from edgeopt.bundle.runtime.check import check
from edgeopt.bundle.write import golden_places
from edgeopt.data.split import split
from edgeopt.events import Progress, Standing, decode, encode, ignore
from edgeopt.measure.exactness.proof import FLOOR_DB
from edgeopt.measure.schedules import PROOF
from edgeopt.pipeline.outcome import Outcome
from edgeopt.pipeline.replay import replay
from tests.pipeline.conftest import search

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def test_the_model_is_never_touched_and_nothing_is_left_beside_the_bundle(with_data, without_data, nothing_wins):
    for found in (with_data, without_data, nothing_wins):
        assert found.unchanged
        assert not [p.name for p in found.out.parent.iterdir() if p.name.startswith(".")]


def test_every_variant_of_the_ladder_is_accounted_for(with_data, without_data):
    ladder = ["source", "cleaned", "lowered", "int8", "int8-dynamic"]
    for found in (with_data, without_data):
        assert sorted(v.name for v in found.outcome.variants) == sorted(ladder)
        for variant in found.outcome.variants:
            raced = [c for c in found.outcome.candidates if c.candidate.variant == variant.name]
            assert bool(raced) != bool(variant.failure)


def test_every_candidate_but_the_winner_says_why_it_lost(with_data):
    outcome = with_data.outcome
    winners = [c for c in outcome.candidates if c.status == "winner"]
    if outcome.verdict == "faster":
        assert [c.candidate for c in winners] == [outcome.winner]
    for report in outcome.candidates:
        assert report.reason or report.status == "winner"


def test_the_winner_is_proved_fast_and_good(with_data):
    outcome = with_data.outcome
    assert outcome.proof.accuracy_db >= outcome.floor_db == 30
    assert outcome.proof.samples == 8
    if outcome.verdict == "faster":
        assert outcome.proof.speedup.rounds >= 11
        assert outcome.proof.speedup.low > 1
        assert outcome.winner != outcome.baseline
    else:
        assert outcome.winner == outcome.baseline


def test_the_proof_ran_in_fresh_processes_over_and_over(with_data, without_data, nothing_wins):
    for found in (with_data, without_data, nothing_wins):
        proof = found.outcome.proof
        if found.outcome.winner == found.outcome.baseline:
            assert (proof.verdict, proof.legs) == ("identical", 1)  # nothing to compare it with
            continue
        assert proof.legs >= PROOF.legs[-1]
        assert len(proof.taken.slices_ms) == len(proof.baseline_taken.slices_ms) == proof.speedup.rounds
        assert proof.speedup.rounds >= PROOF.leg_rounds[0] * proof.legs


def test_eight_bits_are_tried_with_data(with_data):
    static = next(c for c in with_data.outcome.candidates if c.candidate.variant == "int8")
    assert 20 < static.accuracy_db < 150
    assert next(v for v in with_data.outcome.variants if v.name == "int8").size_bytes


def test_without_data_nothing_with_eight_bits_is_tried_and_it_says_why(without_data):
    outcome = without_data.outcome
    assert not [c for c in outcome.candidates if "int8" in c.candidate.variant]
    reasons = {v.name: v.failure for v in outcome.variants if "int8" in v.name}
    assert len(reasons) == 2
    assert all("needs data" in reason for reason in reasons.values())
    assert any("Pass --data to try 8-bit variants" in warning for warning in outcome.warnings)


def test_when_nothing_wins_you_keep_what_you_have(nothing_wins):
    outcome = nothing_wins.outcome
    assert outcome.verdict in {"keep what you have", "undecided"}
    assert outcome.winner == outcome.baseline
    assert outcome.summary.startswith("Keep what you have")
    assert [c.candidate for c in outcome.candidates if c.status == "winner"] == [outcome.baseline]
    assert "No exact rewrite applies" in next(v.failure for v in outcome.variants if v.name == "cleaned")
    with edgeopt.load(nothing_wins.out) as session:
        answer = session.run({"x": np.float32([[-1, 2, -3, 4]])})["y"]
    assert answer.tolist() == [[0, 2, 0, 4]]
    assert (nothing_wins.out / "model/relu.onnx").read_bytes() == nothing_wins.model.read_bytes()


def test_every_bundle_is_complete_and_holds_here(with_data, without_data, nothing_wins):
    for found in (with_data, without_data, nothing_wins):
        assert not check(found.out, ignore).stale
        assert read_bundle(found.out).deployment.evidence.verdict == found.outcome.verdict


def test_it_tells_its_phases(with_data):
    phases = list(dict.fromkeys(event.phase for event in with_data.said if hasattr(event, "phase")))
    assert phases[:2] == ["reading the model", "making variants"]
    assert phases[-1] == "proving"
    assert "racing" in phases


def test_the_bundle_holds_the_evidence_of_its_search(with_data):
    bundle, outcome = read_bundle(with_data.out), with_data.outcome
    assert msgspec.json.decode((with_data.out / "evidence.json").read_bytes(), type=Outcome) == outcome
    evidence = bundle.deployment.evidence
    assert evidence.speedup_low <= evidence.speedup <= evidence.speedup_high
    assert abs(evidence.speedup / outcome.proof.speedup.median - 1) < 0.01
    assert evidence.baseline == outcome.baseline.name
    assert bundle.deployment.run.backend == outcome.winner.backend
    assert bundle.deployment.run.options == outcome.winner.options
    assert bundle.deployment.source.sha256 == outcome.model_digest


def test_the_evidence_tells_a_report_how_the_proof_went(with_data):
    outcome = with_data.outcome
    proof = outcome.proof
    taken, baseline_taken = len(proof.taken.slices_ms), len(proof.baseline_taken.slices_ms)
    assert taken == baseline_taken
    assert taken == proof.speedup.rounds or proof.verdict == "identical"
    assert proof.taken.runs > 0
    assert [output.name for output in proof.outputs] == ["y"]
    assert proof.measured_while.startswith("Measured")
    assert outcome.device.cpu.logical_cores > 0
    assert outcome.operators["Conv"] == 1


def test_the_golden_samples_are_those_set_aside_for_the_proof(with_data, conv_data):
    with np.load(conv_data) as archive:
        images = archive["x"]
    chosen = split(len(images), from_user=True)
    golden = read_bundle(with_data.out).golden("inputs")
    places = golden_places(chosen.prove_count)
    assert (len(golden), places[0], places[-1]) == (4, 0, chosen.prove_count - 1)
    for place, feeds in zip(places, golden, strict=True):
        assert np.array_equal(feeds["x"], images[None, chosen.prove_first + place])


def test_the_golden_answers_are_those_of_the_source_model(with_data):
    from edgeopt.backends import backend_named

    bundle = read_bundle(with_data.out)
    session = backend_named("onnxruntime-cpu").load(with_data.model, {})
    for feeds, wanted in zip(bundle.golden("inputs"), bundle.golden("reference"), strict=True):
        np.testing.assert_allclose(session.run(feeds)["y"], wanted["y"], rtol=1e-4, atol=1e-5)
    session.close()


def test_the_ledger_is_that_of_the_winner(with_data):
    ledger = json.loads((with_data.out / "ledger.json").read_bytes())
    if with_data.outcome.winner.variant == "source":
        assert ledger == []
    else:
        assert "fold-constants" in {entry["pass_name"] for entry in ledger}


def test_a_replay_makes_the_same_without_searching(with_data, tmp_path):
    found = replay(ReplayRequest(with_data.out, with_data.model, tmp_path / "again.edgeopt"))
    assert found.same_files
    assert found.alike_db > 100


def test_an_older_bundle_is_replaced(nothing_wins, conv_bundle):
    assert read_bundle(conv_bundle).deployment.name == "conv"
    assert read_bundle(nothing_wins.out).deployment.name == "relu"
    assert [p.name for p in (nothing_wins.out / "model").iterdir()] == ["relu.onnx"]


@pytest.fixture(params=["with_data", "without_data", "nothing_wins"])
def found(request):
    return request.getfixturevalue(request.param)


def by_candidate(found):
    told = {}
    for event in found.said:
        if isinstance(event, Standing):
            told.setdefault(event.candidate, []).append(event)
    return told


def test_the_last_standing_of_every_candidate_is_what_the_outcome_says(found):
    told = by_candidate(found)
    reports = {report.candidate.name: report for report in found.outcome.candidates}
    assert told.keys() == reports.keys()
    for name, report in reports.items():
        last = told[name][-1]
        assert (last.status, last.reason) == (report.status, report.reason)
        assert last.accuracy_db == report.accuracy_db
        assert last.latency_ms == report.latency_ms
        if report.speedup:
            assert (last.speedup, last.speedup_low) == (report.speedup.median, report.speedup.low)


def test_a_candidate_ends_once_unless_it_is_called_back_and_again_with_the_outcome(found):
    for events in by_candidate(found).values():
        statuses = [event.status for event in events]
        assert statuses[-1] != "racing"
        ends = [k for k, status in enumerate(statuses[:-1]) if status != "racing"]
        # Between two ends it was told as racing again.
        assert all(second - first > 1 for first, second in itertools.pairwise(ends))


def test_reasons_and_speeds_of_the_outcome_agree(found):
    outcome = found.outcome
    for report in outcome.candidates:
        if outcome.winner != outcome.baseline and report.of_best is not None and report.speedup is not None:
            assert report.of_best == report.speedup.median / outcome.proof.speedup.median
            assert report.reason == units.behind(report.of_best, outcome.winner.name)


def test_everybody_who_runs_is_told_when_it_enters_with_its_accuracy(found):
    for name, events in by_candidate(found).items():
        if events[0].status == "racing":
            assert events[0].accuracy_db is not None, name
            assert events[0].speedup is None
        else:
            assert events[0].status in {"failed", "below the floor"}


def test_what_left_without_winning_says_why(found):
    assert all(e.reason for events in by_candidate(found).values() for e in events if e.status == "lost")


def test_standings_move_while_the_race_runs(with_data):
    measured = [e for e in with_data.said if isinstance(e, Standing) and e.status == "racing" and e.speedup]
    assert measured
    assert all(e.speedup_low is None or e.speedup_low <= e.speedup <= e.speedup_high for e in measured)
    # Not more than the line between two rounds can carry.
    rounds = sum(isinstance(e, Progress) and e.phase in {"racing", "tuning", "final"} for e in with_data.said)
    assert len(measured) <= rounds * len(with_data.outcome.candidates)


def test_they_survive_the_way_over_a_pipe(found):
    for event in found.said:
        assert type(decode(encode(event))) is type(event)


def test_openvino_answers_a_rewritten_detector_with_shuffles_as_it_answers_the_source(shuffle_detector, tmp_path):
    pytest.importorskip("openvino", reason="the runtime in question")
    images = np.random.default_rng(1).standard_normal((24, 3, 64, 64)).astype(np.float32)
    np.savez(tmp_path / "images.npz", image=images)
    outcome = search(shuffle_detector, tmp_path, data=tmp_path / "images.npz", time_limit_s=30).outcome
    floats = [c for c in outcome.candidates if c.candidate.backend == "openvino-cpu" and c.accuracy_db is not None]
    by_variant = {name: [c for c in floats if c.candidate.variant == name] for name in ("source", "cleaned")}
    assert all(by_variant.values())
    for name, found in by_variant.items():
        assert min(c.accuracy_db for c in found) >= outcome.floor_db, name
        assert max(c.accuracy_db for c in found) >= FLOOR_DB, name
