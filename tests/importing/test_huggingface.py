"""Imports of Hugging Face folders: small random models in the slow tests, bad folders in every run."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgeopt

MODELS = Path(__file__).with_name("hf_models.py")
CONFIG = {"model_type": "bert", "architectures": ["BertModel"]}
WHOLE = {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
PARTS = {"weight_map": {"w": "model-00001-of-00002.safetensors", "v": "model-00002-of-00002.safetensors"}}


def weights(path, size=16):
    header = json.dumps(WHOLE).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


@pytest.fixture
def folder(tmp_path):
    """A folder with a configuration and complete weights."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    weights(path / "model.safetensors")
    return path


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        ("config.json", "{", 3, "cannot be read as JSON"),
        ("config.json", "[]", 3, "holds no object"),
        ("config.json", "{}", 3, "no model_type"),
        ("config.json", json.dumps({**CONFIG, "auto_map": {"AutoModel": "own.Net"}}), 2, "its own Python code"),
        ("model.safetensors", None, 3, "model.safetensors is missing"),
        ("model.safetensors", "", 3, "not a complete safetensors file"),
        ("model.safetensors", "version https://git-lfs.github.com/spec/v1", 3, "not a complete safetensors file"),
        ("model.safetensors.index.json", json.dumps(PARTS), 3, "model-00001-of-00002.safetensors is missing"),
    ],
)
def test_incomplete_folder_is_refused(imports, folder, name, content, code, said):
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_text(content)
    got, last, left = imports(folder)
    assert (got, left) == (code, set()), last
    assert said in last["message"]
    assert last["hint"]


def test_half_downloaded_weights_are_refused_with_their_size(imports, folder):
    weights(folder / "model.safetensors", size=10)
    code, last, left = imports(folder)
    assert (code, left) == (3, set())
    size = (folder / "model.safetensors").stat().st_size
    assert f"has {size:,} bytes instead of {size + 6:,}" in last["message"]


def test_task_of_another_source_is_refused(imports, planted):
    code, last, left = imports(planted("none"), "--task", "fill-mask")
    assert (code, left) == (2, set())
    assert "has no --task" in last["message"]


@pytest.fixture(scope="session")
def saved(frameworks, tmp_path_factory):
    path = tmp_path_factory.mktemp("huggingface")
    subprocess.run([frameworks, "-W", "ignore", MODELS], cwd=path, check=True)
    return path


@pytest.fixture
def convert(imports, frameworks, saved, tmp_path):
    """Imports a copy of a folder, with changes to its configuration."""

    def run(name, *arguments, change=None):
        shutil.copytree(saved / name, tmp_path / name)
        config = tmp_path / name / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **(change or {})}))
        return imports(name, "--python", frameworks, *arguments)

    return run


PRE = {"vit": ("out.pre.toml",), "segformer": ("out.pre.toml",), "speech": ("out.pre.onnx",)}
TEXT = ["input_ids", "attention_mask", "token_type_ids"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "arguments", "inputs", "shape", "output"),
    [
        ("bert", (), TEXT, ["batch", "sequence"], "logits"),
        ("bert", ("--dynamic", "n", "--shape", "input_ids=1x12"), TEXT, ["n", 12], "logits"),
        ("masked", (), TEXT, ["batch", "sequence"], "logits"),
        ("masked", ("--task", "feature-extraction"), TEXT, ["batch", "sequence"], "last_hidden_state"),
        ("roberta", (), TEXT[:2], ["batch", "sequence"], "last_hidden_state"),
        ("vit", (), ["pixel_values"], ["batch", 3, 32, 32], "logits"),
        ("segformer", (), ["pixel_values"], ["batch", 3, 64, 96], "logits"),
        ("speech", (), ["input_values"], ["batch", 16000], "logits"),
        ("whisper", ("--task", "encoder"), ["input_features"], ["batch", 80, 100], "last_hidden_state"),
    ],
)
def test_encoder_is_proved(convert, tmp_path, name, arguments, inputs, shape, output):
    code, last, left = convert(name, *arguments)
    assert (code, left) == (0, {"out.onnx", "out.npz", *PRE.get(name, ())}), last
    found = last["data"]
    assert found["proof"]["snr_db"] > 90
    assert [each["name"] for each in found["inputs"]] == inputs
    assert all(each["shape"] == shape for each in found["inputs"])
    assert found["proof"]["outputs"][0]["name"] == output
    assert len(found["proof"]["sizes"]) >= 2
    assert "OnnxExporter" in found["exporter"]
    model = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(model)
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == shape[0]
    samples = np.load(tmp_path / "out.npz")
    assert len(samples[inputs[0]]) == 32
    assert any("bfloat16" in note for note in found["notes"]) == (name == "masked")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["bert", "vit"])
