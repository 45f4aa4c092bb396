"""What the tests of the page share: models with one rounded weight."""

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
