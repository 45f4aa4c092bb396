"""Decoders: their cache as the state of a stream, `[cache]` of bundles, and `Session.generate`."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

import edgeopt
from edgeopt.backends.base import TensorInfo
from edgeopt.bundle import write
from edgeopt.bundle.cache import found_cache
from edgeopt.bundle.deployment import (
    FILE,
    Cache,
    Deployment,
    Run,
    SourceModel,
    read_deployment,
    tensor_of,
    to_toml,
)
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.runtime.generation import Sampler
from edgeopt.bundle.runtime.stream import Stream
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt.graph.import_proof import SizeLimits
from tests.bundle.runtime.decoder import (
    CACHED,
    GROWN,
    PAIRS,
    VOCABULARY,
    load,
    numpy_logits,
    ports,
    weights,
    write_decoder,
)

pytest.importorskip("onnxruntime")

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
PROMPT = [3, 1, 4, 1, 5]
STEPS = 32


@pytest.fixture
def on_runtime(decoder):
    with load(decoder) as loaded:
        yield loaded


def bundle_of(path, folder, **declared):
    """Writes a bundle of a decoder, with the ports that ONNX Runtime reports."""
    with load(path) as session:
        inputs, outputs = ([tensor_of(each) for each in ports] for ports in (session.inputs, session.outputs))
    deployment = Deployment(
        *("m", "2026-01-01", "1", "any", "A test."),
        source=SourceModel("m.onnx", "0" * 64, 1),
        run=Run("onnxruntime-cpu", "model/m.onnx"),
        inputs=inputs,
        outputs=outputs,
        **declared,
    )
    folder.mkdir()
    write.fill(folder, {"m.onnx": path}, deployment, {})
    return folder


def test_a_bundle_of_a_decoder_declares_its_cache(decoder, tmp_path):
    bundle = bundle_of(decoder, tmp_path / "m.edgeopt")
    text = (bundle / FILE).read_text()
    assert "[cache]" in text
    assert "max_context_tokens" not in text
    assert read_deployment(bundle / FILE).cache == Cache(
        pairs=PAIRS, axis=2, tokens="input_ids", logits="logits", mask="attention_mask", positions="position_ids"
    )


def test_a_declared_cache_stays_as_it_is(decoder, tmp_path):
    cache = Cache(PAIRS, 2, "input_ids", "logits", "attention_mask", "position_ids", max_context_tokens=9)
    bundle = bundle_of(decoder, tmp_path / "m.edgeopt", cache=cache)
    assert read_deployment(bundle / FILE).cache == cache
    with edgeopt.load(bundle) as session:
        generation = session.generate(PROMPT)
        # The last token is not fed again, so there may be one more than the context holds.
        assert len(list(generation)) == 9 - len(PROMPT) + 1
        assert generation.ending == "context"
        with pytest.raises(DataError, match="prompt has 10 tokens; the model takes 9"):
            session.generate(range(10))


def test_the_sizes_that_a_model_was_proved_for_are_its_longest_context():
    inputs = (*integers("input_ids", "attention_mask"), *ports(past_key_values__0__key=CACHED))
    outputs = ports(logits=(None, None, 9), present__0__key=GROWN)
    limits = {"attention_mask": {"1": SizeLimits(1, 512)}, "input_ids": {"1": SizeLimits(1, 64)}}
    assert found_cache(inputs, outputs, limits).max_context_tokens == 512
    assert found_cache(inputs, outputs).max_context_tokens is None


def test_a_bundle_without_a_cache_generates_by_the_names_of_its_ports(decoder, tmp_path):
    bundle = bundle_of(decoder, tmp_path / "m.edgeopt")
    old = msgspec.structs.replace(read_deployment(bundle / FILE), cache=None)
    (bundle / FILE).write_text(to_toml(old))
    write_manifest(bundle)
    with edgeopt.load(bundle) as session:
        assert session.deployment.cache is None
        assert list(session.generate(PROMPT, max_tokens=8)) == greedy(PROMPT, 8)


def integers(*names):
    return tuple(TensorInfo(name, "int64", (None, None)) for name in names)


def greedy(prompt, count):
    """Returns the tokens that numpy continues a prompt with, by the whole sequence in each step."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(numpy_logits(weights(), np.array(ids))[-1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("ids", [PROMPT, [28], np.array(PROMPT, np.int32)], ids=["list", "one", "array"])
def test_greedy_tokens_equal_those_of_the_whole_model_in_numpy(session, ids):
    generation = session.generate(ids, max_tokens=STEPS)
    found = list(generation)
    assert found == greedy(ids, STEPS)
    assert len(set(found)) > 4
    assert generation.ending == "max_tokens"


