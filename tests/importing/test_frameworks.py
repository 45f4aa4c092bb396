"""Imports of real models: scikit-learn in every run where skl2onnx is installed, PyTorch in the slow ones.

EDGEOPT_FRAMEWORKS may name the Python of an environment that has both; the slow tests make one otherwise.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

NETWORKS = Path(__file__).with_name("networks.py")
FIT = """
import joblib, numpy as np
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
random = np.random.default_rng(0)
x = random.standard_normal((300, 6)) * [1, 10, 100, 1, 1, 1] + [0, 5, 50, 0, 0, 0]
y = (x[:, 0] + x[:, 1] / 10 > 0.5).astype(int) + (x[:, 2] > 60)
joblib.dump(RandomForestClassifier(30, random_state=0).fit(x, np.array(["no", "some", "all"])[y]), "forest.joblib")
joblib.dump(make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y), "pipeline.pkl")
joblib.dump(GradientBoostingRegressor(n_estimators=20).fit(x, x[:, 2] + y), "boosted.joblib")
joblib.dump(RandomForestClassifier(), "unfitted.pkl")
joblib.dump({"no": "estimator"}, "dict.pkl")
np.savez("data.npz", X=x)
"""


@pytest.fixture(scope="session")
def sklearn():
    if (python := os.environ.get("EDGEOPT_FRAMEWORKS")) is not None:
        return python
    if importlib.util.find_spec("skl2onnx") is None:
        pytest.skip("skl2onnx is not installed; EDGEOPT_FRAMEWORKS can name a Python that has it")
    return sys.executable


def fitted(python, folder):
    subprocess.run([python, "-c", FIT], cwd=folder, check=True)


@pytest.fixture(scope="session")
def forest_files(sklearn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    fitted(sklearn, folder)
    return folder


@pytest.fixture
def forest(forest_files, tmp_path):
    """Puts the models of scikit-learn, and their data, into the folder of the test."""
    shutil.copytree(forest_files, tmp_path, dirs_exist_ok=True)


def test_forest_of_scikit_learn_gives_the_same_labels_and_probabilities(imports, sklearn, forest):
    given = ("--trust", "--python", sklearn, "--data", "data.npz", "--samples", 64)
    code, last, left = imports("forest.joblib", *given)
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    label, probabilities = last["data"]["proof"]["outputs"]
    assert (label["name"], label["differing"]) == ("label", 0)
    assert probabilities["worst_db"] > 90
    assert last["data"]["framework"].startswith("scikit-learn")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["pipeline.pkl", "boosted.joblib", "forest.joblib"])
def test_scikit_learn_model_is_proved(imports, frameworks, tmp_path, name):
    fitted(frameworks, tmp_path)
    code, last, _ = imports(name, "--trust", "--python", frameworks)
    assert code == 0, last
    assert last["data"]["proof"]["snr_db"] > 90


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "said"), [("unfitted.pkl", "not fitted"), ("dict.pkl", "not an estimator")])
def test_pickle_without_a_fitted_model_is_refused(imports, frameworks, tmp_path, name, said):
    fitted(frameworks, tmp_path)
    code, last, left = imports(name, "--trust", "--python", frameworks)
    assert (code, left) == (3, set())
    assert said in last["message"]


@pytest.fixture
def torch(frameworks, tmp_path):
    shutil.copy(NETWORKS, tmp_path)
    subprocess.run([frameworks, "-W", "ignore", NETWORKS.name], cwd=tmp_path, check=True)
    return frameworks


SHAPE = ("--shape", "image=1x3x8x8")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("source", "arguments", "open_", "exporter"),
    [
        ("networks.py:Net", (*SHAPE, "--dynamic", "batch"), ["batch", 3, 8, 8], "dynamo"),
        ("networks:Net", (*SHAPE, "--dynamic", "batch,height=2"), ["batch", 3, "height", 8], "dynamo"),
        ("networks.py:text", ("--dynamic", "batch,seq"), ["batch", "seq"], "dynamo"),
        ("program.pt2", (), None, "dynamo"),
        ("script.pt", ("--shape", "input=1x3x8x8", "--dynamic", "batch"), ["batch", 3, 8, 8], "TorchScript"),
    ],
)
def test_pytorch_model_is_proved(imports, torch, tmp_path, source, arguments, open_, exporter):
    code, last, left = imports(source, "--python", torch, *arguments)
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    found = last["data"]
    assert found["proof"]["snr_db"] > 90
    assert exporter in found["exporter"]
    assert open_ is None or found["inputs"][0]["shape"] == open_
    assert len(found["proof"]["sizes"]) >= 2
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))
    assert len(np.load(tmp_path / "out.npz")[found["inputs"][0]["name"]]) == 32


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_train_mode_is_named(imports, torch):
    _, last, _ = imports("networks.py:Net", "--python", torch, *SHAPE)
    assert any("norm (BatchNorm2d), drop (Dropout)" in note for note in last["data"]["notes"])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("source", "arguments", "code", "said"),
    [
        ("networks.py:without_bias", (), 6, "First differing layer: '1' (WithoutBias)"),
        ("networks.py:swapping", (), 6, "First differing layer: '1' (Swapping)"),
        ("networks.py:Branch", ("--shape", "x=2x3"), 3, "data-dependent"),
        ("networks.py:Dropping", ("--shape", "x=2x3"), 3, "dropout"),
        ("networks.py:Counting", ("--shape", "x=2x3"), 3, "changes the state 'count' in place"),
        ("networks.py:Spectrum", ("--shape", "x=2x4"), 3, "complex numbers"),
        ("networks.py:Nett", (), 3, "has no 'Nett'"),
        ("networks.py:number", (), 3, "of type int"),
        ("networks.py:needs", (), 3, "needs arguments: count"),
        ("nowhere.nets:Net", (), 3, "no module 'nowhere.nets'"),
        ("networks.py:Net", (), 2, "shape of the input 'image' is not known"),
        ("networks.py:Net", ("--shape", "image=1x4x8x8"), 3, "cannot be imported"),
        ("program.pt2", ("--dynamic", "batch"), 2, "has its open dimensions already"),
        ("weights.pt", ("--shape", "x=1"), 3, "cannot load it"),
    ],
)
def test_bad_pytorch_source_is_refused(imports, torch, source, arguments, code, said):
    got, last, left = imports(source, "--python", torch, *arguments)
    assert (got, left) == (code, set()), last
    assert said in last["message"]
    assert last["hint"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["two.keras", "text.keras"])
def test_keras_model_is_proved_without_tensorflow(imports, frameworks, tmp_path, name, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    models = Path(__file__).with_name("tf_models.py")
    subprocess.run([frameworks, models], cwd=tmp_path, check=True, env={**os.environ, "KERAS_BACKEND": "torch"})
    code, last, left = imports(name, "--python", frameworks)
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    assert "(torch, onnxscript)" in last["data"]["exporter"]
    assert last["data"]["inputs"][0]["shape"][0] == "batch"
