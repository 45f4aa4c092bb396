"""Each declared step against its formula, and what is said of its result before it runs."""

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.processing.run import apply, described
from edgeopt.bundle.processing.schema import (
    KINDS,
    Argmax,
    Dequantize,
    Rename,
    Scale,
    Sigmoid,
    Softmax,
    Threshold,
    TopK,
)

VALUES = np.array([[[0.5, -2.0, 3.0, 3.0], [1.0, 0.0, -90.0, 90.0]]], np.float32)
CODES = np.array([[[0, 3, 128, 255], [7, 7, 1, 2]]], np.uint8)
E = np.exp(VALUES.astype(np.float64))

CASES = (
    (Softmax(on="a"), VALUES, {"a": E / E.sum(-1, keepdims=True)}),
    (Softmax(on="a", to="b", axis=1), VALUES, {"b": E / E.sum(1, keepdims=True)}),
    (Sigmoid(on="a"), VALUES, {"a": 1 / (1 + 1 / E)}),
    (Argmax(on="a", to="b"), VALUES, {"b": [[2, 3]]}),
    (Argmax(on="a", axis=1), CODES, {"a": [[1, 1, 0, 0]]}),
    (TopK(on="a", k=2), VALUES, {"a": [[[3, 3], [90, 1]]], "a_places": [[[2, 3], [3, 0]]]}),
    (TopK(on="a", to="b", places="c", k=1, axis=1), CODES, {"b": [[[7, 7, 128, 255]]], "c": [[[1, 1, 0, 0]]]}),
    (Threshold(on="a", above=0.5), VALUES, {"a": [[[0, 0, 1, 1], [1, 0, 0, 1]]]}),
    (Scale(on="a", factor=2, offset=1), CODES, {"a": CODES * 2.0 + 1}),
    (Dequantize(on="a", scale=0.5, zero_point=128), CODES, {"a": (CODES - 128.0) / 2}),
    (Rename(on="a", to="b"), CODES, {"b": CODES}),
)


@pytest.mark.parametrize(("step", "given", "wanted"), CASES)
def test_a_step_does_what_its_formula_says(step, given, wanted):
    with np.errstate(over="raise", invalid="raise"):
        found = apply([step], {"a": given, "other": given})
    assert found.pop("other") is given
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert np.allclose(found[name], values, rtol=1e-6, atol=1e-7)
    told = described(step, TensorInfo("a", given.dtype.name, given.shape))
    assert [(each.name, each.dtype, each.shape) for each in told] == [
        (name, array.dtype.name, array.shape) for name, array in found.items()
    ]


def test_every_step_is_tried():
    assert {type(step) for step, _, _ in CASES} == set(KINDS)


def test_an_axis_that_is_not_there_is_known_before_it_runs():
    with pytest.raises(ValueError, match="no axis 3"):
        described(Argmax(on="a", axis=3), TensorInfo("a", "float32", ("n", 4)))
    with pytest.raises(ValueError, match="axis -1 has 4 values, fewer than 5"):
        described(TopK(on="a", k=5), TensorInfo("a", "float32", ("n", 4)))
