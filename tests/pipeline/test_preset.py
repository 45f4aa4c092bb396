"""Presets: the model each is chosen for, what it sets there, and what that changes in a search."""

from functools import partial

import numpy as np
import onnx
import pytest

from edgeopt.commands.optimize import optimize
from edgeopt.commands.report.report import gather
from edgeopt.commands.report.sections.verdict import verdict_section
from edgeopt.errors import ModelError, UsageError
from edgeopt.graph.model import load
from edgeopt.pipeline.builders.inspect import describe
from edgeopt.profiles.presets import choose_preset, shipped_presets
from edgeopt.views.blocks import WordsBlock
from edgeopt.views.outcome import proof_lines
from tests.conftest import limited
from tests.families import FAMILIES
from tests.families.exporter import Exporter
from tests.families.layers import conv
from tests.families.transformers import bert, vit
from tests.families.vision import mobilenet_v2, unet

FAMILY = {
    **dict.fromkeys(("ResNet", "MobileNet v2", "MobileNet v3", "EfficientNet", "DenseNet"), "image-classifier"),
    "SqueezeNet": "image-classifier",
    "U-Net": "segmentation",
    **dict.fromkeys(("YOLO", "SSD", "Faster R-CNN"), "detector"),
    # A decoder whose graph keeps no past is an encoder to every count.
    **dict.fromkeys(("BERT", "DistilBERT", "RoBERTa", "Llama"), "sentence-encoder"),
    "ViT": "vision-transformer",
}

# No run of a small model is too slow for it, however busy the machine is.
LONG_S = 600


@pytest.fixture
def opened(tmp_path):
    """Writes a model with the height and width of its picture left open."""

    def write(model):
        for dimension, name in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], ("h", "w"), strict=True):
            dimension.dim_param = name
        for output in model.graph.output:
            for number, dimension in enumerate(output.type.tensor_type.shape.dim[1:]):
                dimension.dim_param = f"{output.name}_{number}"
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return path

    return write


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_family_has_its_preset(family, tmp_path):
    onnx.save(family.build(), tmp_path / "model.onnx")
    facts = describe(load(tmp_path / "model.onnx"))
    chosen = choose_preset(None, facts.layers, facts.inputs, facts.outputs)
    assert (chosen[0].name if chosen else None) == FAMILY.get(family.name)


def test_every_preset_has_a_family():
    assert {each.name for each in shipped_presets()} == {*FAMILY.values(), "audio-encoder"}


def audio_encoder():
    """A wave through two convolutions and an attention over their frames, as in Wav2Vec2."""
    g = Exporter(14, seed=40)
    x = g.op("Unsqueeze", "wave", [1])
    for size_in, length, stride in ((1, 10, 5), (8, 8, 4)):
        weight = g.weight(8, size_in, length, scale=0.3)
        x = g.op("Relu", g.op("Conv", x, weight, kernel_shape=[length], strides=[stride]))
    x = g.op("Transpose", x, perm=[0, 2, 1])
    scores = g.op("Softmax", g.op("MatMul", x, g.op("Transpose", x, perm=[0, 2, 1])), axis=-1)
    made = g.named(g.op("MatMul", scores, x), "frames")
    return g.model({"wave": ["batch", "samples"]}, {made: ["batch", "frame", 8]})


def test_sound_is_a_second_long(prepared, tmp_path):
    onnx.save(audio_encoder(), tmp_path / "audio.onnx")
    found = prepared(tmp_path / "audio.onnx", time_limit_s=LONG_S)
    assert found.samples.feeds(0)["wave"].shape == (1, 16000)
    assert found.found.preset.name == "audio-encoder"


def test_sound_is_short_without_preset(prepared, tmp_path):
    onnx.save(audio_encoder(), tmp_path / "audio.onnx")
    found = prepared(tmp_path / "audio.onnx", preset="none")
    assert found.samples.feeds(0)["wave"].shape == (1, 512)