@pytest.mark.parametrize("made", [{"positions": False}, {"mask": False}, {"sequence": 1}])
def test_a_decoder_without_some_ports_or_with_single_steps_generates_the_same(tmp_path, made):
    with load(write_decoder(tmp_path / "m.onnx", **made)) as session:
        assert list(session.generate(PROMPT, max_tokens=8)) == greedy(PROMPT, 8)


@pytest.mark.parametrize("size", [1, 2, 4, 5, 9])
def test_a_prompt_computed_in_parts_gives_the_same_tokens(session, monkeypatch, size):
    expected = list(session.generate(PROMPT, max_tokens=STEPS))
    fed = []
    run = Stream.step
    monkeypatch.setattr(
        Stream, "step", lambda self, feeds: fed.append(feeds["input_ids"].size) or run(self, feeds)
    )
    generation = session.generate(PROMPT, max_tokens=STEPS, max_step_tokens=size)
    while generation.prefill():
        assert generation.tokens == []
    assert list(generation) == expected
    parts = [len(PROMPT[place : place + size]) for place in range(0, len(PROMPT), size)]
    assert fed == parts + [1] * (STEPS - 1)
    del fed[:]
    assert list(session.generate(PROMPT, max_tokens=STEPS, max_step_tokens=size)) == expected
    assert fed == parts + [1] * (STEPS - 1)


def test_closing_ends_a_generation_between_two_parts_of_its_prompt(session):
    generation = session.generate(PROMPT, max_step_tokens=2)
    assert generation.prefill()
    generation.close()
    assert not generation.prefill()
    assert (list(generation), generation.ending) == ([], "closed")


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    write_decoder(tmp_path / "decoder.onnx")
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text().partition("### Generating tokens")[2]
    example = re.search(r"^```text\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)[1]
    exec(compile(example, str(PAGE), "exec"), {"edgeopt": edgeopt})  # noqa: S102 - the page's own code
    whole = greedy([3, 1, 4, 1, 5], 8)
    wanted = [*whole[: whole.index(2)], "stop"] if 2 in whole else [*whole, "max_tokens"]
    assert capsys.readouterr().out.split() == [str(each) for each in wanted]


def test_a_decoder_in_a_worker_process_generates_the_same(decoder):
    with edgeopt.load(decoder, "onnxruntime-cpu", isolate=True) as session:
        assert list(session.generate(PROMPT, max_tokens=8)) == greedy(PROMPT, 8)


def test_a_stop_token_ends_the_generation_and_is_left_out(session):
    whole = greedy(PROMPT, STEPS)
    stop = whole[5]
    generation = session.generate(PROMPT, max_tokens=STEPS, stop=(VOCABULARY + 1, stop))
    assert list(generation) == whole[: whole.index(stop)]
    assert generation.ending == "stop"
    assert list(generation) == []


def test_closing_ends_a_generation_and_leaves_others_alone(on_runtime):
    first, second = on_runtime.generate(PROMPT), on_runtime.generate(PROMPT)
    whole = greedy(PROMPT, 4)
    assert [next(first), next(second), next(second)] == [whole[0], *whole[:2]]
    first.close()
    assert (list(first), first.ending) == ([], "closed")
    assert [next(second), next(second)] == whole[2:]


def test_a_seed_repeats_the_draws(session):
    def drawn(seed):
        return list(session.generate(PROMPT, max_tokens=STEPS, temperature=2.0, top_k=9, top_p=0.95, seed=seed))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1) != greedy(PROMPT, STEPS)


def test_one_candidate_leaves_the_most_likely_token(on_runtime):
    for narrow in ({"top_k": 1}, {"top_p": 1e-9}):
        found = on_runtime.generate(PROMPT, max_tokens=8, temperature=5.0, seed=1, **narrow)
        assert list(found) == greedy(PROMPT, 8)


SCORES = np.log(np.array([0.1, 0.4, 0.0001, 0.3, 0.1999], np.float32))


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({}, [0.1, 0.4, 0.0001, 0.3, 0.1999]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7, 0]),
        ({"top_p": 0.6}, [0, 4 / 7, 0, 3 / 7, 0]),
        ({"top_k": 3, "top_p": 0.5}, [0, 4 / 7, 0, 3 / 7, 0]),
        ({"temperature": 0.5}, np.exp(2 * SCORES) / np.exp(2 * SCORES).sum()),
    ],
)
def test_tokens_are_drawn_as_often_as_their_probability(settings, shares):
    sampler = Sampler(**{"temperature": 1.0, **settings}, seed=3)
    count = 4000
    found = np.bincount([sampler.choose(SCORES) for _ in range(count)], minlength=len(SCORES)) / count
    np.testing.assert_allclose(found, shares, atol=0.03)
    assert not found[np.array(shares) == 0].any()


