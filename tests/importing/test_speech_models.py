"""Imports of speech models: a small one in numpy in every run, a Whisper of transformers in the slow ones."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgeopt
from edgeopt.graph.import_proof import LIMITS_KEY, decoded_limits
from edgeopt.importing import sources

HERE = Path(__file__).parent
CONFIG = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "eos_token_id": 2,
    "max_target_positions": 64, "decoder_start_token_id": 5,
}  # fmt: skip
FILES = {"out.onnx", "out.npz", "out.encoder.onnx", "out.encoder.npz", "out.text"}


@pytest.fixture
def folder(tmp_path):
    """Writes a folder of a speech model with complete weights, a tokenizer and a feature extractor."""
    path = tmp_path / "model"
    path.mkdir()
    header = json.dumps({"w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()
    (path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (path / "tokenizer.json").write_text("{}")
    (path / "preprocessor_config.json").write_text('{"feature_size": 4}')

    def write(**changes):
        (path / "config.json").write_text(json.dumps({**CONFIG, **changes}))
        return path

    return write


@pytest.fixture
def transcriber(imports, folder, monkeypatch):
    """Imports a folder whose original is the speech model in numpy."""
    planted = sources.Source(
        "huggingface", "planted speech model", child=str(HERE / "planted_speech.py"), decodes=True,
        encoder_child=str(HERE / "planted_speech_encoder.py"),
    )  # fmt: skip
    monkeypatch.setattr(sources, "SPEECH_MODEL", planted)
    return lambda fault: imports(folder(fault=fault), "--samples", 4)


@pytest.mark.parametrize(
    ("architecture", "task", "child"),
    [
        ("WhisperForConditionalGeneration", "", "speech_child.py"),
        ("WhisperForConditionalGeneration", "automatic-speech-recognition", "speech_child.py"),
        ("WhisperForConditionalGeneration", "encoder", "hf_child.py"),
        ("WhisperForAudioClassification", "", "hf_child.py"),
        ("Speech2TextForConditionalGeneration", "", "hf_child.py"),
    ],
)
def test_exporter_follows_from_the_architecture_and_the_task(folder, architecture, task, child):
    place = folder(architectures=[architecture])
    assert sources.recognize(str(place), task=task).source.child == child


def test_encoder_and_decoder_are_proved_and_written_with_what_transcribing_needs(transcriber, tmp_path):
    code, last, left = transcriber("none")
    assert (code, left) == (0, FILES), last
    found = last["data"]
    ways = [each["name"] for each in found["proof"]["outputs"]]
    assert ways == ["logits, whole", "logits, token by token", "logits, two chunks"]
    assert found["proof"]["snr_db"] > 110
    given = [each["name"] for each in found["encoder"]["proof"]["outputs"]]
    assert given == ["past_key_values.0.encoder.key", "past_key_values.0.encoder.value"]
    assert {path.name for path in (tmp_path / "out.text").iterdir()} == {
        "tokenizer.json", "preprocessor_config.json", "generation_config.json",
    }  # fmt: skip
    settings = json.loads((tmp_path / "out.text" / "generation_config.json").read_text())
    assert settings == {"eos_token_id": 2, "decoder_start_token_id": 5, "max_position_embeddings": 64}

    sound = np.load(tmp_path / "out.encoder.npz")["input_features"]
    steps = np.load(tmp_path / "out.npz")
    assert (len(sound), steps["input_ids"].shape) == (4, (4, 1, 4))
    assert steps["past_key_values.0.decoder.key"].shape == (4, 1, 2, 4, 8)
    with edgeopt.load(tmp_path / "out.encoder.onnx") as encoder:
        made = encoder.run({"input_features": sound[0]})
    assert list(made) == given
    assert all(np.array_equal(made[name], steps[name][0]) for name in given)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("encoder", "past_key_values.0.encoder.value"),
        ("cross", "'logits, whole'"),
        ("weights", "'logits, whole'"),
    ],
)
def test_speech_model_with_a_fault_is_refused_with_what_shows_it(transcriber, fault, said):
    code, last, left = transcriber(fault)
    assert (code, left) == (6, set()), last
    assert said in last["message"]


@pytest.fixture(scope="session")
def saved(frameworks, tmp_path_factory):
    path = tmp_path_factory.mktemp("speech-models")
    subprocess.run([frameworks, "-W", "ignore", HERE / "speech_models.py"], cwd=path, check=True)
    return path / "whisper"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whisper_of_transformers_is_proved_and_measured(imports, frameworks, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "whisper")
    code, last, left = imports("whisper", "--python", frameworks, "--samples", 4)
    assert (code, left) == (0, FILES), last
    found = last["data"]
    assert found["proof"]["snr_db"] > 110
    assert found["encoder"]["proof"]["snr_db"] > 110
    assert any("same 32 tokens" in note for note in found["notes"])
    sizes = [(one["batch"], one["sequence"]) for one in found["proof"]["sizes"]]
    assert {(1, 1), (1, 33), (1, 80), (3, 12)} <= set(sizes)
    files = {path.name for path in (tmp_path / "out.text").iterdir()}
    assert files == {
        "tokenizer.json", "tokenizer_config.json", "generation_config.json", "preprocessor_config.json",
    }  # fmt: skip
    extractor = json.loads((tmp_path / "out.text" / "preprocessor_config.json").read_text())
    assert (extractor["feature_size"], extractor["nb_max_frames"]) == (20, 100)

    shapes = {}
    for name in ("out.onnx", "out.encoder.onnx"):
        model = onnx.load(tmp_path / name)
        onnx.checker.check_model(model)
        for value in (*model.graph.input, *model.graph.output):
            dims = value.type.tensor_type.shape.dim
            shapes[name, value.name] = [dim.dim_param or dim.dim_value for dim in dims]
    assert shapes["out.onnx", "input_ids"] == ["batch", "sequence"]
    assert shapes["out.onnx", "past_key_values.1.decoder.key"] == ["batch", 4, "past_sequence", 16]
    assert shapes["out.onnx", "past_key_values.1.encoder.value"] == ["batch", 4, "encoder_sequence", 16]
    assert shapes["out.onnx", "present.1.decoder.value"] == ["batch", 4, "total_sequence", 16]
    assert ("out.onnx", "present.1.encoder.value") not in shapes
    assert shapes["out.encoder.onnx", "input_features"] == ["batch", 20, 100]
    assert shapes["out.encoder.onnx", "past_key_values.1.encoder.value"] == ["batch", 4, 50, 16]
    about = {each.key: each.value for each in onnx.load(tmp_path / "out.onnx").metadata_props}
    assert decoded_limits(about[LIMITS_KEY])["input_ids"]["1"].maximum == 80

    for name in ("out", "out.encoder"):
        measured = edgeopt.bench(
            f"{name}.onnx", against="whisper", python=frameworks, data=f"{name}.npz", rounds=6, time_limit_s=60
        )
        (original,) = measured.originals
        assert original.agreements[0].snr_db > 60


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sounds_of_the_data_are_those_of_the_proof(imports, frameworks, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "whisper")
    (tmp_path / "whisper" / "processor_config.json").unlink()
    sound = np.random.default_rng(0).standard_normal((3, 20, 100)).astype(np.float32)
    np.savez(tmp_path / "sound.npz", input_features=sound)
    code, last, left = imports("whisper", "--python", frameworks, "--data", tmp_path / "sound.npz")
    assert (code, left) == (0, FILES), last
    assert np.array_equal(np.load(tmp_path / "out.encoder.npz")["input_features"][:, 0], sound)
    assert any("no feature extractor" in note for note in last["data"]["notes"])
