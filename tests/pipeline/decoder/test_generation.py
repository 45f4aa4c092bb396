from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.bundle.deployment import Cache
from edgeopt.bundle.runtime.stream import Stream
from edgeopt.data.judging.goals import goal_from
from edgeopt.data.samples import Samples, save_samples
from edgeopt.errors import ModelError, TrialError
from edgeopt.measure.messages import Decode, Decoded, Generate
from edgeopt.measure.trials import decoding
from edgeopt.measure.trials.decoding import FEWEST_TOKENS, FULL, decode, generate
from edgeopt.pipeline.decoder.generation import (
    GenerationRun,
    GenerationTask,
    chance_of_loops,
    check_source,
    is_loop,
    prove_generation,
    run_generation,
)
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.views.outcome import _generated
from edgeopt.workers.host import LocalHost
from tests.bundle.runtime.decoder import (
    HEADS,
    PAIRS,
    VOCABULARY,
    WIDTH,
    numpy_logits,
    scripted_weights,
    weights,
    write_decoder,
)
from tests.pipeline.decoder.conftest import drown_head, roll_cache

CACHE = Cache(PAIRS, 2, "input_ids", "logits", "attention_mask", "position_ids", 64)
PROMPT, LENGTH = 8, 14
TEXTS = tuple(map(tuple, np.random.default_rng(3).integers(0, VOCABULARY, (6, LENGTH)).tolist()))


@pytest.fixture
def run(tmp_path):
    """Returns the function that starts a trial of a decoder and runs the texts, or proves it."""
    one = {name: np.zeros((1, 1, 1), np.int64) for name in ("input_ids", "position_ids")}
    one["attention_mask"] = np.ones((1, 1, 2), np.int64)
    one |= {name: np.zeros((1, 1, HEADS, 1, WIDTH), np.float32) for name in PAIRS}
    save_samples(Samples(one, {name: array.ndim - 1 for name, array in one.items()}), tmp_path / "samples")
    runner = TrialRunner(LocalHost(tmp_path), tmp_path, tmp_path / "samples")

    def start(path, backend="onnxruntime-cpu", source=None, snr_db=40.0, limit_s=None):
        contender = runner.enter("one", backend, path)
        try:
            if source is None:
                return run_generation(contender, CACHE, TEXTS, PROMPT, tmp_path, limit_s=limit_s)
            task = GenerationTask(CACHE, TEXTS, PROMPT, source)
            return prove_generation(contender, task, goal_from("kl"), snr_db, tmp_path, limit_s)
        finally:
            contender.close()

    return start


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_a_sound_decoder_agrees_with_itself_in_every_form_and_with_numpy(run, decoder, backend):
    pytest.importorskip(backend.removesuffix("-cpu"))
    found = run(decoder, backend)
    assert check_source(found) == "" or backend == "openvino-cpu"  # which may compute in fewer bits
    for text, logits in zip(TEXTS, found.of(FULL), strict=False):
        expected = numpy_logits(weights(), list(text))[PROMPT:]
        np.testing.assert_allclose(logits["logits"], expected, atol=1e-3 if backend == "onnxruntime-cpu" else 0.5)
    assert {len(tokens) for tokens in found.decoded.generated} == {64 - PROMPT}


def test_the_proof_of_a_sound_decoder_has_the_lowest_step_of_each_form(run, decoder):
    proof = run(decoder, source=run(decoder), snr_db=130.0)
    assert set(proof.lowest_db) == {"cached", "chunked", "padded"}
    assert min(proof.lowest_db.values()) >= 90
    assert (proof.steps, proof.prompts, proof.same_tokens) == (LENGTH - PROMPT, 6, 6 * (64 - PROMPT))
    assert proof.loops == proof.source_loops


@pytest.mark.parametrize("short", ["bundle", "source"])
def test_with_little_time_fewer_tokens_are_compared_and_the_proof_says_so(run, decoder, short):
    source = run(decoder, limit_s=0.0 if short == "source" else None)
    assert source.seconds > 0
    proof = run(decoder, source=source, limit_s=0.0 if short == "bundle" else 600.0)
    assert (proof.greedy_tokens, proof.most_tokens) == (FEWEST_TOKENS, 64 - PROMPT)
    assert (proof.same_prompts, proof.same_tokens) == (6, 6 * FEWEST_TOKENS)
    assert proof.loops == proof.source_loops
    assert f"{FEWEST_TOKENS} tokens (of {64 - PROMPT}, for lack of time) after" in _generated(proof, False)


