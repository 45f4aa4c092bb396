"""`Session.process`: what is done before the model, the model, what is done after it."""

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.archive import pack
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
