import signal

import pytest

from edgeopt.bundle.cache import found_cache
from edgeopt.bundle.runtime.generation import DecoderPorts
from edgeopt.data.samples import save_samples
from edgeopt.errors import TrialError
from edgeopt.measure.contender import Side
from edgeopt.measure.messages import Load
from edgeopt.measure.workloads.generate import Prompts, run_generate
from edgeopt.measure.workloads.records import GenerateRules
from edgeopt.pipeline.decoder.workloads import DecoderModel
from edgeopt.pipeline.shapes.sized import together
from tests.bundle.runtime.decoder import CONTEXT, VOCABULARY, load, write_decoder

PROMPTS = ((3, 1, 4, 1, 5, 9, 2, 6), (2, 7, 1, 8, 2, 8, 1, 8))
RULES = GenerateRules(prompt_tokens=8, new_tokens=6, rounds=7)


@pytest.fixture
def decoders(bench, tmp_path, monkeypatch):
    """Makes sides of small decoders, and the prompts for them; the slices are short."""
    monkeypatch.setattr("edgeopt.measure.workloads.generate._SLICE_MS", 5.0)

    def make(*names):
        path = write_decoder(tmp_path / "model.onnx")
        with load(path) as session:
            cache = found_cache(session.inputs, session.outputs)
            states = tuple(info for info in session.inputs if info.name in cache.pairs)
            ports = DecoderPorts(cache, session.inputs, session.outputs)
            model = DecoderModel(cache, ports, states, VOCABULARY)
        save_samples(together([model.feeds(PROMPTS[0])]), tmp_path / "samples")
        asked = Load("onnxruntime-cpu", str(path), {"threads": 1}, str(tmp_path / "samples"))
        return [Side(name, asked) for name in names], Prompts(PROMPTS, (cache,) * len(names))

    return make


def test_each_side_answers_in_every_round(bench, decoders):
    sides, prompts = decoders("a", "b")
    found = run_generate(bench.host, sides, prompts, RULES, bench.emit)
    for side in found.sides:
        assert side.failure is None
        assert side.answers >= RULES.rounds
        assert len(side.first_tokens_ms) == len(side.tokens_ms) == side.answers
        assert side.tokens_per_s == pytest.approx(1e3 / side.token_ms)
        assert side.first_token_ms > 0
        assert side.load_ms > 0
        assert side.memory.peak_bytes > 0
    assert found.rounds == 7
    for comparisons in (found.comparisons, found.first_comparisons):
        assert [(each.first, each.second) for each in comparisons] == [("a", "b")]
    assert {each.subject for each in bench.metrics("tokens_per_s")} == {"a", "b"}


def test_time_limit_leaves_the_rounds_that_a_verdict_needs(bench, decoders):
    sides, prompts = decoders("a")
    rules = GenerateRules(8, 6, rounds=12, time_limit_s=0.0)
    assert run_generate(bench.host, sides, prompts, rules, bench.emit).rounds == 7


def test_side_that_crashes_is_left_out(bench, decoders):
    sides, prompts = decoders("good", "bad")
    bench.when("tokens_per_s", "bad", lambda: bench.kill(1, signal.SIGSEGV))
    good, bad = run_generate(bench.host, sides, prompts, RULES, bench.emit).sides
    assert good.failure is None
    assert good.answers >= RULES.rounds
    assert "SIGSEGV" in bad.failure


def test_more_tokens_than_the_model_takes_are_an_error_with_a_hint(bench, decoders):
    sides, prompts = decoders("a")
    with pytest.raises(TrialError, match="'a' failed") as caught:
        run_generate(bench.host, sides, prompts, GenerateRules(8, CONTEXT), bench.emit)
    assert "ask for fewer tokens" in caught.value.hint