def detector():
    """Boxes of two levels side by side, for pictures of any size."""
    g = Exporter(14, seed=41)
    x = "picture"
    for size_in, size_out in ((3, 4), (4, 8), (8, 8)):
        x = g.op("Relu", conv(g, x, (size_in, size_out), 3, stride=2))
    fine = x
    coarse = g.op("Relu", conv(g, x, (8, 8), 3, stride=2))
    scales = np.array([1, 1, 2, 2], np.float32)
    up = g.op("Resize", coarse, np.zeros(0, np.float32), scales, mode="nearest")
    levels = [conv(g, g.op("Concat", up, fine, axis=1), (16, 12), 1), conv(g, coarse, (8, 12), 1)]
    boxes = g.op("Concat", *(g.reshape(each, 0, 12, -1) for each in levels), axis=2)
    return g.model({"picture": ["batch", 3, "h", "w"]}, {g.named(boxes, "boxes"): ["batch", 12, "n"]})


def test_detector_gets_large_pictures(prepared, tmp_path):
    onnx.save(detector(), tmp_path / "detector.onnx")
    found = prepared(tmp_path / "detector.onnx", time_limit_s=LONG_S)
    assert found.samples.feeds(0)["picture"].shape == (1, 3, 640, 640)
    assert found.found.preset.name == "detector"


@pytest.mark.parametrize(
    ("build", "preset", "size", "without"),
    [
        (mobilenet_v2, "image-classifier", 224, 64),
        (unet, "segmentation", 256, 64),
        (partial(vit, size=224), "vision-transformer", 224, None),
    ],
)
def test_preset_sets_the_sizes_of_generated_pictures(prepared, opened, build, preset, size, without):
    model, said = opened(build()), []
    found = prepared(model, said, time_limit_s=LONG_S)
    assert found.samples.feeds(0)[describe(load(model)).inputs[0].name].shape == (1, 3, size, size)
    assert (found.found.preset.name, found.found.preset.sizes) == (preset, {"h": size, "w": size})
    told = [event.message for event in said if getattr(event, "level", "") == "info"]
    assert str(found.found.preset) in told
    assert f"generated inputs have h={size}, w={size}." in told[0]


@pytest.mark.parametrize(("build", "side"), [(mobilenet_v2, 64), (unet, 64)])
def test_search_without_preset_has_small_pictures(prepared, opened, build, side):
    found = prepared(opened(build()), preset="none")
    assert found.found.preset is None
    assert next(iter(found.samples.feeds(0).values())).shape == (1, 3, side, side)


def test_model_that_takes_only_the_size_of_the_preset_fails_without(prepared, opened):
    with pytest.raises(ModelError):
        prepared(opened(vit(size=224)), preset="none")


def test_text_is_as_long_as_a_sentence(prepared, tmp_path):
    onnx.save(bert(layers=2), tmp_path / "bert.onnx")
    found = prepared(tmp_path / "bert.onnx", time_limit_s=LONG_S)
    assert {array.shape for array in found.samples.feeds(0).values()} == {(1, 64)}
    assert str(found.found.preset) == (
        "Preset sentence-encoder: 2 attention layers, no convolution, no recurrent layer; "
        "generated inputs have sequence=64."
    )


def test_model_that_does_not_run_in_the_sizes_of_the_preset_keeps_its_own(prepared, opened):
    said = []
    found = prepared(opened(vit(size=64)), said, time_limit_s=LONG_S)
    assert found.samples.feeds(0)["pixels"].shape == (1, 3, 64, 64)
    assert found.found.preset.sizes == {}
    assert found.found.preset.unset.startswith("the model cannot be measured with its sizes: No installed")
    assert str(found.found.preset) in [getattr(event, "message", "") for event in said]


