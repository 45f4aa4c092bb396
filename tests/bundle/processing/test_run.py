"""`Session.process`: what is done before the model, the model, what is done after it."""

import numpy as np
import pytest

import edgeopt
from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.archive import pack
from edgeopt.bundle.processing.run import apply, described
from edgeopt.bundle.processing.schema import (
    KINDS,
    Argmax,
    Dequantize,
    Rename,
    Scale,
    Sigmoid,
    Softmax,
    Threshold,
    TopK,
)
from edgeopt.cli.main import run
from edgeopt.data.preparation import prepare_one
from edgeopt.errors import DataError
from edgeopt.profiles.schema import Data


def softmax(values):
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def pictures(*shape):
    return np.random.default_rng(3).integers(0, 256, shape, np.uint8)


def test_onnx_files_stand_before_and_after_a_model_that_still_runs_alone(
    processing_bundle, pre_model, post_model, tmp_path
):
    file = tmp_path / "one.edgeopt"
    pack(processing_bundle(pre_model, post_model), file)
    raw = pictures(2, 16, 16, 3)
    with edgeopt.load(file) as session:
        alone = session.run({"x": raw.transpose(0, 3, 1, 2).astype(np.float32) / 255})
        whole = session.process({"image": raw})
        told = session.processing
    assert list(alone) == ["y"]
    assert list(whole) == ["chance"]
    assert np.allclose(whole["chance"], softmax(alone["y"]), atol=1e-6)
    assert (told.pre.inputs[0].name, told.post.outputs[0].name) == ("image", "chance")


def test_declared_steps_do_the_same_to_one_picture_or_several_of_any_size(processing_bundle, camera, classes):
    raw = [pictures(30, 50, 3), pictures(24, 24, 3)]
    how = Data(resize=(20,), crop=(16,), scale=0.00392156862745098, mean=(0.5, 0.4, 0.3))
    with edgeopt.load(processing_bundle(camera, classes)) as session:
        for picture in raw:
            chances = softmax(session.run({"x": prepare_one(picture, how, "it")[None]})["y"])
            found = session.process({"x": picture})
            best = np.argsort(-chances, kind="stable")[:, :2]
            assert np.array_equal(found["class"], best)
            assert np.allclose(found["chance"], np.take_along_axis(chances, best, -1), atol=1e-6)
        assert session.process({"x": np.stack([raw[1], raw[1]])})["class"].shape == (2, 2)
        with pytest.raises(DataError, match=r"'x' must be a picture as bytes .* it is float32 \[1, 3, 16, 16\]"):
            session.process({"x": np.zeros((1, 3, 16, 16), np.float32)})


def test_a_letter_box_is_part_of_a_bundle(processing_bundle, tmp_path):
    steps = tmp_path / "box.toml"
    steps.write_text('[data]\nletter_box = [16]\nplace = "top-left"\nfill = 7\n')
    picture = pictures(20, 40, 3)
    with edgeopt.load(processing_bundle(steps, None)) as session:
        wanted = prepare_one(picture, Data(letter_box=(16,), place="top-left", fill=7.0), "it")[None]
        assert (wanted[0, :, 8:] == 7).all()
        assert np.array_equal(session.process({"x": picture})["y"], session.run({"x": wanted})["y"])


def test_run_processes_a_file_of_raw_samples_where_it_is_asked_to(processing_bundle, pre_model, classes, tmp_path):
    bundle, data, out = processing_bundle(pre_model, classes), tmp_path / "raw.npz", tmp_path / "out"
    raw = pictures(3, 16, 16, 3)
    np.savez(data, image=raw)
    assert run(["run", str(bundle), "--data", str(data), "-o", str(out), "--process"]) == 0
    with edgeopt.load(bundle) as session, np.load(out / "outputs.npz") as found:
        for position, picture in enumerate(raw):
            assert np.array_equal(found["class"][position], session.process({"image": picture[None]})["class"])


def test_what_is_missing_or_too_much_is_said_with_all_that_is_taken(processing_bundle, pre_model):
    with edgeopt.load(processing_bundle(pre_model)) as session:
        with pytest.raises(DataError, match=r"Missing input 'image' .*; it takes: image\."):
            session.process({"x": np.zeros((1, 3, 16, 16), np.float32)})
        with pytest.raises(DataError, match=r"Unknown input 'more' .*; it takes: image\."):
            session.process({"image": pictures(1, 16, 16, 3), "more": np.zeros(1)})


def test_without_processing_it_is_the_model_alone(conv_bundle):
    feeds = {"x": np.ones((1, 3, 16, 16), np.float32)}
    with edgeopt.load(conv_bundle) as session:
        assert session.processing is None
        assert np.array_equal(session.process(feeds)["y"], session.run(feeds)["y"])


VALUES = np.array([[[0.5, -2.0, 3.0, 3.0], [1.0, 0.0, -90.0, 90.0]]], np.float32)
CODES = np.array([[[0, 3, 128, 255], [7, 7, 1, 2]]], np.uint8)
E = np.exp(VALUES.astype(np.float64))

CASES = (
    (Softmax(on="a"), VALUES, {"a": E / E.sum(-1, keepdims=True)}),
    (Softmax(on="a", to="b", axis=1), VALUES, {"b": E / E.sum(1, keepdims=True)}),
    (Sigmoid(on="a"), VALUES, {"a": 1 / (1 + 1 / E)}),
    (Argmax(on="a", to="b"), VALUES, {"b": [[2, 3]]}),
    (Argmax(on="a", axis=1), CODES, {"a": [[1, 1, 0, 0]]}),
    (TopK(on="a", k=2), VALUES, {"a": [[[3, 3], [90, 1]]], "a_places": [[[2, 3], [3, 0]]]}),
    (TopK(on="a", to="b", places="c", k=1, axis=1), CODES, {"b": [[[7, 7, 128, 255]]], "c": [[[1, 1, 0, 0]]]}),
    (Threshold(on="a", above=0.5), VALUES, {"a": [[[0, 0, 1, 1], [1, 0, 0, 1]]]}),
    (Scale(on="a", factor=2, offset=1), CODES, {"a": CODES * 2.0 + 1}),
    (Dequantize(on="a", scale=0.5, zero_point=128), CODES, {"a": (CODES - 128.0) / 2}),
    (Rename(on="a", to="b"), CODES, {"b": CODES}),
)


@pytest.mark.parametrize(("step", "given", "wanted"), CASES)
def test_a_step_does_what_its_formula_says(step, given, wanted):
    with np.errstate(over="raise", invalid="raise"):
        found = apply([step], {"a": given, "other": given})
    assert found.pop("other") is given
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert np.allclose(found[name], values, rtol=1e-6, atol=1e-7)
    told = described(step, TensorInfo("a", given.dtype.name, given.shape))
    assert [(each.name, each.dtype, each.shape) for each in told] == [
        (name, array.dtype.name, array.shape) for name, array in found.items()
    ]


def test_every_step_is_tried():
    assert {type(step) for step, _, _ in CASES} == set(KINDS)


def test_an_axis_that_is_not_there_is_known_before_it_runs():
    with pytest.raises(ValueError, match="no axis 3"):
        described(Argmax(on="a", axis=3), TensorInfo("a", "float32", ("n", 4)))
    with pytest.raises(ValueError, match="axis -1 has 4 values, fewer than 5"):
        described(TopK(on="a", k=5), TensorInfo("a", "float32", ("n", 4)))
