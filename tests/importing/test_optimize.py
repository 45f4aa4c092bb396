"""`edgeopt optimize` of models of other frameworks: one command from the source to the bundle."""

import json
import sys

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.read import read_bundle
from edgeopt.cli.main import run
from edgeopt.errors import UsageError
from tests.importing.test_frameworks import forest, forest_files, sklearn, torch  # noqa: F401 - fixtures


@pytest.fixture
def optimizes(imports, short_profile, capfd, tmp_path):
    """Runs `edgeopt optimize` in an empty folder: its exit code, its last record, and the files that it left."""
    assert imports

    def optimized(source, *arguments):
        before = {path.name for path in tmp_path.iterdir()}
        quick = ["--profile", str(short_profile), "--time-limit", "1"]
        code = run(["optimize", str(source), "-o", "out.edgeopt", *quick, "--json", *map(str, arguments)])
        last = json.loads(capfd.readouterr().out.splitlines()[-1])
        return code, last, {path.name for path in tmp_path.iterdir()} - before - {"__pycache__"}

    return optimized


WRITTEN = {"out.edgeopt", "out.imported.onnx", "out.imported.npz"}


def test_source_becomes_a_bundle_that_is_measured_against_it(optimizes, planted, tmp_path):
    code, last, left = optimizes(planted("none"), "--samples", 12, "--dynamic", "batch")
    assert (code, left) == (0, WRITTEN), last
    assert len(np.load("out.imported.npz")["x"]) == 12
    outcome = last["data"]
    assert outcome["model"].endswith("out.imported.onnx")
    original = outcome["original"]
    assert original["run"]["framework"] == "planted 1"
    assert original["run"]["agreements"][0]["snr_db"] > 30
    assert original["original_ms"] > 0
    assert outcome["inputs"][0]["shape"][0] == "batch"
    assert read_bundle(tmp_path / "out.edgeopt").deployment.name == "out"
    with edgeopt.load("out.edgeopt") as session:
        assert session.run({"x": np.zeros((1, 4, 4), np.float32)})["y"].shape == (1, 4, 4)


def test_bundle_and_report_hold_the_framework_and_the_proof_of_the_import(optimizes, planted, tmp_path):
    code, last, _ = optimizes(planted("none"), "--dynamic", "batch")
    assert code == 0, last
    assert last["data"]["imported"]["source"] == "model.planted"
    evidence = json.loads((tmp_path / "out.edgeopt" / "evidence.json").read_bytes())
    assert evidence["original"] == last["data"]["original"]
    assert evidence["imported"] == last["data"]["imported"]
    assert edgeopt.analyze(tmp_path / "out.edgeopt").imported.framework == "planted 1"
    found = {}
    for suffix in ("json", "md", "html"):
        assert run(["report", "out.edgeopt", "-o", f"report.{suffix}", "--no-nodes"]) == 0
        found[suffix] = (tmp_path / f"report.{suffix}").read_text()
    facts = json.loads(found["json"])
    assert facts["original"]["original_ms"] == evidence["original"]["original_ms"]
    assert [one["batch"] for one in facts["imported"]["sizes"]][:4] == [2, 3, 7, 8]
    for text in (found["md"], found["html"]):
        assert "model.planted in planted 1" in text
        assert facts["speed"]["baseline"]["name"] in text
        assert "and at batch 2, 3, 7, 8" in text


@pytest.mark.slow
def test_single_file_bundle_holds_the_framework_too(optimizes, planted, tmp_path):
    code, last, _ = optimizes(planted("none"), "--single-file")
    assert code == 0, last
    assert (tmp_path / "out.edgeopt").is_file()
    bundle = read_bundle(tmp_path / "out.edgeopt")
    assert json.loads((bundle.folder / "evidence.json").read_bytes())["original"]["run"]["side"] == "model.planted"


@pytest.mark.slow
def test_samples_and_shape_of_the_user_are_those_of_the_import(optimizes, planted, tmp_path):
    np.savez(tmp_path / "mine.npz", x=5 + np.random.default_rng(0).random((12, 1, 4, 4), np.float32))
    code, last, left = optimizes(planted("none"), "--data", "mine.npz")
    assert (code, left) == (0, WRITTEN), last
    assert np.load("out.imported.npz")["x"].min() >= 5
    code, last, _ = optimizes(planted("none"), "--shape", "x=2x4x4")
    assert code == 0, last
    assert last["data"]["inputs"][0]["shape"] == [2, 4, 4]


def test_processor_of_the_source_is_in_the_bundle(optimizes, planted):
    code, last, left = optimizes(planted("sound"), "--dynamic", "batch")
    assert (code, left) == (0, {*WRITTEN, "out.imported.pre.onnx"}), last
    assert last["data"]["imported"]["pre"] == "out.imported.pre.onnx"
    sound = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    centred = sound - sound.mean(-1, keepdims=True)
    with edgeopt.load("out.edgeopt") as session:
        wanted = session.run({"x": centred / sound.std(-1, keepdims=True)})["y"]
        assert session.process({"sound": sound})["y"] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(("fault", "code", "said"), [("bias", 6, "output 'y'"), ("package", 5, "no_such_package")])
def test_source_that_cannot_be_imported_leaves_nothing(optimizes, planted, fault, code, said):
    got, last, left = optimizes(planted(fault))
    assert (got, left) == (code, set()), last
    assert said in last["message"]
    assert last["hint"]


@pytest.mark.parametrize(
    "arguments",
    [("--python", sys.executable), ("--trust",), ("--dynamic", "batch"), ("--opset", 17), ("--samples", 5)],
)
def test_options_of_an_import_need_a_source(optimizes, tmp_path, arguments):
    (tmp_path / "model.onnx").write_bytes(b"never read")
    code, last, left = optimizes("model.onnx", *arguments)
    assert (code, last["code"], left) == (2, "usage", set())
    assert f"{arguments[0]} is for models of other frameworks" in last["message"]


def test_plan_for_another_device_needs_an_onnx_model(optimizes, planted, tmp_path):
    code = run(["optimize", str(planted("none")), "-o", "out.edgeopt", "--device", "pi.json"])
    assert code == 2
    assert not (tmp_path / "out.imported.onnx").exists()


def test_pickle_needs_trust_from_python_too(imports, tmp_path):
    assert imports
    (tmp_path / "forest.joblib").write_bytes(b"never read")
    with pytest.raises(UsageError, match="is a pickle"):
        edgeopt.optimize("forest.joblib", "forest.edgeopt", python=sys.executable)


@pytest.mark.slow
def test_forest_is_optimized_from_python(imports, sklearn, forest):  # noqa: F811
    assert imports
    outcome = edgeopt.optimize("forest.joblib", "forest.edgeopt", python=sklearn, trust=True, time_limit_s=1)
    assert outcome.original.run.mode == "predict_proba"
    assert outcome.original.run.agreements[0].snr_db > 30


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pytorch_module_is_optimized_in_one_command(optimizes, torch):  # noqa: F811
    given = ("--python", torch, "--shape", "image=1x3x8x8", "--dynamic", "batch")
    code, last, left = optimizes("networks.py:Net", *given)
    assert (code, left) == (0, WRITTEN), last
    original = last["data"]["original"]
    assert original["run"]["mode"] == "eager"
    assert original["run"]["agreements"][0]["snr_db"] > 30
