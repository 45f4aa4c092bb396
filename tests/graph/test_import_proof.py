"""The proof of an import in metadata: written, read again, and what others wrote under these keys."""

import pytest

from edgeopt.graph.import_proof import PREFIX, ImportProof, as_metadata, import_proof_in
from edgeopt.views.imports import import_facts, import_sentence

PROOF = ImportProof(
    "net.py:Net", "torch", "torch 2.13.0", "torch.onnx dynamo 2.13.0", "ONNX Runtime, CPU", 121.4, 90.0, 32,
    ({"batch": 2, "seq": 7}, {"batch": 3, "seq": 7}), {"logits": 121.4, "label": 200.0},
)  # fmt: skip


def test_proof_is_read_as_it_was_written():
    written = as_metadata(PROOF)
    assert written[f"{PREFIX}snr_db"] == "121.4"
    assert written[f"{PREFIX}floor_db"] == "90"
    assert written[f"{PREFIX}samples"] == "32"
    assert import_proof_in({**written, "names": "cat, dog"}) == PROOF


@pytest.mark.parametrize(
    "changed",
    [{"snr_db": "much"}, {"sizes": "no JSON"}, {"sizes": "[1]"}, {"outputs": "[" * 100_000}, {"samples": "x"}],
)
def test_other_metadata_is_no_proof(changed):
    assert import_proof_in({**as_metadata(PROOF), **{f"{PREFIX}{k}": v for k, v in changed.items()}}) is None


def test_model_without_its_source_is_not_imported():
    without = {key: value for key, value in as_metadata(PROOF).items() if key != f"{PREFIX}source"}
    assert import_proof_in(without) is None
    assert import_proof_in({"names": "cat"}) is None


def test_proof_is_a_sentence_and_facts():
    assert import_sentence(PROOF) == (
        "From net.py:Net (torch 2.13.0), agrees to 121.4 dB on 32 samples and at batch=2 seq=7; batch=3 seq=7."
    )
    facts = dict(import_facts(PROOF))
    assert facts["Output label"] == "equal"
    assert facts["Agreement"] == "121.4 dB; floor 90 dB"
