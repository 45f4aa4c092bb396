from pathlib import Path

import pytest

from edgeopt.bundle.deployment import Step
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.pipeline.builders.variants import Variants
from edgeopt.pipeline.outcome import Candidate, VariantReport


@pytest.mark.parametrize("order", [("cleaned", "ort-weights8"), ("ort-weights8", "cleaned")])
def test_variant_made_before_the_cleaned_model_has_neither_its_step_nor_its_passes(order):
    variants = Variants()
    for name in order:
        variants.enter(VariantReport(name, name, ledger=(LedgerEntry(name),)), Path(name), Step(name))
    candidate = Candidate("ort-weights8", "onnxruntime-cpu")
    expected = [name for name in order if order[0] == "cleaned" or name != "cleaned"]
    assert [step.recipe for step in variants.steps(candidate)] == expected
    assert [entry.pass_name for entry in variants.ledger(candidate)] == expected
    assert [step.recipe for step in variants.steps(Candidate("cleaned", "onnxruntime-cpu"))] == ["cleaned"]
    assert variants.steps(Candidate("source", "onnxruntime-cpu")) == []