def test_folder_is_measured_against_its_model(convert, frameworks, name):
    assert convert(name)[0] == 0
    found = edgeopt.bench("out.onnx", against=name, python=frameworks, data="out.npz", rounds=6, time_limit_s=60)
    assert not any(side.failure for side in found.sides)
    (original,) = found.originals
    assert original.mode == "eager"
    assert original.framework.startswith("transformers")
    assert original.agreements[0].snr_db > 60


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "processor", "min_db"),
    [("vit", "CLIPImageProcessor", 45), ("segformer", "SegformerImageProcessor", 45), ("speech", "Wav2Vec2", 90)],
)
def test_processor_of_the_folder_is_written_beside_the_model(convert, name, processor, min_db):
    _, last, _ = convert(name)
    pre = last["data"]["pre"]
    assert pre["processor"].startswith(processor)
    assert pre["snr_db"] > min_db


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"resample": 1}, "its filter to resize has the number 1"),
        ({"do_pad": True}, "it pads pictures"),
        ({"size": {"height": 48, "width": 48}, "do_center_crop": False}, "the model takes 'pixel_values'"),
        ({"image_processor_type": "NoProcessor"}, "fails"),
    ],
)
def test_processor_that_is_not_covered_is_named(convert, saved, tmp_path, change, said):
    path = saved / "vit" / "preprocessor_config.json"
    kept = path.read_text()
    path.write_text(json.dumps({**json.loads(kept), **change}))
    try:
        code, last, left = convert("vit", "--shape", "pixel_values=1x3x32x32")
    finally:
        path.write_text(kept)
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    assert any(said in note for note in last["data"]["notes"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_samples_of_text_come_from_the_tokenizer_and_differ_in_length(convert, tmp_path):
    _, last, _ = convert("bert")
    samples = np.load(tmp_path / "out.npz")
    assert not any("tokenizer" in note for note in last["data"]["notes"])
    assert (samples["input_ids"][:, 0, 0] == 2).all()  # [CLS]
    assert len(set(samples["attention_mask"].sum((1, 2)))) > 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pixels_have_the_normalization_of_the_folder(convert, tmp_path):
    convert("segformer")
    pixels = np.load(tmp_path / "out.npz")["pixel_values"]
    assert pixels.mean((0, 1, 3, 4)) == pytest.approx([2.0, 1.5, 1.0], abs=0.05)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "change", "arguments", "code", "said"),
    [
        ("gpt", {}, ("--task", "fill-mask"), 3, "cannot be loaded"),
        ("t5", {}, (), 3, "or speech models of the architecture WhisperForConditionalGeneration"),
        ("bert", {"model_type": "nothing"}, (), 3, "cannot be read by transformers"),
        ("bert", {"architectures": ["BertForNothing"]}, (), 3, "no architecture BertForNothing"),
        ("bert", {}, ("--task", "fill-mask"), 3, "no weights for 'cls."),
        ("bert", {}, ("--task", "image-classification"), 3, "cannot be loaded"),
        ("bert", {}, ("--task", "nothing"), 2, "no task 'nothing'"),
        ("bert", {"hidden_size": 64}, (), 3, "cannot be loaded"),
    ],
)
def test_folder_that_is_no_encoder_is_refused(convert, name, change, arguments, code, said):
    got, last, left = convert(name, *arguments, change=change)
    assert (got, left) == (code, set()), last
    assert said in last["message"]
    assert last["hint"]


OWN = """
import torch
from transformers import PreTrainedModel, PretrainedConfig
class OwnConfig(PretrainedConfig):
    model_type = "own"
class Own(PreTrainedModel):
    config_class = OwnConfig
    main_input_name = "pixel_values"
    def __init__(self, config):
        super().__init__(config)
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.post_init()
    def forward(self, pixel_values):
        return {"features": self.conv(pixel_values)}
"""
SAVE_OWN = """
import own
own.OwnConfig.register_for_auto_class()
own.Own.register_for_auto_class("AutoModel")
own.Own(own.OwnConfig(image_size=16)).save_pretrained("folder")
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_folder_with_code_needs_trust(imports, frameworks, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    subprocess.run([frameworks, "-c", SAVE_OWN], cwd=tmp_path, check=True)
    code, last, left = imports("folder", "--python", frameworks)
    assert (code, left) == (2, set()), last
    code, last, left = imports("folder", "--python", frameworks, "--trust")
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    assert last["data"]["proof"]["outputs"][0]["name"] == "features"
