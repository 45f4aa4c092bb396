import json

import numpy as np
import pytest

from edgeopt.errors import DataError, InputError, MissingError
from edgeopt.fleet.tensors import TensorMetadata, _Tensor, decode, encode, requests


def parsed(request):
    header = json.loads(request.body[: request.header_length])
    rest, arrays = request.body[request.header_length :], {}
    for row in header["inputs"]:
        size = row["parameters"]["binary_data_size"]
        arrays[row["name"]], rest = (row, rest[:size]), rest[size:]
    assert rest == b""
    return header, arrays


def model(*rows):
    return TensorMetadata("m", [_Tensor(*row) for row in rows])


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


def answer(*outputs, binary=b""):
    header = json.dumps({"model_name": "m", "outputs": outputs}).encode()
    return header + binary, len(header)


def output(name, datatype, shape, size):
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}


def test_binary_tensors_are_read_one_behind_the_other():
    numbers = np.array([[1.5, -2]], "<f4")
    texts = b"\x02\x00\x00\x00ab\x00\x00\x00\x00\x02\x00\x00\x00\xc3\xa9"
    body, length = answer(
        output("y", "FP32", [1, 2], 8),
        output("words", "BYTES", [3], len(texts)),
        output("flags", "BOOL", [2], 2),
        binary=numbers.tobytes() + texts + b"\x01\x00",
    )
    found = decode(body, length)
    assert found["y"].tolist() == [[1.5, -2.0]]
    assert found["y"].dtype == np.float32
    assert found["words"].tolist() == ["ab", "", "é"]
    assert found["flags"].tolist() == [True, False]


def test_tensors_as_json_are_read_in_the_type_that_they_say():
    body, _ = answer({"name": "y", "datatype": "INT64", "shape": [2, 1], "data": [3, 4]})
    found = decode(body, None)["y"]
    assert found.tolist() == [[3], [4]]
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    "bad",
    [
        (b"<html>", None),
        (b'{"outputs": [{}]}', None),
        answer(output("y", "FP32", [4], 16), binary=b"too short"),
        answer(output("y", "BF16", [1], 2), binary=b"ab"),
        answer({"name": "y", "datatype": "FP32", "shape": [3], "data": [1, 2]}),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(bad):
    with pytest.raises(MissingError, match="not one of the Open Inference Protocol v2"):
        decode(*bad)
