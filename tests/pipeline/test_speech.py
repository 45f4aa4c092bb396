"""Searches of a speech model, whose encoder and decoder become one bundle."""

import msgspec
import numpy as np
import onnx
import pytest

import edgeopt
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.commands.on_device import OptimizeOn
from edgeopt.commands.optimize import OptimizeSourceRequest
from edgeopt.errors import DataError, UsageError
from edgeopt.events import Progress, Standing, ignore
from edgeopt.pipeline.outcome import Outcome
from edgeopt.pipeline.recall import Keys, differences
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.views.outcome import show
from tests.bundle.runtime.speech import HIGH, HIGH_HZ, LOW, LOW_HZ, tone, write_speech, write_wav
from tests.conftest import this_device


@pytest.fixture
def model(tmp_path):
    return write_speech(tmp_path / "speech.onnx", max_length=40)


@pytest.fixture
def audio(tmp_path):
    folder = tmp_path / "audio"
    folder.mkdir()
    for number in range(4):
        write_wav(folder / f"{number}.wav", tone((LOW_HZ, HIGH_HZ)[number % 2], 2 + number))
    return folder


@pytest.mark.slow
@pytest.mark.processes
def test_encoder_and_decoder_are_searched_and_their_bundle_transcribes(model, audio, tmp_path):
    out, seen = tmp_path / "speech.edgeopt", []
    outcome = edgeopt.optimize(model, out, data=audio, time_limit_s=8, emit=seen.append)
    parts = [event.subject for event in seen if isinstance(event, Progress | Standing)]
    assert parts == sorted(parts, reverse=True)
    assert set(parts) == {"encoder", "decoder"}
    assert (outcome.objective, outcome.encoder.objective) == ("tokens-per-second", "latency")
    assert (outcome.model, outcome.encoder.model) == ("speech.onnx", "speech.encoder.onnx")
    assert outcome.proof.generation.same_prompts == outcome.proof.generation.prompts
    assert [block.title for block in show(outcome)] == ["Encoder", "Decoder"]
    bundle = read_bundle(out)
    for folder, expected in ((bundle.folder, outcome), (bundle.encoder, outcome.encoder)):
        assert msgspec.json.decode((folder / "evidence.json").read_bytes(), type=Outcome).bundle == expected.bundle
    assert check(out, ignore).encoder
    with edgeopt.load(out) as session:
        assert ["".join(session.transcribe(audio / f"{k}.wav")) for k in range(2)] == [LOW, HIGH]


@pytest.mark.parametrize(
    ("options", "reason"), [({"objective": "throughput"}, "one text at a time"), ({"shape": ["s=4"]}, "--shape")]
)
def test_options_that_do_not_apply_are_refused_before_a_search(model, audio, tmp_path, options, reason):
    with pytest.raises(UsageError, match=reason):
        edgeopt.optimize(model, tmp_path / "out.edgeopt", data=audio, **options)


def test_data_without_audio_or_features_is_refused(model, tmp_path):
    np.savez(tmp_path / "other.npz", input_ids=np.zeros((4, 8), np.int64))
    with pytest.raises(DataError, match="no WAV files and no array 'input_features'"):
        edgeopt.optimize(model, tmp_path / "out.edgeopt", data=tmp_path / "other.npz")


def test_a_search_on_a_device_is_refused_for_a_speech_model(model, audio, tmp_path):
    with pytest.raises(UsageError, match="does not copy the encoder"):
        OptimizeOn("ssh://board").run(OptimizeSourceRequest(model, tmp_path / "out.edgeopt", data=audio), ignore)


def test_the_outcome_of_a_decoder_depends_on_its_encoder(model, tmp_path):
    keys, request = Keys(this_device()), OptimizeRequest(model, tmp_path / "out.edgeopt")
    before = keys.parts(request)
    encoder = onnx.load(model.with_suffix(".encoder.onnx"))
    encoder.graph.name = "another"
    onnx.save(encoder, model.with_suffix(".encoder.onnx"))
    assert differences(Keys(this_device()).parts(request), before) == ["the encoder"]
