import json

import numpy as np
import pytest

from edgeopt.errors import DataError, InputError
from edgeopt.fleet.tensors import Metadata, _Tensor, encode, requests


def parsed(request):
    header = json.loads(request.body[: request.header_length])
    rest, arrays = request.body[request.header_length :], {}
    for row in header["inputs"]:
        size = row["parameters"]["binary_data_size"]
        arrays[row["name"]], rest = (row, rest[:size]), rest[size:]
    assert rest == b""
    return header, arrays


def model(*rows):
    return Metadata("m", [_Tensor(*row) for row in rows])


@pytest.mark.parametrize(
    ("array", "datatype"),
    [
        (np.array([[1.5, -2]], np.float32), "FP32"),
        (np.array([1.5], np.float16), "FP16"),
        (np.array([[2]], np.int64), "INT64"),
        (np.array([250, 3], np.uint8), "UINT8"),
        (np.array([True, False]), "BOOL"),
    ],
)
def test_an_array_travels_as_its_bytes(array, datatype):
    header, arrays = parsed(encode({"x": array}))
    row, content = arrays["x"]
    assert (row["datatype"], row["shape"], content) == (datatype, list(array.shape), array.tobytes())
    assert header["parameters"] == {"binary_data_output": True}


def test_several_inputs_keep_their_order_and_strings_their_lengths():
    texts = np.array(["é", "ab"])
    _, arrays = parsed(encode({"t": texts, "n": np.array([7], np.int32)}))
    assert list(arrays) == ["t", "n"]
    assert arrays["t"][0]["datatype"] == "BYTES"
    assert arrays["t"][1] == b"\x02\0\0\0\xc3\xa9\x02\0\0\0ab"


def test_another_byte_order_and_layout_are_put_right():
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    _, arrays = parsed(encode({"x": array}))
    assert arrays["x"][1] == np.arange(6, dtype="<i4").reshape(2, 3).T.tobytes()


def test_made_up_inputs_fit_the_model_and_differ():
    made = requests(model(("x", "FP32", [-1, 3, -1]), ("ids", "INT64", [2])), None)
    shapes = {tuple(parsed(r)[1]["x"][0]["shape"]) for r in made}
    assert shapes == {(1, 3, 1)}
    assert len({r.body for r in made}) > 1


def test_data_is_sent_sample_by_sample(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.arange(12, dtype=np.float32).reshape(4, 3), label=np.arange(4))
    made = requests(model(("x", "FP32", [-1, 3])), tmp_path / "d.npz")
    rows = [parsed(r)[1] for r in made]
    assert [list(row) for row in rows] == [["x"]] * 4
    assert [row["x"][0]["shape"] for row in rows] == [[1, 3]] * 4
    assert rows[3]["x"][1] == np.array([9, 10, 11], np.float32).tobytes()


def test_data_that_does_not_fit_is_an_error(tmp_path):
    np.savez(tmp_path / "d.npz", y=np.zeros((4, 3), np.float32))
    with pytest.raises(DataError, match="no array for the model's input 'x'"):
        requests(model(("x", "FP32", [-1, 3])), tmp_path / "d.npz")


def test_a_type_that_cannot_be_sent():
    with pytest.raises(InputError, match="'x' is of type BF16"):
        requests(model(("x", "BF16", [1])), None)