def test_model_that_is_too_slow_in_the_sizes_of_the_preset_keeps_its_own(prepared, opened):
    found = prepared(opened(unet()), time_limit_s=0.01)
    assert found.samples.feeds(0)["input"].shape == (1, 3, 64, 64)
    assert "too long for a search" in found.found.preset.unset


def test_data_and_shape_of_the_user_win(prepared, tmp_path):
    onnx.save(bert(layers=1), tmp_path / "bert.onnx")
    data = {name: np.ones((6, 1, 9), np.int64) for name in ("attention_mask", "token_type_ids")}
    data["input_ids"] = np.random.default_rng(0).integers(0, 90, (6, 1, 9))
    np.savez(tmp_path / "data.npz", **data)
    found = prepared(tmp_path / "bert.onnx", data=tmp_path / "data.npz")
    assert found.samples.feeds(0)["input_ids"].shape == (1, 9)
    assert found.found.preset.unset == "--data says the sizes"


def test_named_preset_is_used_for_a_model_that_it_does_not_fit(prepared, opened):
    found = prepared(opened(mobilenet_v2()), preset="segmentation", time_limit_s=LONG_S)
    assert found.found.preset.reason == "named by --preset"
    assert found.found.preset.sizes == {"h": 256, "w": 256}


def test_unknown_preset_is_refused_with_the_nearest(tmp_path):
    from edgeopt.pipeline.request import OptimizeRequest, check

    with pytest.raises(UsageError) as caught:
        check(OptimizeRequest(tmp_path / "m.onnx", tmp_path / "out", preset="sentence-encoders"))
    assert caught.value.message == "There is no preset 'sentence-encoders'."
    assert caught.value.hint == "Did you mean 'sentence-encoder'?"


def test_preset_is_in_the_result_the_summary_and_the_report(tmp_path, short_profile):
    onnx.save(bert(layers=1), tmp_path / "bert.onnx")
    few = tmp_path / "few.toml"
    few.write_text(limited(short_profile.read_text(), 1, LONG_S))
    outcome = optimize(tmp_path / "bert.onnx", tmp_path / "out.edgeopt", profile=few)
    said = (
        "Preset sentence-encoder: 1 attention layer, no convolution, no recurrent layer; "
        "generated inputs have sequence=64."
    )
    assert str(outcome.preset) == said
    assert said in proof_lines(outcome)
    facts = gather(tmp_path / "out.edgeopt", nodes=False)
    assert facts.preset == said
    assert WordsBlock(said) in verdict_section(facts).blocks


@pytest.mark.slow
def test_preset_that_sets_nothing_is_only_in_the_result(tmp_path, short_profile):
    onnx.save(mobilenet_v2(), tmp_path / "fixed.onnx")
    few = tmp_path / "few.toml"
    few.write_text(limited(short_profile.read_text(), 1, LONG_S))
    outcome = optimize(tmp_path / "fixed.onnx", tmp_path / "out.edgeopt", profile=few)
    assert outcome.preset.unset.startswith("the model leaves open none of its sizes (224 for axes 2 and 3")
    assert not any("Preset" in line for line in proof_lines(outcome))
    assert gather(tmp_path / "out.edgeopt", nodes=False).preset == ""


@pytest.mark.parametrize(
    ("fixed", "why"),
    [
        (True, "the model has fixed sizes"),
        (False, "the model leaves open none of its sizes (64 for axis 1 of integer inputs with 2 dimensions)"),
    ],
)
def test_named_preset_that_sets_nothing_is_shown(tmp_path, relu_model, conv_model, short_profile, fixed, why):
    few = tmp_path / "few.toml"
    few.write_text(limited(short_profile.read_text(), 1, LONG_S))
    model = relu_model if fixed else conv_model
    outcome = optimize(model, tmp_path / "out.edgeopt", profile=few, preset="sentence-encoder")
    said = f"Preset sentence-encoder: named by --preset; sets nothing: {why}."
    assert said in proof_lines(outcome)
    assert gather(tmp_path / "out.edgeopt", nodes=False).preset == said
