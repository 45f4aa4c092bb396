import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from edgeopt_agent.v2.answer import write_answer
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.request import read_request
from edgeopt_agent.workers.frames import Port

X = Port("x", "float32", ("batch", 2))
N = Port("n", "int8", (None,))
S = Port("s", "str", ("texts",))
B = Port("b", "bool", (), rank_known=False)
OUT = Port("y", "float32", (2,))
MAX = 10**6


def read(request, data=b"", inputs=(X,), maximum=MAX):
    text = request if isinstance(request, bytes) else json.dumps(request).encode()
    return read_request(text, memoryview(data), inputs, (OUT,), maximum)


def tensor(name="x", datatype="FP32", shape=(1, 2), **more):
    return {"name": name, "datatype": datatype, "shape": list(shape), **more}


def sized(size, **more):
    return tensor(parameters={"binary_data_size": size}, **more)


WRONG = [
    # the request as a whole
    (b"", b"", "not a v2 inference request"),
    (b"[]", b"", "not a v2 inference request"),
    (b"\xff\xfe", b"", "not a v2 inference request"),
    ({"inputs": 7}, b"", "not a v2 inference request"),
    ({"inputs": [tensor(data=[1, 2])], "parameters": {"sequence_id": 5}}, b"", "keeps no state"),
    # sizes
    ({"inputs": [sized(8)]}, b"", r"'x' should be 8 bytes long .*; 0 bytes of the body are left"),
    ({"inputs": [sized(-8)]}, bytes(8), "'x' should be -8 bytes long"),
    ({"inputs": [sized(4)]}, bytes(4), "'x' of the shape .* must be 8 bytes long, not 4"),
    ({"inputs": [sized(8)]}, bytes(9), "1 bytes at the end of the body belong to no input"),
    ({"inputs": [sized(8, data=[1, 2])]}, bytes(8), "'x' has both"),
    ({"inputs": [tensor()]}, b"", "'x' has no data"),
    # shapes
    ({"inputs": [sized(8, shape=[-1, 2])]}, bytes(8), "'x' has a negative dimension"),
    ({"inputs": [sized(8, shape=[2**40, 2])]}, bytes(8), "'x' has more than the 1000000 values"),
    ({"inputs": [sized(0, shape=[2**62, 2**62, 0])]}, b"", "'x' has more than"),
    ({"inputs": [sized(8, shape=[10**40, 2])]}, bytes(8), "'x' has more than|not a v2"),
    ({"inputs": [sized(8, shape=[1.5, 2])]}, bytes(8), "not a v2 inference request"),
    ({"inputs": [sized(8, shape=[1] * 100)]}, bytes(8), "'x' has 100 dimensions, more than 32"),
    ({"inputs": [sized(8, shape=[2])]}, bytes(8), r"'x' must have 2 dimensions \[batch, 2\]"),
    ({"inputs": [sized(12, shape=[1, 3])]}, bytes(12), r"'x' must have the shape \[batch, 2\], not \[1, 3\]"),
    # values
    ({"inputs": [tensor(data=[1, 2, 3])]}, b"", r"'x' does not fit \[1, 2\]: it must be a list of 2 values"),
    ({"inputs": [tensor(data=[[1], [2, 3]])]}, b"", "'x' does not fit .* nested evenly"),
    ({"inputs": [tensor(data=7)]}, b"", "'x' is not a list"),
    ({"inputs": [tensor(data=["1", "2"])]}, b"", "'x' holds values that FP32 does not have"),
    ({"inputs": [tensor(data=[None, 2])]}, b"", "'x' holds values that FP32"),
    ({"inputs": [tensor(data=[1e300, 2])]}, b"", "'x' holds values that FP32"),
]


@pytest.mark.parametrize(("request_", "data", "words"), WRONG)
def test_a_malformed_request_is_refused_with_a_sentence(request_, data, words):
    with pytest.raises(RequestError, match=words) as caught:
        read(request_, data)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("port", "values"),
    [
        (N, [1, 128]),
        (N, [1.5]),
        (N, [True]),
        (N, [2**70]),
        (S, [1]),
        (B, [1]),
        (Port("n", "uint8", (None,)), [-1]),
        (Port("n", "float16", (None,)), [70000]),
    ],
)
def test_values_that_the_type_does_not_have_are_refused_and_not_rounded(port, values):
    given_ = tensor(port.name, DATATYPES[port.dtype], [len(values)], data=values)
    with pytest.raises(RequestError, match=f"'{port.name}' holds values that {DATATYPES[port.dtype]}"):
        read({"inputs": [given_]}, inputs=(port,))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x05\0\0\0abc", "String 0 of the input 's' ends behind"),
        (b"\xff\xff\xff\xffabc", "String 0 of the input 's' ends behind"),
        (b"\x01\0\0\0ab", "1 bytes at the end of the input 's' are no string"),
        (b"ab", "must hold 1 strings, which 2 bytes are too few for"),
    ],
)
def test_strings_that_lie_about_their_length_are_refused(data, words):
    asked = tensor("s", "BYTES", [1], parameters={"binary_data_size": len(data)})
    with pytest.raises(RequestError, match=words):
        read({"inputs": [asked]}, data, inputs=(S,))


def test_json_is_flat_or_nested_and_too_much_of_it_is_refused(monkeypatch):
    for data in ([1, 2, 3, 4], [[1, 2], [3, 4]]):
        found = read({"inputs": [tensor(shape=[2, 2], data=data)]})
        np.testing.assert_array_equal(found.feeds["x"], np.array([[1, 2], [3, 4]], np.float32))
        assert found.rows == 2
    with pytest.raises(RequestError, match="does not fit"):
        read({"inputs": [tensor(shape=[1, 2], data=[[[1, 2]]])]})
    monkeypatch.setattr("edgeopt_agent.v2.request.MAX_JSON_BYTES", 20)
    with pytest.raises(RequestError, match="send tensors as binary data") as caught:
        read({"inputs": [tensor(data=[1, 2])]})
    assert caught.value.status == 413


