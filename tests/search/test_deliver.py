import json

import msgspec
import numpy as np
import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.data.split import split
from edgeopt.replaying.replay import replay
from edgeopt.replaying.work import Order
from edgeopt.search.outcome import Outcome

# With the searches of test_optimize, which are made once.
pytestmark = pytest.mark.alone


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
    rounds = proof.speedup.rounds
    assert (len(proof.taken.slices_ms), len(proof.baseline_taken.slices_ms)) == (rounds, rounds)
    assert proof.taken.runs > 0
    assert [output.name for output in proof.outputs] == ["y"]
    assert proof.measured_while.startswith("Measured")
    assert outcome.device.cpu.logical_cores > 0
    assert outcome.operators["Conv"] == 1


def test_the_golden_samples_are_those_set_aside_for_the_proof(with_data, conv_data):
    with np.load(conv_data) as archive:
        images = archive["x"]
    chosen = split(len(images), given=True)
    golden = read_bundle(with_data.out).golden("inputs")
    for place, feeds in enumerate(golden):
        assert np.array_equal(feeds["x"], images[None, chosen.prove_first + place])
    assert len(golden) == 4


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
    found = replay(Order(with_data.out, with_data.model, tmp_path / "again.edgeopt"))
    assert found.same_files
    assert found.alike_db > 100


def test_an_older_bundle_is_replaced(nothing_wins, conv_bundle):
    assert read_bundle(conv_bundle).deployment.name == "conv"
    assert read_bundle(nothing_wins.out).deployment.name == "relu"
    assert [p.name for p in (nothing_wins.out / "model").iterdir()] == ["relu.onnx"]
