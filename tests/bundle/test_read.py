import shutil

import numpy as np
import pytest

from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.errors import BundleError


def test_a_sound_bundle(bundle):
    found = read_bundle(bundle)
    assert found.deployment.name == "conv"
    assert found.model == bundle / "model/conv.onnx"
    assert found.model.is_file()
    inputs, outputs = found.golden("inputs"), found.golden("outputs")
    assert [f["x"].shape for f in inputs] == [(1, 3, 16, 16)] * 3
    assert [o["y"].shape for o in outputs] == [(1, 10)] * 3
    assert not np.array_equal(outputs[0]["y"], outputs[1]["y"])


def test_it_may_be_moved_and_renamed(bundle, tmp_path):
    moved = shutil.move(bundle, tmp_path / "other name")
    assert read_bundle(moved).model.is_file()


@pytest.mark.parametrize("name", ["deployment.toml", "manifest.json"])
def test_a_damaged_bundle_still_looks_like_one(bundle, name):
    (bundle / name).unlink()
    assert is_bundle(bundle)
    with pytest.raises(BundleError, match=name):
        read_bundle(bundle)


def test_other_things_do_not_look_like_one(tmp_path):
    (tmp_path / "file").write_text("")
    assert not any(is_bundle(path) for path in (tmp_path, tmp_path / "file", tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda _: None, "no bundle at"),
        (lambda path: path.mkdir(), "has no manifest.json"),
        (lambda path: path.write_text("x"), "'x.edgeopt' is refused: it is not a valid zip archive"),
        (lambda path: path.symlink_to("nowhere"), "no bundle at"),
    ],
    ids=["missing", "empty folder", "file", "dangling link"],
)
def test_what_is_no_bundle(tmp_path, make, says):
    make(tmp_path / "x.edgeopt")
    with pytest.raises(BundleError, match=says) as raised:
        read_bundle(tmp_path / "x.edgeopt")
    assert raised.value.hint


def test_a_model_is_no_bundle(conv_model):
    with pytest.raises(BundleError, match=r"conv\.onnx' is not a bundle"):
        read_bundle(conv_model)


@pytest.mark.parametrize("model", ["model/other.onnx", "../conv.onnx", "/etc/hostname", "model", ""])
def test_the_model_to_run_must_be_listed(bundle, change_deployment, model):
    from edgeopt.bundle.deployment import Run

    change_deployment(bundle, run=Run("onnxruntime-cpu", model))
    with pytest.raises(BundleError, match="which its manifest does not list"):
        read_bundle(bundle)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 no archive"])
def test_golden_arrays_that_are_no_arrays(bundle, content):
    file = bundle / "golden/inputs.npz"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    write_manifest(bundle)
    found = read_bundle(bundle)
    with pytest.raises(BundleError, match=r"golden/inputs\.npz"):
        found.golden("inputs")