def test_prompts_one_at_a_time_share_what_is_left(monkeypatch):
    now_s = iter([0.0, 10.0, 40.0])
    monkeypatch.setattr(decoding, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    assert list(decoding._shares(60.0, 3)) == [20.0, 35.0, 60.0]


def test_a_cache_shifted_by_one_position_is_refused(run, decoder, tmp_path):
    source = run(decoder)
    shifted = roll_cache(write_decoder(tmp_path / "shifted.onnx"))
    assert "other logits with its cache than without it" in check_source(run(shifted))
    with pytest.raises(TrialError, match="steps agree with a full run to"):
        run(shifted, source=source, snr_db=130.0)
    with pytest.raises(TrialError, match="steps diverge from the source by"):
        run(shifted, source=source, snr_db=40.0)


def test_a_head_quantized_to_noise_is_refused(run, decoder, tmp_path):
    noisy = drown_head(write_decoder(tmp_path / "noisy.onnx"), 1.0)
    with pytest.raises(TrialError, match="diverge from the source by"):
        run(noisy, source=run(decoder))


def test_a_state_that_begins_at_length_one_is_refused(tmp_path, monkeypatch):
    # Without a mask nothing else tells that there is a token too many.
    path = write_decoder(tmp_path / "model.onnx", mask=False, positions=False)
    cache = msgspec.structs.replace(CACHE, mask="", positions="")

    def one_token(_stream, feeds):
        return {name: np.zeros((len(feeds["input_ids"]), HEADS, 1, WIDTH), np.float32) for name in PAIRS}

    def problem():
        session = backend_named("onnxruntime-cpu").load(path, {})
        decoded = decode(session, Decode(cache, TEXTS, PROMPT, 4, str(tmp_path / "out.npz")))
        with np.load(tmp_path / "out.npz") as archive:
            return check_source(GenerationRun({name: archive[name] for name in archive.files}, decoded))

    assert problem() == ""
    monkeypatch.setattr(Stream, "_first", one_token)
    assert "other logits with its cache than without it" in problem()


@pytest.mark.parametrize(
    ("tokens", "looped"),
    [
        ([5] * 24, True),
        ([1, 2, 3] * 8, True),
        ([*range(40), *[7, 8] * 12], True),
        (list(range(64)), False),
        ([5] * 9, False),
    ],
)
def test_loops(tokens, looped):
    assert is_loop(tokens) is looped


@pytest.mark.parametrize(
    ("looped", "source_looped", "chance"),
    [
        ("................", "................", 1),
        ("#...............", "................", 1 / 2),
        ("#...............", ".#..............", 3 / 4),
        (".#..............", "................", 1 / 2),
        ("#####...........", "................", 1 / 32),
        ("######..........", ".....##.........", 1 / 64 + 6 / 64),
        ("################", "................", 1 / 2**16),
        ("................", "################", 1),
    ],
)
def test_the_chance_of_new_loops_is_that_of_a_sign_test(looped, source_looped, chance):
    both = ([sign == "#" for sign in signs] for signs in (looped, source_looped))
    assert chance_of_loops(*both) == pytest.approx(chance)


def test_a_batch_of_prompts_is_continued_as_each_alone(decoder, tmp_path, monkeypatch):
    session = backend_named("onnxruntime-cpu").load(decoder, {})

    def generated(texts):
        return decode(session, Decode(CACHE, texts, PROMPT, 12, str(tmp_path / "out.npz"))).generated

    alone = [
        decode(session, Decode(CACHE, (text,), PROMPT, 12, str(tmp_path / "out.npz"))).generated[0]
        for text in TEXTS
    ]
    assert list(generated(TEXTS)) == alone
    monkeypatch.setattr("edgeopt.measure.trials.decoding._LARGEST_LOGITS_BYTES", 0)  # prompts token by token
    assert list(generated(TEXTS)) == alone


def test_first_token_includes_the_whole_prompt(decoder, monkeypatch):
    monkeypatch.setattr("edgeopt.measure.trials.decoding._LARGEST_LOGITS_BYTES", 0)  # one token would exceed it
    session = backend_named("onnxruntime-cpu").load(decoder, {})
    lengths, step = [], Stream.step

    def count_tokens(stream, feeds):
        lengths.append(feeds["input_ids"].shape[1])
        return step(stream, feeds)

    monkeypatch.setattr(Stream, "step", count_tokens)
    first_ms, token_ms = generate(session, Generate(CACHE, (TEXTS[0][:PROMPT],), 0, 4, 0.0))
    assert lengths == [PROMPT, 1, 1, 1]
    assert (len(first_ms), len(token_ms)) == (1, 1)


def test_a_runtime_that_takes_no_batch_generates_after_each_prompt_alone(run, decoder, tmp_path, monkeypatch):
    """OpenVINO refused a bundle with grouped attention for a batch, which its source does not need."""
    session = backend_named("onnxruntime-cpu").load(decoder, {})
    texts = (*TEXTS, *TEXTS)
    together = decode(session, Decode(CACHE, texts, PROMPT, 12, str(tmp_path / "out.npz"))).generated

    class One:
        inputs, outputs = session.inputs, session.outputs

        def run(self, feeds):
            if len(feeds["input_ids"]) > 1:
                raise ModelError("OpenVINO could not run the model: Reshape_14767")
            return session.run(feeds)

    found = decode(One(), Decode(CACHE, texts, PROMPT, 12, str(tmp_path / "out.npz")))
    assert found.generated == together[:6]
    source = run(decoder)
    many = msgspec.structs.replace(source.decoded, generated=source.decoded.generated * 2)
    proof = run(decoder, source=source._replace(decoded=many), snr_db=130.0)
    assert (proof.prompts, proof.same_prompts, proof.is_alone) == (6, 6, True)


def test_new_loops_are_refused(run, tmp_path):
    path = write_decoder(tmp_path / "looping.onnx", held=scripted_weights({k: k for k in range(29)}, VOCABULARY))
    source = run(path)
    assert all(map(is_loop, source.decoded.generated))
    assert run(path, source=source, snr_db=130.0).loops == len(TEXTS)
    once = Decoded((*source.decoded.generated[1:], tuple(range(56))), 1.0, 1.0)
    assert run(path, source=source._replace(decoded=once), snr_db=130.0).loops == len(TEXTS)
    calm = Decoded(tuple(tuple(range(56)) for _ in TEXTS), 1.0, 1.0)
    with pytest.raises(TrialError, match=r"loops after 6 of 6 prompts, the source.s after 0"):
        run(path, source=source._replace(decoded=calm), snr_db=130.0)
