"""Imports of Keras models, SavedModels and TFLite models; slow, as they make an environment with TensorFlow."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.importing.conftest import environment

MODELS = Path(__file__).with_name("tf_models.py")
PACKAGES = ("tensorflow-cpu==2.21.*", "keras==3.15.*", "tf2onnx", "ai-edge-litert")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def tensorflow(tmp_path_factory):
    return environment("EDGEOPT_TENSORFLOW", PACKAGES, tmp_path_factory)


@pytest.fixture(scope="session")
def saved(tensorflow, tmp_path_factory):
    path = tmp_path_factory.mktemp("tensorflow")
    done = subprocess.run(
        [tensorflow, MODELS, "tensorflow"], cwd=path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def convert(imports, tensorflow, saved):
    return lambda name, *arguments: imports(saved / name, "--python", tensorflow, *arguments)


IMAGE = {"image": ["batch", 16, 16, 3], "extra": ["batch", 4]}
NAMED = ["scores", "side"]


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "by"),
    [
        ("two.keras", IMAGE, NAMED, "Keras"),
        ("two.h5", IMAGE, NAMED, "Keras"),
        ("text.keras", {"ids": ["batch", "dim_1"]}, ["output"], "Keras"),
        ("saved", IMAGE, ["output_0", "output_1"], "tf2onnx"),
        ("plain.tflite", IMAGE, ["output_0", "output_1"], "tf2onnx"),
    ],
)
def test_model_is_proved(convert, tmp_path, name, inputs, outputs, by):
    code, last, left = convert(name)
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    found = last["data"]
    assert found["proof"]["snr_db"] > 90
    assert {each["name"]: each["shape"] for each in found["inputs"]} == inputs
    assert sorted(each["name"] for each in found["proof"]["outputs"]) == outputs
    assert len(found["proof"]["sizes"]) >= 2
    assert found["exporter"].startswith(by)
    model = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(model)
    assert sorted(value.name for value in model.graph.output) == outputs
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    samples = np.load(tmp_path / "out.npz")
    assert "ids" not in samples or samples["ids"].max() in range(40, 50)


def test_quantized_tflite_model_that_differs_is_refused(convert):
    code, last, left = convert("quantized.tflite")
    assert (code, left) == (6, set()), last


@pytest.mark.parametrize("name", ["lambda.keras", "lambda.h5"])
def test_lambda_layer_needs_trust(convert, name):
    code, last, left = convert(name)
    assert (code, left) == (2, set()), last
    assert "Lambda layer" in last["message"]
    assert "--trust" in last["hint"]
    code, last, _ = convert(name, "--trust")
    assert code == 0, last


@pytest.mark.parametrize(
    ("name", "bytes_", "code", "said"),
    [
        ("two.keras", 3000, 3, "not a complete Keras model"),
        ("two.h5", 5000, 3, "Keras cannot load it"),
        ("only.weights.h5", None, 3, "Keras cannot load it"),
        ("own.keras", None, 3, "Keras cannot load it"),
        ("plain.tflite", 30, 3, "cannot load it"),
        ("plain.tflite", 2000, 3, "cannot load it"),
        ("unsigned", None, 3, "has no signature"),
        ("saved/saved_model.pb", 500, 3, "TensorFlow cannot load it"),
        ("saved/variables/variables.data-00000-of-00001", 100, 3, "TensorFlow cannot load it"),
    ],
)
def test_incomplete_model_is_refused(convert, saved, tmp_path, name, bytes_, code, said):
    top = Path(name).parts[0]
    subprocess.run(["cp", "-r", saved / top, tmp_path / "half"], check=True)
    half = (tmp_path / "half").rename(tmp_path / top)
    if bytes_ is not None:
        (tmp_path / name).write_bytes((saved / name).read_bytes()[:bytes_])
    got, last, left = convert(half)
    assert (got, left) == (code, set()), last
    assert said in last["message"]
    assert last["hint"]


def test_dimensions_cannot_be_named(convert):
    code, last, left = convert("two.keras", "--dynamic", "n")
    assert (code, left) == (2, set()), last
    assert "has its open dimensions already" in last["message"]
