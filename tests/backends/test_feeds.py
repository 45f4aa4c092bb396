import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo, prepare
from edgeopt.errors import DataError, said_by

INPUTS = (TensorInfo("x", "float32", ("batch", 2)), TensorInfo("text", "str", (None,)))


def test_arrays_come_back_in_this_machines_byte_order():
    x = np.ones((1, 2), np.float32)
    arrays = prepare(INPUTS, {"x": x.astype(x.dtype.newbyteorder()), "text": ["a"]})
    assert arrays["x"].dtype.isnative
    assert arrays["x"].tolist() == x.tolist()


def test_only_strings_are_strings():
    feeds = {"x": np.ones((1, 2), np.float32), "text": np.array(["a", None], dtype=object)}
    with pytest.raises(DataError, match="'text' must hold only strings"):
        prepare(INPUTS, feeds)


def test_any_shape_goes_where_the_rank_is_not_known():
    open_rank = (TensorInfo("x", "float32", (), rank_known=False),)
    for shape in ((), (2,), (1, 2, 3)):
        assert prepare(open_rank, {"x": np.ones(shape, np.float32)})["x"].shape == shape


def test_a_runtimes_message_is_told_without_its_source_files():
    error = RuntimeError(
        "Exception from src/inference/core.cpp:84:\nCheck 'false' failed at x.cpp:151:\n"
        "FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted.\n-- No rule for Foo\n"
    )
    assert said_by(error) == "Model wasn't fully converted. -- No rule for Foo"


def test_an_endless_message_is_cut_and_an_empty_one_named():
    assert len(said_by(RuntimeError("x" * 5000))) == 300
    assert said_by(ValueError()) == "ValueError"
