"""Requests and responses of gRPC without a server: every datatype, and what is wrong with them."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.messages import message_class
from edgeopt_agent.v2.protobuf import MAX_TYPED_BYTES, read_request, read_response, write_response
from edgeopt_agent.v2.wire import MAX_FIELDS, outer_fields, read_target
from edgeopt_agent.workers.frames import Port

MAX = 1 << 20
TYPED = {
    "bool": ("bool_contents", [True, False]),
    "int8": ("int_contents", [-128, 127]),
    "int16": ("int_contents", [-(1 << 15), 1]),
    "int32": ("int_contents", [-(1 << 31), 1]),
    "int64": ("int64_contents", [-(1 << 63), (1 << 63) - 1]),
    "uint8": ("uint_contents", [0, 255]),
    "uint16": ("uint_contents", [0, 65535]),
    "uint32": ("uint_contents", [0, (1 << 32) - 1]),
    "uint64": ("uint64_contents", [0, (1 << 64) - 1]),
    "float32": ("fp32_contents", [0.5, float("nan")]),
    "float64": ("fp64_contents", [0.1, float("inf")]),
    "str": ("bytes_contents", [b"", b"\xc3\xa4\xff"]),
}


def request(dtype="float32", shape=(2,), raw=None, more=None, **contents):
    x = pb.ModelInferRequest.InferInputTensor(name="x", datatype=DATATYPES[dtype], shape=shape)
    if contents:
        x.contents.CopyFrom(pb.InferTensorContents(**contents))
    return pb.ModelInferRequest(model_name="m", inputs=[x], raw_input_contents=raw or [], **(more or {}))


def read(message, dtype="float32", maximum=MAX):
    data = message if isinstance(message, bytes) else message.SerializeToString()
    port = Port("x", dtype, (None,))
    return read_request(memoryview(data), (port,), (Port("y", dtype, (None,)),), maximum)


def sample(dtype):
    if dtype == "str":
        return np.array(["ä", "", "b\0"], object)
    if dtype == "bfloat16":
        return np.array([1.5, -2, 0], ml_dtypes.bfloat16)
    return np.array([1, 0, 1]).astype(dtype)


@pytest.mark.parametrize("dtype", DATATYPES)
def test_raw_tensors_of_every_datatype_go_both_ways(dtype):
    array = sample(dtype)
    port = Port("x", dtype, (None,))
    head, parts = write_response(("m", "1"), [(port, False)], {"x": array}, "id")
    written = head + b"".join(part.tobytes() for part in parts)
    response = pb.ModelInferResponse.FromString(written)
    assert (response.model_name, response.model_version, response.id) == ("m", "1", "id")
    assert (response.outputs[0].datatype, list(response.outputs[0].shape)) == (DATATYPES[dtype], [3])
    asked = request(dtype, (3,), list(response.raw_output_contents))
    feeds = read(asked, dtype).feeds
    assert feeds["x"].dtype == array.dtype
    assert (feeds["x"] == array).all()
    assert (read_response(memoryview(written), (port,))["x"] == array).all()


@pytest.mark.parametrize("dtype", TYPED)
def test_typed_contents_of_every_datatype_are_read_exactly(dtype):
    field, values = TYPED[dtype]
    found = read(request(dtype, **{field: values}), dtype).feeds["x"]
    texts = [str(each, "utf-8", "surrogateescape") if isinstance(each, bytes) else each for each in values]
    np.testing.assert_array_equal(found, np.array(texts, found.dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_go_raw_only(dtype):
    with pytest.raises(RequestError, match="raw_input_contents only"):
        read(request(dtype, fp32_contents=[1, 2]), dtype)


@pytest.mark.parametrize(
    ("sentence", "message", "dtype"),
    [
        ("INT8 does not have", request("int8", int_contents=[1, 128]), "int8"),
        ("UINT16 does not have", request("uint16", uint_contents=[1, 1 << 16]), "uint16"),
        ("must have 2 values in fp32_contents, not 0", request(), "float32"),
        ("must have 2 values in fp32_contents, not 0", request(int_contents=[1, 2]), "float32"),
        ("must have 2 values in fp32_contents, not 3", request(fp32_contents=[1, 2, 3]), "float32"),
        ("both contents and raw", request(raw=[bytes(8)], fp32_contents=[1, 2]), "float32"),
        ("has 2 tensors for 1 inputs", request(raw=[bytes(8), b""]), "float32"),
        ("must be 8 bytes long, not 7", request(raw=[bytes(7)]), "float32"),
        ("negative dimension", request(shape=(-1,), raw=[b""]), "float32"),
        ("more than the 1048576 values", request(shape=(1 << 40,), raw=[b""]), "float32"),
        (
            "not a ModelInferRequest: Expected",
            request(
                raw=[bytes(8)],
                more={"parameters": {"binary_data_output": pb.InferParameter(string_param="yes")}},
            ),
            "float32",
        ),
    ],
)
def test_wrong_requests_are_refused_with_a_sentence(sentence, message, dtype):
    with pytest.raises(RequestError, match=sentence) as caught:
        read(message, dtype)
    assert caught.value.status == 400


def test_large_typed_contents_are_to_be_sent_raw():
    count = MAX_TYPED_BYTES // 4 + 1
    with pytest.raises(RequestError, match="send tensors in raw_input_contents") as caught:
        read(request(shape=(count,), fp32_contents=np.zeros(count, np.float32)), maximum=1 << 30)
    assert caught.value.status == 413


def test_raw_tensors_may_be_larger_than_typed_ones():
    count = MAX_TYPED_BYTES // 4 + 1
    assert read(request(shape=(count,), raw=[bytes(count * 4)]), maximum=1 << 30).feeds["x"].shape == (count,)


def test_the_agent_walks_over_no_endless_message():
    with pytest.raises(RequestError, match=f"more than {MAX_FIELDS} fields"):
        read_target(b"\x22\x00" * (MAX_FIELDS + 1))


@pytest.mark.parametrize(
    "message", [b"\x0a\xff\x01", b"\x0b", b"\x80" * 11, b"\x0a", b"\x09\x00", b"\x0a\x01\xff"]
)
def test_broken_messages_are_refused(message):
    with pytest.raises(RequestError, match=r"not a protobuf message|not UTF-8"):
        read_target(message)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=64))
def test_no_bytes_break_the_reader(data):
    for reader in (read_target, read):
        try:
            reader(data)
        except RequestError:
            continue


@settings(deadline=None)
@given(
    st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.lists(st.binary(max_size=300), max_size=5)
)
def test_the_agent_finds_the_model_in_any_request(name, version, number, raw):
    message = pb.ModelInferRequest(model_name=name, model_version=version, id=number, raw_input_contents=raw)
    found = read_target(message.SerializeToString())
    assert (found.model_name, found.model_version, found.id) == (name, version, number)


def test_fields_that_it_does_not_know_are_passed_over():
    message = (
        request(raw=[bytes(8)]).SerializeToString() + b"\xa0\x06\x01\xa9\x06" + bytes(8) + b"\xad\x06" + bytes(4)
    )
    assert len(list(outer_fields(message))) == 6
    assert read(message).feeds["x"].shape == (2,)


METHODS = (
    *("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata"),
    *("ModelInfer", "ModelStatistics", "RepositoryIndex"),
)


def assert_part_of(own, published):
    """Each field of the one message is in the other, those of the messages in it too."""
    for field in own.fields:
        theirs = published.fields_by_name[field.name]
        assert (field.number, field.type, field.is_repeated) == (theirs.number, theirs.type, theirs.is_repeated)
        assert bool(field.containing_oneof) == bool(theirs.containing_oneof)
        if field.message_type is not None:
            assert_part_of(field.message_type, theirs.message_type)


@pytest.mark.parametrize("end", ["Request", "Response"])
@pytest.mark.parametrize("method", METHODS)
def test_field_numbers_and_types_are_those_of_the_published_schema(method, end):
    name = f"{method}{end}"
    assert_part_of(message_class(name).DESCRIPTOR, pb.DESCRIPTOR.message_types_by_name[name])


def test_answers_on_streams_are_those_of_the_published_schema():
    name = "ModelStreamInferResponse"
    assert_part_of(message_class(name).DESCRIPTOR, pb.DESCRIPTOR.message_types_by_name[name])
