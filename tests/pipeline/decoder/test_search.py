"""A whole search of a small decoder."""

import msgspec
import pytest

import edgeopt
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import ModelError
from edgeopt.pipeline.outcome import Outcome
from edgeopt.views.outcome import proof_lines
from tests.pipeline.decoder.conftest import roll_cache

SIZES = {"prompt_tokens": 16, "new_tokens": 8}


@pytest.mark.slow
@pytest.mark.processes
def test_a_decoder_is_searched_by_its_steps_and_its_bundle_generates(decoder, tmp_path):
    outcome = edgeopt.optimize(decoder, tmp_path / "out.edgeopt", time_limit_s=10, **SIZES)
    assert outcome.objective == "tokens-per-second"
    assert outcome.proof.metric.tokens.positions > 100
    assert "top-1 agreement" in outcome.goal
    source = next(each for each in outcome.candidates if each.candidate == outcome.baseline)
    assert (source.tokens.kl, source.tokens.top1) == (0.0, 1.0)
    assert any("with a full run of the bundle: cached" in line for line in proof_lines(outcome))
    assert any("random tokens" in warning for warning in outcome.warnings)
    bundle = read_bundle(tmp_path / "out.edgeopt")
    evidence = msgspec.json.decode((bundle.folder / "evidence.json").read_bytes(), type=Outcome)
    assert evidence.proof.generation == outcome.proof.generation
    assert {each["input_ids"].shape for each in bundle.golden("inputs")} == {(1, 1)}
    with edgeopt.load(tmp_path / "out.edgeopt") as session:
        assert len(list(session.generate([1, 2, 3], max_tokens=5))) == 5


@pytest.mark.processes
def test_a_source_whose_cache_is_shifted_is_refused(decoder, tmp_path):
    with pytest.raises(ModelError, match="other logits with its cache than without it"):
        edgeopt.optimize(roll_cache(decoder), tmp_path / "out.edgeopt", time_limit_s=10, **SIZES)
