import json

import numpy as np
import pytest

from edgeopt.errors import MissingError
from edgeopt.fleet.tensors import decode


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