@pytest.mark.parametrize("wrong", [[1, np.nan, 2], [1, np.inf], [-np.inf, -np.inf]])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_that_are_not_numbers_are_refused(wrong, temperature):
    with pytest.raises(ModelError, match="not finite"):
        Sampler(temperature).choose(np.array(wrong, np.float32))
    assert Sampler(temperature).choose(np.array([-np.inf, 1, -np.inf], np.float32)) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"temperature": -1}, "'temperature' cannot be -1"),
        ({"temperature": float("nan")}, "'temperature' cannot be nan"),
        ({"top_k": -1}, "'top_k' cannot be -1"),
        ({"top_p": 0}, "'top_p' cannot be 0"),
        ({"top_p": 1.5}, "'top_p' cannot be 1.5"),
        ({"max_tokens": 0}, "cannot generate 0 tokens"),
        ({"max_step_tokens": 0}, "cannot take 0 tokens"),
    ],
)
def test_wrong_settings_are_refused_before_the_first_step(on_runtime, settings, says):
    with pytest.raises(UsageError, match=says):
        on_runtime.generate(PROMPT, **settings)


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([], "at least one"),
        ([[1, 2]], "list of token ids"),
        ([0.5], "list of token ids"),
        ([1, -1], "no token -1"),
    ],
)
def test_wrong_prompts_are_refused(session, ids, says):
    with pytest.raises(DataError, match=says):
        session.generate(ids)


def test_an_id_outside_of_the_vocabulary_is_refused(session):
    with pytest.raises(DataError, match="no token 29: the vocabulary has 29 tokens"):
        session.generate([1, VOCABULARY])


@pytest.mark.parametrize(
    ("taken", "given", "says"),
    [
        ({}, {"logits": (None, None, 9)}, r"no input 'past_key_values.N.key' has an output 'present.N.key'"),
        ({"past_key_values__0__key": CACHED}, {"present__0__key": GROWN}, "no output 'logits'"),
        (
            {"past_key_values__0__key": (1, 2, 64, 8)},
            {"present__0__key": (1, 2, 64, 8), "logits": (None, None, 9)},
            "fixed or ambiguous",
        ),
    ],
)
def test_what_is_missing_of_a_cache_is_named(taken, given, says):
    with pytest.raises(UsageError, match=says) as caught:
        found_cache((*integers("input_ids"), *ports(**taken)), ports(**given))
    assert "[cache]" in caught.value.hint


def test_a_cache_without_token_ids_is_named():
    cached = ports(inputs_embeds=(None, None, 8), past_key_values__0__key=CACHED)
    with pytest.raises(UsageError, match="no input 'input_ids' of integers"):
        found_cache(cached, ports(logits=(None, None, 9), present__0__key=GROWN))


def test_a_model_without_a_cache_says_what_is_missing(conv_model):
    with edgeopt.load(conv_model) as session, pytest.raises(UsageError, match="no cache that can be used"):
        session.generate(PROMPT)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mask": "padding"}, "declares the input 'padding'"),
        ({"logits": "scores"}, "declares the output 'scores'"),
        ({"positions": ""}, "also takes 'position_ids', which .cache. does not declare"),
        ({"pairs": {**PAIRS, "past": "present"}}, "no input 'past'"),
    ],
)
def test_a_declaration_that_does_not_fit_the_model_is_refused(decoder, tmp_path, changes, says):
    fields = {"pairs": PAIRS, "axis": 2, "tokens": "input_ids", "logits": "logits"}
    cache = Cache(**{**fields, "mask": "attention_mask", "positions": "position_ids", **changes})
    bundle = bundle_of(decoder, tmp_path / "m.edgeopt", cache=cache)
    with edgeopt.load(bundle) as session, pytest.raises(UsageError, match=says):
        session.generate(PROMPT)


@pytest.mark.parametrize("axis", [-1, 0, 4])
def test_an_axis_that_the_cache_does_not_have_is_refused(decoder, tmp_path, axis):
    cache = Cache(PAIRS, axis, "input_ids", "logits", "attention_mask", "position_ids")
    with edgeopt.load(bundle_of(decoder, tmp_path / "m.edgeopt", cache=cache)) as session:
        generation = session.generate(PROMPT)
        with pytest.raises(UsageError, match=f"has no axis {axis} that could grow"):
            next(generation)


def test_a_closed_session_does_not_generate(decoder):
    session = load(decoder)
    generation = session.generate(PROMPT)
    next(generation)
    session.close()
    for each in (lambda: next(generation), lambda: session.generate(PROMPT)):
        with pytest.raises(UsageError, match="closed"):
            each()
