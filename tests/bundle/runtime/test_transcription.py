"""Speech in, text out: windows, languages, excluded tokens, and bundles with an encoder."""

import hashlib
import shutil

import numpy as np
import onnx
import pytest

import edgeopt
from edgeopt.bundle import write
from edgeopt.bundle.deployment import FILE, read_deployment
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.request import ReplayRequest
from edgeopt.bundle.runtime.check import check
from edgeopt.bundle.runtime.stream import Stream
from edgeopt.bundle.runtime.transcription import windows
from edgeopt.bundle.sign import load_public_key, new_key, sign_bundle
from edgeopt.errors import BundleError, DataError, ModelError, UsageError, VerificationError
from edgeopt.events import ignore
from edgeopt.pipeline.replay import replay
from tests.bundle.runtime.decoder import write_decoder
from tests.bundle.runtime.speech import (
    END_ID,
    HIGH,
    HIGH_HZ,
    LOW,
    LOW_HZ,
    NOISE_ID,
    RATE_HZ,
    WINDOW_S,
    tone,
    write_speech,
    write_wav,
)
from tests.bundle.runtime.test_generation import bundle_of

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

GIVEN = ["past_key_values.0.encoder.key", "past_key_values.0.encoder.value"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_speech(tmp_path_factory.mktemp("speech") / "m.onnx")


@pytest.fixture
def session(model):
    with edgeopt.load(model, "onnxruntime-cpu") as loaded:
        yield loaded


def names_of(session, ids):
    return [session.tokenizer._encoder.id_to_token(each) for each in ids]


@pytest.mark.parametrize(("hz", "text", "language"), [(LOW_HZ, LOW, "en"), (HIGH_HZ, HIGH, "de")])
def test_the_text_of_a_file_comes_in_pieces_in_the_detected_language(session, tmp_path, hz, text, language):
    found = session.transcribe(write_wav(tmp_path / "a.wav", tone(hz, 3)))
    assert found.language is None
    pieces = list(found)
    assert "".join(pieces) == found.text == text
    assert len(pieces) > 3
    assert (found.ending, found.language, found.audio_s) == ("stop", language, 3)
    assert session.tokenizer.decode(found.tokens).strip() == text
    assert found.first_token_s > 0
    assert list(found) == []


@pytest.mark.parametrize("rate_hz", [8000, 44_100])
def test_a_file_of_another_rate_has_the_same_text(session, tmp_path, rate_hz):
    samples = np.interp(np.arange(2 * rate_hz) / rate_hz, np.arange(2 * RATE_HZ) / RATE_HZ, tone(LOW_HZ, 2))
    assert "".join(session.transcribe(write_wav(tmp_path / "a.wav", samples, rate_hz))) == LOW


def test_the_prompt_names_language_and_task(session):
    found = session.transcribe(tone(LOW_HZ, 1), language="de", task="translate")
    list(found)
    named = names_of(session, found.prompt_tokens)
    assert named == ["<|startoftranscript|>", "<|de|>", "<|translate|>", "<|notimestamps|>"]
    assert found.language == "de"


def test_excluded_tokens_are_not_generated(tmp_path):
    model = write_speech(tmp_path / "m.onnx", suppress_tokens=None, begin_suppress_tokens=None)
    with edgeopt.load(model, "onnxruntime-cpu") as session:
        first = next(iter(session.transcribe(tone(LOW_HZ, 1), max_tokens=1)))
        assert first == session.tokenizer.decode([NOISE_ID])
    settings = model.with_suffix(".text") / "generation_config.json"
    settings.write_text(
        settings.read_text().replace('"suppress_tokens": null', f'"suppress_tokens": [{NOISE_ID}]', 1)
    )
    with edgeopt.load(model, "onnxruntime-cpu") as session:
        ended = session.transcribe(tone(LOW_HZ, 1))
        assert (list(ended), ended.ending, ended.tokens) == ([], "stop", [])
        assert END_ID in session.tokenizer.stop_ids


def test_long_audio_is_cut_where_it_is_quiet_and_encoded_once_a_window(session):
    silence = np.zeros(RATE_HZ // 5, np.float32)
    audio = np.concatenate([tone(LOW_HZ, 6.5), silence, tone(HIGH_HZ, 5), silence, tone(LOW_HZ, 3)])
    runs, run = [], session.encoder.run

    def counted(feeds):
        runs.append(feeds["input_features"].shape)
        return run(feeds)

    session.encoder.run = counted
    found = session.transcribe(audio)
    assert "".join(found) == f"{LOW}{HIGH} {LOW}"
    assert runs == [(1, 80, 100 * WINDOW_S)] * 3
    assert found.language == "en"  # that of the first window
    assert len(found.tokens) == 17
    assert (found.ending, found.audio_s) == ("stop", pytest.approx(14.9))


def test_windows_are_parts_of_the_audio_in_order():
    audio = np.random.default_rng(0).standard_normal(20 * RATE_HZ).astype(np.float32)
    audio[7 * RATE_HZ : int(7.1 * RATE_HZ)] = 0
    found = windows(audio, WINDOW_S * RATE_HZ, RATE_HZ)
    assert np.array_equal(np.concatenate(found), audio)
    assert len(found[0]) == int(7.05 * RATE_HZ)
    assert all(3 <= len(each) / RATE_HZ <= WINDOW_S for each in found[:-1])
    assert [len(each) for each in windows(audio[: WINDOW_S * RATE_HZ], WINDOW_S * RATE_HZ, RATE_HZ)] == [128_000]


def test_tokens_are_limited_over_all_windows_and_by_the_context(session, tmp_path):
    found = session.transcribe(tone(LOW_HZ, WINDOW_S + 4), max_tokens=8)
    assert "".join(found) == f"{LOW} The cat"
    assert (found.ending, len(found.tokens)) == ("max_tokens", 8)
    endless = write_speech(tmp_path / "m.onnx", endless=True)
    with edgeopt.load(endless, "onnxruntime-cpu") as other:
        found = other.transcribe(tone(LOW_HZ, 1))
        list(found)
        assert (found.ending, len(found.tokens)) == ("context", 48 - 4 + 1)


def test_closing_ends_the_text(session):
    found = session.transcribe(tone(LOW_HZ, 2))
    first = next(found)
    found.close()
    assert (list(found), found.text, found.ending, len(found.tokens)) == ([], first, "closed", 1)
    assert session.transcribe(tone(LOW_HZ, 2)).ending == ""


def test_a_model_of_english_alone_has_no_language_in_its_prompt(tmp_path):
    with edgeopt.load(write_speech(tmp_path / "m.onnx", multilingual=False), "onnxruntime-cpu") as session:
        found = session.transcribe(tone(LOW_HZ, 1), language="en")
        assert "".join(found) == LOW
        assert names_of(session, found.prompt_tokens) == ["<|startoftranscript|>", "<|notimestamps|>"]
        with pytest.raises(UsageError, match="English alone"):
            session.transcribe(tone(LOW_HZ, 1), task="translate")


def test_draws_are_repeatable(session):
    texts = ["".join(session.transcribe(tone(LOW_HZ, 1), temperature=30, seed=s, max_tokens=6)) for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_worker_processes_transcribe_the_same_text(model):
    with edgeopt.load(model, "onnxruntime-cpu", isolate=True) as session:
        assert "".join(session.transcribe(tone(LOW_HZ, 1))) == LOW
        assert session.encoder.memory_bytes


@pytest.mark.parametrize(
    ("audio", "keywords", "error", "says"),
    [
        (np.zeros(0, np.float32), {}, DataError, "has no audio samples"),
        ("missing.wav", {}, DataError, "No such file"),
        (tone(LOW_HZ, 1), {"language": "es"}, UsageError, "no language 'es'"),
        (tone(LOW_HZ, 1), {"task": "sing"}, UsageError, "no task 'sing'"),
        (tone(LOW_HZ, 1), {"max_tokens": 0}, UsageError, "cannot generate 0 tokens"),
        (tone(LOW_HZ, 1), {"temperature": -1}, UsageError, "'temperature' cannot be -1"),
    ],
)
def test_wrong_audio_and_settings_are_refused_before_the_first_step(session, audio, keywords, error, says):
    with pytest.raises(error, match=says) as caught:
        session.transcribe(audio, **keywords)
    assert caught.value.hint
    if "language" in keywords:
        assert caught.value.hint == "It has: de, en."


def test_models_without_what_speech_needs_say_so(session, model, tmp_path):
    with pytest.raises(UsageError, match="does not continue a prompt") as caught:
        session.generate([1, 2])
    assert "session.transcribe" in caught.value.hint
    with (
        edgeopt.load(write_decoder(tmp_path / "m.onnx")) as other,
        pytest.raises(UsageError, match="takes no audio: it has no encoder"),
    ):
        other.transcribe(tone(LOW_HZ, 1))
    shutil.copy(model.with_suffix(".encoder.onnx"), tmp_path / "m.encoder.onnx")
    shutil.copytree(model.with_suffix(".text"), tmp_path / "m.text")
    with edgeopt.load(tmp_path / "m.onnx") as other, pytest.raises(UsageError, match="does not take audio"):
        other.transcribe(tone(LOW_HZ, 1))
    old = write_speech(tmp_path / "old.onnx", lang_to_id={})
    with edgeopt.load(old) as other, pytest.raises(ModelError, match="no 'lang_to_id'"):
        other.transcribe(tone(LOW_HZ, 1))


def test_a_closed_session_ends_its_encoder(model):
    with edgeopt.load(model, "onnxruntime-cpu") as session:
        encoder = session.encoder
    for each in (session, encoder):
        with pytest.raises(UsageError, match="closed"):
            each.run({})
    with pytest.raises(UsageError, match="closed"):
        session.transcribe(tone(LOW_HZ, 1))


def test_a_stream_feeds_given_arrays_as_they_are(session):
    given = session.encoder.run(np.zeros((1, 80, 5), np.float32))
    fed = []

    def run(feeds):
        fed.append(feeds)
        return session.run(feeds)

    stream = Stream(run, session.inputs, session.outputs, None, None, session._cache(), given)
    for _ in range(2):
        stream.step(np.array([[3]]))
    assert all(feeds[name] is given[name] for feeds in fed for name in GIVEN)


def speech_bundle(model, folder):
    """Writes a bundle of the decoder with its tokenizer and the bundle of its encoder."""
    encoder = bundle_of(model.with_suffix(".encoder.onnx"), folder.with_name("encoder.edgeopt"))
    random = np.random.default_rng(0).standard_normal
    feeds = {"input_features": random((1, 80, 7)).astype(np.float32)}
    with edgeopt.load(encoder) as session:
        outputs = session.run(feeds)
    write.write_golden_runs(encoder, [feeds], [outputs], [outputs])
    write_manifest(encoder)
    bundle_of(model, folder)
    past = {f"past_key_values.0.decoder.{part}": np.zeros((1, 1, 0, 1), np.float32) for part in ("key", "value")}
    feeds = {"input_ids": np.array([[3, 4]]), **past, **outputs}
    with edgeopt.load(folder) as session:
        outputs = session.run(feeds)
    write.write_golden_runs(folder, [feeds], [outputs], [outputs])
    write.put_text(folder, model)
    write.put_encoder(folder, read_bundle(encoder))
    write_manifest(folder)
    shutil.rmtree(encoder)
    return folder


@pytest.fixture
def bundle(model, tmp_path):
    return speech_bundle(model, tmp_path / "m.edgeopt")


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_the_content_of_a_file_is_transcribed_like_the_file(session, tmp_path, kind):
    content = write_wav(tmp_path / "a.wav", tone(LOW_HZ, 1), 44_100).read_bytes()
    expected = "".join(session.transcribe(tmp_path / "a.wav"))
    assert "".join(session.transcribe(kind(content))) == expected
    with pytest.raises(DataError, match="'AUDIO' is not a WAV file"):
        session.transcribe(kind(b"ID3"))


def test_time_to_the_first_token_has_every_run_before_it(tmp_path, monkeypatch):
    model = write_speech(tmp_path / "m.onnx")
    decoder = onnx.load(model)
    decoder.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(decoder, model)
    with edgeopt.load(model, "onnxruntime-cpu") as session:
        found = session.transcribe(tone(LOW_HZ, 1))
        for _ in range(3):  # of 4 tokens of the prompt
            assert (found.step(), found.first_token_s) == ("", None)
        before_s = found._prompt_s
        found.step()
        assert found.first_token_s > before_s > 0
        assert found.text + "".join(found) == LOW


def test_a_bundle_transcribes_with_its_encoder(bundle):
    assert read_deployment(bundle / FILE).cache.given == GIVEN
    with edgeopt.load(bundle) as session:
        assert "".join(session.transcribe(tone(HIGH_HZ, 1))) == HIGH


def test_a_bundle_as_one_file_transcribes_too(bundle, tmp_path):
    write.publish(bundle, tmp_path / "one.edgeopt", single_file=True)
    with edgeopt.load(tmp_path / "one.edgeopt") as session:
        assert "".join(session.transcribe(tone(LOW_HZ, 1))) == LOW


def test_check_says_that_a_signature_of_the_encoder_alone_was_not_checked(bundle, tmp_path):
    pytest.importorskip("cryptography")
    assert "signature" not in check(bundle, ignore).encoder
    made = new_key(tmp_path / "key")
    for folder in (bundle / "encoder", bundle):
        write_manifest(folder)
        sign_bundle(folder, tmp_path / "key")
    found = check(bundle, ignore, [load_public_key(tmp_path / made.public_key_file)])
    assert found.trusted
    assert found.encoder.endswith("The encoder has a signature of its own, which was not checked.")


def test_verifying_a_bundle_covers_the_encoder(bundle):
    found = check(bundle, ignore)
    assert found.encoder.startswith("Golden samples of the encoder: ")
    for name in ("outputs", "reference"):
        wrong = bundle / "encoder" / "golden" / f"{name}.npz"
        with np.load(wrong) as archive:
            arrays = {port: -array for port, array in archive.items()}
        np.savez(wrong, **arrays)
    with pytest.raises(BundleError, match=r"encoder/golden/\w+\.npz was changed"):
        check(bundle, ignore)
    write_manifest(bundle / "encoder")
    write_manifest(bundle)
    with pytest.raises(VerificationError, match="The bundle 'encoder' reaches"):
        check(bundle, ignore)


def test_a_replayed_bundle_keeps_the_encoder(model, bundle, tmp_path):
    profile = bundle / FILE
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    profile.write_text(profile.read_text().replace("0" * 64, digest))
    write_manifest(bundle)
    replay(ReplayRequest(bundle, model, tmp_path / "again.edgeopt"))
    with edgeopt.load(tmp_path / "again.edgeopt") as session:
        assert "".join(session.transcribe(tone(LOW_HZ, 1))) == LOW


@pytest.mark.parametrize("name", ["model/m.onnx", "deployment.toml", "manifest.json"])
def test_damage_of_the_encoder_is_found(bundle, name):
    file = bundle / "encoder" / name
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(BundleError, match=f"encoder/{name} was changed"):
        edgeopt.load(bundle)


def test_an_encoder_of_another_model_is_refused(model, bundle, tmp_path):
    shutil.rmtree(bundle / "encoder")
    write.put_encoder(bundle, read_bundle(bundle_of(write_decoder(tmp_path / "d.onnx"), tmp_path / "d.edgeopt")))
    write_manifest(bundle)
    with pytest.raises(BundleError, match="does not compute 'past_key_values"):
        edgeopt.load(bundle)
