"""What the tests of the page share: the sample with one weight in half precision, and saved bench reports."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgeopt.data.demo import MODEL


@pytest.fixture(scope="session")
def half_weights(tmp_path_factory):
    """As the sample, but its first convolution has rounded weights."""
    model = onnx.load(MODEL)
    weight = next(each for each in model.graph.initializer if len(each.dims) == 4)
    rounded = numpy_helper.to_array(weight).astype(np.float16).astype(np.float32)
    weight.CopyFrom(numpy_helper.from_array(rounded, weight.name))
    path = tmp_path_factory.mktemp("compare") / "half.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture(scope="session")
def saved_reports(tmp_path_factory, conv_model, relu_model):
    """Of two models whose names differ."""
    folder = tmp_path_factory.mktemp("reports")
    paths = []
    for model in (conv_model, relu_model):
        path = folder / f"{model.stem}.json"
        command = [sys.executable, "-m", "edgeopt", "bench", model, "--rounds", "6", "--save", path]
        subprocess.run([*map(str, command)], capture_output=True, check=True)
        paths.append(path)
    return tuple(paths)
