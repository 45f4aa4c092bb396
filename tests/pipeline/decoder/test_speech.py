"""Texts of the scripted speech model: those that it writes for low and high tones."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgeopt.backends import backend_named
from edgeopt.bundle.runtime.locate import encoder_beside
from edgeopt.data.judging.goals import KL, goal_from
from edgeopt.data.judging.metrics import metric_named
from edgeopt.data.samples import save_samples
from edgeopt.errors import DataError
from edgeopt.measure.trials.decoding import FULL
from edgeopt.pipeline.decoder.generation import GenerationTask, check_source, prove_generation, run_generation
from edgeopt.pipeline.decoder.workloads import GOLDEN_STEPS, decoder_data, decoder_in
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.profiles.targets import profile_for
from edgeopt.speech.features import load_settings, log_mel
from edgeopt.speech.tokens import SpeechTokens
from edgeopt.text.tokenizer import load_tokenizer
from edgeopt.workers.host import LocalHost
from tests.bundle.runtime.speech import HIGH, HIGH_HZ, LOW, LOW_HZ, tone, write_speech
from tests.conftest import this_device


class Search:
    """The beginning of a search of the model in a folder."""

    def __init__(self, folder, windows, **settings):
        self.path = write_speech(folder / "model.onnx", max_length=40, **settings)
        self.folder = folder
        self.runner = TrialRunner(LocalHost(folder), folder, folder / "samples")
        session = backend_named("onnxruntime-cpu").load(self.path, {})
        facts = SimpleNamespace(inputs=session.inputs, outputs=session.outputs)
        self.model = decoder_in(facts, {}, encoder_beside(self.path))
        self.without_encoder = decoder_in(facts, {})
        own = load_settings(self.path.with_suffix(".text"))
        pitches = (LOW_HZ, HIGH_HZ)
        features = [log_mel(tone(pitches[k % 2], 3), own)[None] for k in range(windows)]
        np.savez(folder / "features.npz", input_features=np.stack(features))

    @property
    def data(self):
        settings = OptimizeRequest(self.path, self.folder / "out", data=self.folder / "features.npz")
        profile = profile_for(this_device(), "generic-cpu", None)
        return decoder_data(settings, self.model, profile, self.runner)

    def outputs(self, path, data):
        contender = self.runner.enter("one", "onnxruntime-cpu", path)
        try:
            return self.runner.outputs(contender, data.split.prove, 1)
        finally:
            contender.close()

    def generate(self, path, data, task=None):
        contender = self.runner.enter("one", "onnxruntime-cpu", path)
        try:
            if task is not None:
                return prove_generation(contender, task, goal_from("kl"), 40.0, self.folder)
            return run_generation(contender, data.cache, data.prompts, data.prompt_tokens, self.folder, data.given)
        finally:
            contender.close()


def texts_of(search, rows):
    tokens = SpeechTokens(search.path.with_suffix(".text"), load_tokenizer(search.path.with_suffix(".text")))
    return [tokens.text(row).strip() for row in rows]


def test_the_texts_of_a_speech_model_are_its_transcripts_in_several_languages_and_tasks(tmp_path):
    search = Search(tmp_path, windows=2)
    data = search.data
    assert data.prompt_tokens == 4
    assert len({row[:4] for row in data.prompts}) > 2
    assert len(set(data.prompts)) == len(data.prompts) == 6
    assert not data.warning
    written = texts_of(search, [row[4:] for row in data.prompts])
    assert {(place, text) for place, text in zip(data.given.places, written, strict=True)} == {(0, LOW), (1, HIGH)}


def test_every_sample_has_what_the_encoder_computed_for_its_audio(tmp_path):
    search = Search(tmp_path, windows=4)
    data = search.data
    assert data.split.prove_first + data.split.prove_count == len(data.samples)
    assert data.split.prove_count > GOLDEN_STEPS
    loudness = {np.sign(data.samples.feeds(k)["past_key_values.0.encoder.value"].sum()) for k in data.split.prove}
    assert loudness == {-1.0, 1.0}
    timed = [data.samples.feeds(k)["input_ids"].shape for k in range(data.split.calibration_count)]
    assert set(timed) == {(1, 1)}


def test_a_decoder_without_its_encoder_is_not_searched_by_texts(tmp_path):
    search = Search(tmp_path, windows=1)
    assert search.model is not None
    assert search.without_encoder is None


def test_a_speech_decoder_agrees_with_itself_and_one_that_ignores_the_audio_does_not_agree_with_it(tmp_path):
    search = Search(tmp_path, windows=4)
    data = search.data
    save_samples(data.samples, search.runner.samples_path)
    source = search.generate(search.path, data)
    assert check_source(source) == ""
    assert len(source.of(FULL)) == 2
    task = GenerationTask(data.cache, data.prompts, data.prompt_tokens, source, data.given)
    proof = search.generate(search.path, data, task)
    assert (proof.same_prompts, proof.prompts) == (6, 6)
    assert proof.same_tokens == sum(map(len, source.decoded.generated))
    deaf = onnx.load(search.path)
    for each in deaf.graph.initializer:
        if each.name == "heard":
            each.CopyFrom(numpy_helper.from_array(0 * numpy_helper.to_array(each), "heard"))
    onnx.save(deaf, tmp_path / "deaf.onnx")
    assert search.generate(tmp_path / "deaf.onnx", data, task).same_prompts < 6
    expected, answers = (search.outputs(path, data) for path in (search.path, tmp_path / "deaf.onnx"))
    assert not goal_from("kl").proves(metric_named(KL).judge(answers, expected, None))


def test_a_model_that_writes_nothing_is_judged_on_random_tokens_with_a_warning(tmp_path):
    data = Search(tmp_path, windows=4, begin_suppress_tokens=[]).data
    assert "writes nothing after 8 of 8 prompts" in data.warning
    assert {len(row) for row in data.prompts} == {36}


def test_too_little_audio_for_a_model_of_english_alone_is_refused(tmp_path):
    with pytest.raises(DataError, match="makes 1 text; a search needs at least 4"):
        _ = Search(tmp_path, windows=1, multilingual=False).data
