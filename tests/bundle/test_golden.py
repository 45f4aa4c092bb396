"""Processing is checked as all else in a bundle: files when it is opened, results by golden samples."""

import json
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from onnx import helper, numpy_helper

import edgeopt
from edgeopt.bundle import golden, write
from edgeopt.bundle.deployment import FILE, Evidence, read_deployment
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.profile import read_profile
from edgeopt.bundle.request import ReplayRequest
from edgeopt.bundle.runtime.check import check
from edgeopt.cli.main import run
from edgeopt.commands.profile import difference, export, preview_import
from edgeopt.errors import BundleError, EdgeoptError, VerificationError
from edgeopt.events import ignore
from edgeopt.pipeline.replay import replay
from tests.bundle.conftest import write_graph


def text(old, new):
    def change(bundle):
        file = bundle / FILE
        content = file.read_text()
        assert old in content
        file.write_text(content.replace(old, new))
        write_manifest(bundle)

    return change


def swapped(bundle):
    """By who knows the manifest, and not the deployment profile."""
    (bundle / "processing/pre.onnx").write_bytes((bundle / "processing/post.onnx").read_bytes())
    write_manifest(bundle)


def cut_off(bundle):
    (bundle / "processing/pre.onnx").write_bytes(b"")


HOSTILE = (
    (cut_off, r"processing/pre\.onnx was changed"),
    (swapped, r"'processing/pre\.onnx', whose digest differs from deployment\.toml"),
    (
        text('file = "processing/pre.onnx"', 'file = "../pre.onnx"'),
        r"'\.\./pre\.onnx', which is not in its folder",
    ),
    (text('file = "processing/pre.onnx"', 'file = "model/conv.onnx"'), r"'model/conv\.onnx', which is not in"),
    (text('file = "processing/pre.onnx"', 'embedded = "eJw="'), r"with 'an embedded file', which is not in"),
    (text('file = "processing/pre.onnx"', 'file = "processing/pre.onnx"\nrun = "it"'), r"unknown field `run`"),
    (
        text('[[processing.pre.outputs]]\nname = "x"', '[[processing.pre.outputs]]\nname = "z"'),
        r"'z', which is not a tensor",
    ),
    (text('file = "processing/pre.onnx"\n', ""), r"must be a file, pictures made into one input, or steps"),
)


@pytest.mark.parametrize(("damage", "said"), HOSTILE)
def test_files_that_are_not_what_was_written_are_refused(damage, said, processing_bundle, pre_model, post_model):
    bundle = processing_bundle(pre_model, post_model)
    damage(bundle)
    with pytest.raises(BundleError, match=said):
        edgeopt.load(bundle)


CHANGES = (
    (text("scale = 0.0039", "scale = 0.0038"), "preprocessing of the bundle 'conv' gives other outputs"),
    (text("k = 2", "k = 3"), "postprocessing of the bundle 'conv' gives other outputs"),
    (text('on = "chance"', 'on = "luck"'), "postprocessing of the bundle 'conv' fails .* A step reads 'luck'"),
)


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_verify_checks_before_and_after_each_by_itself(change, said, processing_bundle, camera, classes):
    bundle = processing_bundle(camera, classes)
    assert (
        check(bundle, ignore).processing
        == "Preprocessing and postprocessing give the same outputs as when the bundle was made."
    )
    change(bundle)
    with pytest.raises(VerificationError, match=said):
        check(bundle, ignore)


def test_what_takes_no_made_up_samples_goes_unchecked_and_that_is_said(processing_bundle, post_model, tmp_path):
    """Of any size, as far as it says itself, but it must become 16 by 16."""
    shape = numpy_helper.from_array(np.array([0, 3, 16, 16]), "shape")
    nodes = [helper.make_node("Reshape", ["image", "shape"], ["x"])]
    image, x = ("image", "FLOAT", ["n", "any", "size", 3]), ("x", "FLOAT", ["n", 3, 16, 16])
    picky = write_graph(tmp_path / "picky.onnx", nodes, [image], [x], [shape])
    bundle = processing_bundle(picky, post_model, r"The preprocessing has no golden samples, .*")
    assert check(bundle, ignore).processing == "Postprocessing gives the same outputs as when the bundle was made."
    with edgeopt.load(bundle) as session:
        assert session.process({"image": np.ones((1, 16, 16, 3), np.float32)})["chance"].shape == (1, 10)


def test_a_profile_in_one_file_holds_the_files_and_says_what_they_are(
    processing_bundle, pre_model, classes, conv_bundle, conv_model, tmp_path
):
    bundle, out = processing_bundle(pre_model, classes), tmp_path / "conv.toml"
    export(bundle, out)
    assert read_profile(out).processing == {"processing/pre.onnx": pre_model.read_bytes()}
    assert (
        preview_import(out).processing[1]
        == "after it: softmax (on y, to chance), top-k (on chance, k 2, places class)"
    )
    told = [(row.part, row.what) for row in difference(conv_bundle, out).rows]
    assert told[1:] == [("processing", "before"), ("processing", "after")]
    assert not difference(bundle, out).rows
    again = tmp_path / "again.edgeopt"
    assert replay(ReplayRequest(out, conv_model, again)).same_files
    assert read_deployment(again / FILE).processing == read_deployment(bundle / FILE).processing
    assert (
        check(again, ignore).processing
        == "Preprocessing and postprocessing give the same outputs as when the bundle was made."
    )
    deployment = read_deployment(out)
    embedded = deployment.processing.pre.embedded
    out.write_text(out.read_text().replace(embedded[:60], embedded[:58] + "AA"))
    with pytest.raises(EdgeoptError, match=r"preprocessing in '.*conv\.toml' is damaged"):
        read_profile(out)


def test_times_are_taken_apart_and_bench_tells_them(processing_bundle, camera, tmp_path, capsys):
    """Before the model a wait is planted; the model's own time must not have it."""
    bundle = processing_bundle(camera)
    told = read_deployment(bundle / FILE)
    large = np.zeros((1200, 1600, 3), np.uint8)
    write.write_golden(bundle, "raw", [{"x": large}] * 3)
    write.fill(bundle, {}, told, {})
    saved = tmp_path / "bench.json"
    assert run(["bench", str(bundle), "--rounds", "6", "--time-limit", "1", "--save", str(saved)]) == 0
    (side,) = json.loads(saved.read_text())["sides"]
    times = side["stages"]
    assert times["pre_ms"] > 5 > times["inference_ms"]
    assert times["post_ms"] is None
    assert side["figures"]["p50_ms"] < 5
    said = " ".join(capsys.readouterr().out.split())
    assert "preprocessing" in said
    assert "the table is inference alone" in said


@pytest.mark.parametrize(
    ("floor_db", "then_db", "needed_db"),
    [(30.0, 45.0, 30.0), (30.0, 28.0, 27.0), (30.0, 12.0, 24.0), (0.0, 32.6, 26.6), (0.0, 120.0, 60.0)],
)
def test_floor_of_golden_samples_follows_the_proof_also_where_no_decibels_were_asked_for(
    conv_bundle, monkeypatch, floor_db, then_db, needed_db
):
    deployment = read_deployment(conv_bundle / FILE)
    evidence = Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 32, then_db, floor_db, 8)
    found = SimpleNamespace(
        deployment=msgspec.structs.replace(deployment, evidence=evidence), golden=lambda _name: None
    )
    monkeypatch.setattr(golden, "compare_outputs", lambda *_: SimpleNamespace(snr_db=then_db))
    assert golden.golden_floor_db(found) == pytest.approx(needed_db)
