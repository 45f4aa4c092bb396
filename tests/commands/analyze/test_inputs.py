import numpy as np
import pytest

from edgeopt.commands.analyze.inputs import check_shapes, feeds_for, shapes_of
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt.graph.analysis import TensorFacts

INPUTS = (TensorFacts("x", "float32", ("batch", 3, None)), TensorFacts("ids", "int64", (1, 8)))


def test_made_up_inputs_have_the_shapes_that_were_asked_for(conv_model):
    assert feeds_for(conv_model, None, {})["x"].shape == (1, 3, 16, 16)
    assert feeds_for(conv_model, None, {"x": (5, 3, 16, 16)})["x"].shape == (5, 3, 16, 16)


def test_the_users_data_come_first(conv_model, conv_data):
    assert np.array_equal(feeds_for(conv_model, conv_data, {})["x"][0], np.load(conv_data)["x"][0])


def test_the_shapes_of_data(conv_data, tmp_path):
    assert shapes_of(conv_data, (TensorFacts("x", "float32", ("batch", 3, 16, 16)),), None) == {
        "x": (1, 3, 16, 16)
    }
    np.savez(tmp_path / "d.npz", z=np.zeros((2, 3), np.float32))
    with pytest.raises(DataError, match="no array for the model's input 'x'"):
        shapes_of(tmp_path / "d.npz", (TensorFacts("x", "float32", ("batch", 3)),), None)


def test_inputs_that_the_model_does_not_describe_cannot_be_made_up(tmp_path):
    with pytest.raises(ModelError, match="'x' cannot be generated"):
        feeds_for(tmp_path / "m.xml", None, {}, (TensorFacts("x", "float32"),))
    made = feeds_for(tmp_path / "m.xml", None, {"x": (2, 3)}, (TensorFacts("x", "float32"),))
    assert made["x"].shape == (2, 3)


def test_shapes_that_fit():
    check_shapes({"x": (4, 3, 7), "ids": (1, 8)}, INPUTS)


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ({"y": (1,)}, "no input 'y'; its inputs are: x, ids"),
        ({"x": (1, 4, 7)}, "'x' is batchx3x[?], so it cannot be 1x4x7"),
        ({"ids": (8,)}, "'ids' is 1x8, so it cannot be 8"),
    ],
)
def test_shapes_that_do_not_fit_are_told(shapes, told):
    with pytest.raises(UsageError, match=told):
        check_shapes(shapes, INPUTS)
