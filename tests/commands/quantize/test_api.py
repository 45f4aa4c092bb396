import numpy as np
import pytest

import edgeopt
from edgeopt.errors import DataError, UsageError

pytest.importorskip("onnxruntime", reason="the source model runs first")


def feeds(count):
    random = np.random.default_rng(0)
    return ({"x": random.standard_normal((1, 4)).astype(np.float32)} for _ in range(count))


def test_data_may_be_any_iterable_of_feeds(relu_model, tmp_path):
    found = edgeopt.quantize(relu_model, tmp_path / "out.onnx", data=feeds(32))
    assert found.outcome == "keep float"
    assert found.use.given == 32
    assert list(tmp_path.glob("out*")) == []


def test_an_iterable_that_yields_nothing_is_bad_data(relu_model):
    with pytest.raises(DataError, match="contains no samples"):
        edgeopt.quantize(relu_model, data=feeds(0))


def test_wishes_are_checked_as_on_the_command_line(relu_model):
    with pytest.raises(UsageError, match="no method 'int9'"):
        edgeopt.quantize(relu_model, method="int9")
    with pytest.raises(UsageError, match="A plan needs a goal"):
        edgeopt.quantize(relu_model, no_floor=True)
    with pytest.raises(UsageError, match="not an accuracy floor"):
        edgeopt.quantize(relu_model, floor=500)
