"""What the tests of the page share: a model with one rounded weight, and saved bench reports."""

import subprocess
import sys

import onnx
import pytest
from onnx import numpy_helper

from edgeopt.data.demo import MODEL


def rounded(source, path):
    """The same model, but its first convolution has rounded weights."""
    model = onnx.load(source)
    weight = next(each for each in model.graph.initializer if len(each.dims) == 4)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).round(2), weight.name))
    onnx.save(model, path)
    return path


@pytest.fixture(scope="session")
def half_weights(tmp_path_factory, conv_model):
    return rounded(conv_model, tmp_path_factory.mktemp("compare") / "half.onnx")


@pytest.fixture(scope="session")
def half_sample(tmp_path_factory):
    return rounded(MODEL, tmp_path_factory.mktemp("compare") / "half.onnx")


@pytest.fixture(scope="session")
def saved_reports(tmp_path_factory, conv_model, relu_model):
    """Of two models whose names differ."""
    folder = tmp_path_factory.mktemp("reports")
    first, second = (folder / f"{model.stem}.json" for model in (conv_model, relu_model))
    command = [sys.executable, "-m", "edgeopt", "bench", conv_model, "--rounds", "6", "--save", first]
    subprocess.run([*map(str, command)], capture_output=True, check=True)
    second.write_text(first.read_text().replace(conv_model.name, relu_model.name))
    return first, second
