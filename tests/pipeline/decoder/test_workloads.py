from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.runtime.generation import DecoderPorts
from edgeopt.errors import UsageError
from edgeopt.measure.trial import ROTATION
from edgeopt.pipeline.decoder.workloads import GOLDEN_STEPS, decoder_data, decoder_in, settings_for
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.profiles.targets import profile_for
from edgeopt.workers.host import LocalHost
from tests.bundle.runtime.decoder import HEADS, PAIRS, VOCABULARY, WIDTH, numpy_logits, weights
from tests.conftest import this_device

PROMPT, NEW = 12, 6


def facts(**changed):
    integers = [TensorInfo(name, "int64", ("b", "s")) for name in ("input_ids", "attention_mask", "position_ids")]
    states = [TensorInfo(name, "float32", ("b", HEADS, "past", WIDTH)) for name in PAIRS]
    grown = [TensorInfo(name, "float32", ("b", HEADS, "total", WIDTH)) for name in PAIRS.values()]
    logits = TensorInfo("logits", "float32", ("b", "s", VOCABULARY))
    return SimpleNamespace(**{"inputs": (*integers, *states), "outputs": (logits, *grown), **changed})


def request(model, **options):
    return OptimizeRequest(model, model.with_suffix(".edgeopt"), prompt_tokens=PROMPT, new_tokens=NEW, **options)


@pytest.fixture
def made(decoder, tmp_path):
    def make(objective="tokens-per-second"):
        runner = TrialRunner(LocalHost(tmp_path), tmp_path, tmp_path / "samples")
        profile = profile_for(this_device(), "generic-cpu", None)
        return decoder_data(request(decoder, objective=objective), decoder_in(facts(), {}), profile, runner)

    return make


def test_a_decode_step_is_one_token_after_a_growing_cache(made):
    found = made()
    feeds = [found.samples.feeds(k) for k in range(ROTATION)]
    assert {each["input_ids"].shape for each in feeds} == {(1, 1)}
    lengths = [each["past_key_values.0.key"].shape[2] for each in feeds]
    assert (lengths[0], lengths[-1]) == (PROMPT, PROMPT + NEW - 1)
    assert lengths == sorted(lengths)
    assert [each["attention_mask"].shape[1] for each in feeds] == [length + 1 for length in lengths]
    assert [int(each["position_ids"][0, 0]) for each in feeds] == lengths


def test_a_prefill_is_a_prompt_with_an_empty_cache(made):
    found = made("first-token")
    feeds = [found.samples.feeds(k) for k in range(ROTATION)]
    assert {each["input_ids"].shape for each in feeds} == {(1, PROMPT)}
    assert {each["past_key_values.0.key"].shape for each in feeds} == {(1, HEADS, 0, WIDTH)}


def test_samples_that_judge_are_no_timed_texts_and_their_caches_are_those_of_the_text(made):
    found = made()
    split = found.split
    assert split.check_first == ROTATION
    assert split.prove_first + split.prove_count == len(found.samples)
    assert split.prove_count > GOLDEN_STEPS
    chunk = found.samples.feeds(split.prove_first + (split.check_count + 1) % 2)
    held = weights()
    proving = found.prompts[: split.prove_count - GOLDEN_STEPS]
    text = next(row for row in proving if list(row[PROMPT:]) == chunk["input_ids"][0].tolist())
    x = held["tokens"][list(text)] + held["places"][: len(text)]
    keys = (x @ held["key"]).reshape(len(text), HEADS, WIDTH).transpose(1, 0, 2)[:, :PROMPT]
    np.testing.assert_allclose(chunk["past_key_values.0.key"][0], keys, atol=1e-4)
    assert numpy_logits(held, list(text)).shape == (PROMPT + NEW, VOCABULARY)


def test_a_decoder_gets_its_own_goal_and_objective(decoder):
    model = decoder_in(facts(), {})
    assert isinstance(model.ports, DecoderPorts)
    found = settings_for(request(decoder), model)
    assert found.objective == "tokens-per-second"
    assert (found.goal.floor, found.goal.floor_top1) == (0.02, 0.93)
    kept = settings_for(request(decoder, floor="30dB", objective="first-token"), model)
    assert (kept.objective, kept.goal.is_ratio) == ("first-token", True)


def test_objectives_of_decoders_are_refused_for_other_models(decoder):
    with pytest.raises(UsageError, match="needs a decoder with a cache"):
        settings_for(request(decoder, objective="first-token"), None)
    with pytest.raises(UsageError, match="one text at a time"):
        settings_for(request(decoder, objective="throughput"), decoder_in(facts(), {}))


def test_models_without_a_usable_cache_are_no_decoders():
    assert decoder_in(facts(outputs=facts().outputs[:1]), {}) is None
    more = (*facts().inputs, TensorInfo("encoder_hidden_states", "float32", ("b", "s", 8)))
    assert decoder_in(facts(inputs=more), {}) is None


def test_a_text_longer_than_the_context_is_refused(decoder, tmp_path):
    model = decoder_in(facts(), {})
    model = model._replace(cache=msgspec.structs.replace(model.cache, max_context_tokens=16))
    profile = profile_for(this_device(), "generic-cpu", None)
    with pytest.raises(UsageError, match="more than the context of the model, 16 tokens"):
        decoder_data(request(decoder), model, profile, TrialRunner(LocalHost(tmp_path), tmp_path, tmp_path / "s"))