def test_tensors_are_not_copied_where_they_lie_well():
    data = bytearray(np.arange(4, dtype=np.float32).tobytes())
    asked = {"inputs": [sized(16, shape=[2, 2])]}
    found = read_request(json.dumps(asked).encode(), memoryview(data), (X,), (OUT,), MAX)
    assert np.shares_memory(found.feeds["x"], np.frombuffer(data, np.uint8))


def test_a_scalar_and_an_empty_batch_are_tensors_too():
    whole = {"inputs": [sized(0, shape=[0, 2]), tensor("b", "BOOL", [], data=[True])]}
    found = read(whole, inputs=(X, B))
    assert found.feeds["x"].shape == (0, 2)
    assert found.feeds["b"].shape == ()
    assert found.feeds["b"]


NUMBERS = [name for name in DATATYPES if name not in {"str", "bfloat16"}]


@given(st.sampled_from(NUMBERS).flatmap(lambda name: arrays_of.arrays(name, arrays_of.array_shapes(min_side=0))))
def test_what_is_written_is_read_again_bit_for_bit(array):
    port = Port("x", array.dtype.name, tuple(None for _ in array.shape))
    text, tensors = write_answer(("m", "1"), [(port, True)], {"x": array}, "id")
    answer = json.loads(text)
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("m", "1", "id")
    found = read({"inputs": answer["outputs"]}, b"".join(t.tobytes() for t in tensors), inputs=(port,))
    assert found.feeds["x"].dtype == array.dtype
    assert found.feeds["x"].tobytes() == array.tobytes()


@given(arrays_of.arrays(object, arrays_of.array_shapes(min_side=0), elements=st.text(max_size=20)), st.booleans())
def test_strings_are_read_as_they_were_written(array, binary):
    port = Port("x", "str", tuple(None for _ in array.shape))
    try:
        "".join(array.flat).encode()
    except UnicodeEncodeError:
        return
    text, tensors = write_answer(("m", "1"), [(port, binary)], {"x": array}, "")
    data = b"".join(t.tobytes() for t in tensors)
    found = read({"inputs": json.loads(text)["outputs"]}, data, inputs=(port,))
    assert found.feeds["x"].shape == array.shape
    assert list(found.feeds["x"].flat) == list(array.flat)


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_no_bytes_at_all_bring_it_down(text, data):
    with pytest.raises(RequestError):
        read(text, data)


@pytest.mark.parametrize("shape", [(0, 1 << 62), (1 << 62, 0), (0, 1 << 80)])
@pytest.mark.parametrize("how", [{"data": []}, {"parameters": {"binary_data_size": 0}}])
def test_a_tensor_without_values_may_not_be_huge_either(shape, how):
    with pytest.raises(RequestError, match=r"more than the \d+ values"):
        read({"inputs": [tensor("b", "BOOL", shape, **how)]}, inputs=(B,))


def test_a_string_keeps_the_nul_at_its_end():
    found = read({"inputs": [tensor("s", "BYTES", (2,), data=["a\0", "\0"])]}, inputs=(S,))
    assert found.feeds["s"].tolist() == ["a\0", "\0"]
    with pytest.raises(RequestError, match="values that BYTES does not have"):
        read({"inputs": [tensor("s", "BYTES", (2,), data=["a", 7])]}, inputs=(S,))


U = Port("u", "uint64", (None,))


@pytest.mark.parametrize("values", [[2**63, 1], [0, 2**64 - 1, 2**63 - 1], [2**64 - 1]])
def test_unsigned_integers_on_both_sides_of_two_to_the_63_are_read_exactly(values):
    found = read({"inputs": [tensor("u", "UINT64", [len(values)], data=values)]}, inputs=(U,))
    assert found.feeds["u"].dtype == np.uint64
    assert found.feeds["u"].tolist() == values


@pytest.mark.parametrize("values", [[2**63, -1], [2**63, 1.0], [2**64, 1]])
def test_what_is_no_unsigned_integer_beside_a_large_one_is_refused(values):
    with pytest.raises(RequestError, match="holds values that UINT64 does not have"):
        read({"inputs": [tensor("u", "UINT64", [len(values)], data=values)]}, inputs=(U,))


def test_null_is_the_same_as_left_out():
    plain = tensor(data=[1, 2])
    asked = {"inputs": [{**plain, "parameters": None}], "id": None, "parameters": None, "outputs": None}
    found = read(asked)
    assert (found.id, found.outputs) == ("", [(OUT, False)])
    nulls = {"binary_data_output": None, "sequence_id": None}
    found = read({"inputs": [plain], "outputs": [{"name": "y", "parameters": None}], "parameters": nulls})
    assert found.outputs == [(OUT, False)]


def test_strings_that_are_not_utf_8_are_carried_as_they_are():
    data = b"\x03\0\0\0a\xff\0\x02\0\0\0\xc3\xa4"
    asked = tensor("s", "BYTES", [2], parameters={"binary_data_size": len(data)})
    feeds = read({"inputs": [asked]}, data, inputs=(S,)).feeds
    _, tensors = write_answer(("m", "1"), [(S, True)], feeds, "")
    assert tensors[0].tobytes() == data
    with pytest.raises(RequestError, match="'s' holds bytes that are not UTF-8; ask for it as binary"):
        write_answer(("m", "1"), [(S, False)], feeds, "")
