"""What a request may cost before it is known to be one: memory in proportion to its bytes, and no more objects."""

import gzip
import json
import resource
import time
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from edgeopt_agent.v2 import protobuf
from edgeopt_agent.v2.answer import write_answer
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.inflate import inflate
from edgeopt_agent.v2.request import MAX_ENVELOPE_BYTES, read_request
from edgeopt_agent.v2.tensors import MAX_SLOW_NUMBERS, MAX_STRINGS
from edgeopt_agent.v2.wire import bytes_field
from edgeopt_agent.workers.frames import Port

BODY_BYTES = 2 << 20
FACTOR, FIXED_BYTES = 4, 4 << 20
X = Port("x", "float32", (None, None), rank_known=False)
D = Port("x", "float64", (None,))
S = Port("x", "str", (None,))
OUT = Port("y", "float32", (None,))
MAX = 1 << 28


def repeated(piece, begin="[", end="]"):
    return begin + ",".join([piece] * (BODY_BYTES // (len(piece) + 1))) + end


def body(data="[1]", shape="[1]", datatype="FP32", before="", after=""):
    tensor = f'{{"name":"x","shape":{shape},"datatype":"{datatype}","data":{data}}}'
    return f'{{"inputs":[{before}{tensor}]{after}}}'.encode()


MANY = BODY_BYTES // 4
WORST = {
    "empty lists": (X, body(repeated("[]"))),
    "empty lists for a shape of them": (X, body(repeated("[]"), shape=f"[{BODY_BYTES // 3},0]")),
    "lists in lists": (X, body("[" * (BODY_BYTES // 2) + "]" * (BODY_BYTES // 2))),
    "objects": (X, body(repeated("{}"))),
    "a long string beside numbers": (
        X,
        body('["' + "a" * MANY + '",' + repeated("1", begin=""), shape=f"[{BODY_BYTES // 2 + 1}]"),
    ),
    "short strings for numbers": (X, body(repeated('""'), shape=f"[{BODY_BYTES // 3}]")),
    "more numbers than the shape has": (X, body(repeated("1"))),
    "fewer numbers than the shape has": (X, body("[1]", shape=f"[{MAX}]")),
    "short strings": (S, body(repeated('""'), f"[{BODY_BYTES // 3}]", "BYTES")),
    "more strings than the shape has": (S, body(repeated('"\\""'), "[1]", "BYTES")),
    "lists beside a string": (S, body(repeated("[]", end=',"a"]'), "[1]", "BYTES")),
    "dimensions": (X, body(shape=repeated("1"))),
    "large dimensions": (X, body(shape=repeated("1000"))),
    "inputs": (X, body(before=repeated('{"name":"","shape":[],"datatype":""}', "", ","))),
    "outputs": (X, body(after=',"outputs":' + repeated('{"name":""}'))),
    "unknown parameters": (X, body(after=',"parameters":{' + repeated('"a":{}', "", "") + "}")),
    "a long name": (X, body(after=f',"outputs":[{{"name":"{"a" * BODY_BYTES}"}}]')),
}


def peak_bytes(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", WORST)
def test_a_request_that_is_refused_has_taken_little_memory(name):
    port, text = WORST[name]

    def read():
        with pytest.raises(RequestError):
            read_request(text, memoryview(b""), (port,), (OUT,), MAX)

    assert peak_bytes(read) < FACTOR * len(text) + FIXED_BYTES


LAWFUL = {
    "digits": (X, "FP32", repeated("1"), [BODY_BYTES // 2]),
    "digits for eight bytes each": (D, "FP64", repeated("1"), [BODY_BYTES // 2]),
    "fractions": (X, "FP32", repeated("0.25"), [BODY_BYTES // 5]),
    "rows of one": (X, "FP32", repeated("[1]"), [BODY_BYTES // 4, 1]),
}


@pytest.mark.parametrize("name", LAWFUL)
def test_a_large_tensor_in_json_takes_little_more_memory_than_its_values(name):
    port, datatype, data, shape = LAWFUL[name]
    text = body(data, json.dumps(shape), datatype)
    found = []

    def read():
        found.append(read_request(text, memoryview(b""), (port,), (OUT,), MAX).feeds["x"])

    assert peak_bytes(read) < FACTOR * len(text) + FIXED_BYTES
    np.testing.assert_array_equal(found[0], np.full(shape, json.loads(data[1:5].strip("[],").split(",")[0])))


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([2, 2], [[1], [2, 3, 4]]),
        ([2, 2], [[1, 2, 3, 4], []]),
        ([2, 2], [[[1, 2], [3, 4]]]),
        ([2, 2], [[1, 2], 3, 4]),
        ([4], [[1, 2, 3, 4]]),
        ([0], [[]]),
        ([1], []),
    ],
)
def test_lists_of_another_shape_are_refused(shape, data):
    with pytest.raises(RequestError, match="does not fit"):
        read_request(body(json.dumps(data), json.dumps(shape)), memoryview(b""), (X,), (OUT,), MAX)


def test_the_largest_numbers_of_pieces_are_joined_in_order():
    values = np.arange(300_000, dtype=np.float32).reshape(3, 100_000)
    for data in (values.tolist(), values.ravel().tolist()):
        text = body(json.dumps(data, indent=1), "[3, 100000]")
        found = read_request(text, memoryview(b""), (X,), (OUT,), MAX).feeds["x"]
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("binary", [True, False])
def test_more_strings_than_are_read_are_refused_before_they_are_made(binary):
    count = MAX_STRINGS + 1
    sent = bytes(4 * count) if binary else b""
    data = "null" if binary else "[" + ",".join(['""'] * count) + "]"
    text = body(data, f"[{count}]", "BYTES")
    if binary:
        text = text.replace(b'"data":null', f'"parameters":{{"binary_data_size":{len(sent)}}}'.encode())
    with pytest.raises(RequestError, match=f"at most {MAX_STRINGS} are taken") as caught:
        read_request(text, memoryview(sent), (S,), (OUT,), MAX)
    assert caught.value.status == 413


def test_an_envelope_of_names_and_parameters_is_bounded():
    text = body(after=f',"id":"{"a" * MAX_ENVELOPE_BYTES}"')
    with pytest.raises(RequestError, match="besides the values of its inputs") as caught:
        read_request(text, memoryview(b""), (X,), (OUT,), MAX)
    assert caught.value.status == 413


def from_wire(message, port=X):
    return protobuf.read_request(memoryview(message), (port,), (OUT,), MAX)


def input_of(**fields):
    return pb.ModelInferRequest.InferInputTensor(name="x", **fields).SerializeToString()


def in_field(number, content):
    return bytes_field(number, len(content)) + content


EMPTY_PARAMETER = in_field(4, b"")
EMPTY_STRING = in_field(8, b"")
MILLION = 1 << 20
WIRE = {
    "parameters": (EMPTY_PARAMETER * MILLION, "more than 4096 fields"),
    "parameters of an input": (in_field(5, input_of() + EMPTY_PARAMETER * MILLION), "fields"),
    "parameters of many inputs": (in_field(5, EMPTY_PARAMETER * 1000) * 5, "fields"),
    "parameters of an output": (in_field(6, EMPTY_PARAMETER * MILLION), "fields"),
    "empty strings": (
        in_field(5, input_of(datatype="BYTES", shape=[1]) + in_field(5, EMPTY_STRING * MILLION)),
        "fields",
    ),
    "dimensions": (in_field(5, input_of() + in_field(3, bytes([1]) * MILLION)), "besides the values"),
    "a long name": (in_field(5, in_field(1, b"a" * MILLION)), "besides the values"),
}


@pytest.mark.parametrize("name", WIRE)
def test_the_library_never_gets_a_message_of_many_objects(name, monkeypatch):
    message, words = WIRE[name]
    parsed = []
    real = protobuf.message_class

    def counted(kind):
        made = real(kind)()
        return lambda: _Watched(made, parsed)

    monkeypatch.setattr(protobuf, "message_class", counted)
    with pytest.raises(RequestError, match=words):
        from_wire(message, S)
    assert sum(parsed) < MAX_ENVELOPE_BYTES


class _Watched:
    """A message that tells how many bytes it was given."""

    def __init__(self, message, parsed):
        self._message, self._parsed = message, parsed

    def ParseFromString(self, data):  # noqa: N802 - the library's name
        self._parsed.append(len(data))
        self._message.ParseFromString(data)

    def __getattr__(self, name):
        return getattr(self._message, name)


def test_typed_values_of_grpc_are_read_chunk_by_chunk():
    values = np.arange(-50_000, 50_000)
    port = Port("x", "int64", (None,))
    contents = pb.InferTensorContents(int64_contents=values)
    message = in_field(5, input_of(datatype="INT64", shape=[values.size], contents=contents))
    np.testing.assert_array_equal(from_wire(message, port).feeds["x"], values)
    unpacked = b"".join(b"\x18" + bytes([value]) for value in (1, 2, 3))
    message = in_field(5, input_of(datatype="INT64", shape=[3]) + in_field(5, unpacked))
    np.testing.assert_array_equal(from_wire(message, port).feeds["x"], [1, 2, 3])


BODY_BYTES_COST = 2 << 20
X_COST = Port("x", "float64", (None,))
I = Port("x", "int64", (None,))  # noqa: E741


def numbers(literal, count=None):
    count = count or BODY_BYTES_COST // (len(literal) + 1)
    data = ",".join([literal] * count)
    return f'{{"inputs":[{{"name":"x","shape":[{count}],"datatype":"FP64","data":[{data}]}}]}}'.encode()


def read(text, port=X_COST, pause=lambda: None, data=b""):
    return read_request(text, memoryview(data), (port,), (OUT,), MAX, pause=pause)


def cpu_s(work):
    """The least of three times, because another process may take the core's cache."""
    times = []
    for _ in range(3):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return min(times)


@pytest.mark.parametrize("literal", ["5e-324", "2.2250738585072011e-308", "1.7976931348623157e308", "5E-0324"])
def test_numbers_that_are_slow_to_read_are_bounded(literal):
    def refused():
        with pytest.raises(RequestError, match="exponents of three digits"):
            read(numbers(literal))

    plain, slow = numbers("0.25"), numbers(literal)
    assert abs(len(plain) - len(slow)) < 100
    assert cpu_s(refused) < 20 * cpu_s(lambda: read(plain))


def test_a_few_numbers_with_long_exponents_are_read():
    found = read(numbers("5e-324", MAX_SLOW_NUMBERS)).feeds["x"]
    assert (found == 5e-324).all()
    assert (read(numbers("1e-99")).feeds["x"] == 1e-99).all()


@pytest.mark.parametrize("number", ["9" * (1 << 17), "1e" + "9" * (1 << 17), " " * (1 << 17) + "1"])
def test_a_number_without_end_is_refused_before_it_is_read(number):
    with pytest.raises(RequestError, match="number of more than"):
        read(numbers(number, 1))


def test_an_answer_in_json_takes_little_more_memory_than_its_values():
    results = {"y": np.zeros(1 << 20, np.float32)}
    wanted = [(OUT, False)]
    assert peak_bytes(lambda: write_answer(("m", "1"), wanted, results, "")) < 4 * results["y"].nbytes + (4 << 20)


def typed(values):
    contents = pb.InferTensorContents(int64_contents=values)
    tensor = pb.ModelInferRequest.InferInputTensor(
        name="x", datatype="INT64", shape=[len(values)], contents=contents
    )
    return memoryview(pb.ModelInferRequest(inputs=[tensor]).SerializeToString())


@pytest.mark.parametrize("values", [[1, -1], [1, 300, 70_000, -5, 2**40, 2**63 - 1]])
def test_varints_of_several_lengths_are_read(values):
    many = np.tile(np.array(values, np.int64), 40_000)
    found = protobuf.read_request(typed(many), (I,), (OUT,), MAX)
    np.testing.assert_array_equal(found.feeds["x"], many)


def test_values_of_one_byte_take_little_more_memory_than_their_array():
    message = typed(np.ones(BODY_BYTES_COST, np.int64))
    assert peak_bytes(lambda: protobuf.read_request(message, (I,), (OUT,), MAX)) < 9 * BODY_BYTES_COST


STRINGS = b"\1\0\0\0a" * 60_000
BINARY = b'{"inputs":[{"name":"x","shape":[60000],"datatype":"BYTES","parameters":{"binary_data_size":300000}}]}'
PARSED = {
    "numbers in JSON": (lambda pause: read(numbers("0.25"), pause=pause), BODY_BYTES_COST >> 17),
    "strings": (lambda pause: read(BINARY, S, pause, STRINGS), 50),
    "typed values of gRPC": (
        lambda pause: protobuf.read_request(typed(np.ones(1 << 20, np.int64)), (I,), (OUT,), MAX, pause=pause),
        10,
    ),
    "a compressed body": (
        lambda pause: inflate(memoryview(gzip.compress(np.random.default_rng(0).bytes(BODY_BYTES_COST))), "gzip",
                              BODY_BYTES_COST, pause),
        BODY_BYTES_COST >> 17,
    ),
    "an answer in JSON": (
        lambda pause: write_answer(
            ("m", "1"), [(OUT, False)], {"y": np.zeros(1 << 20, np.float32)}, "", pause
        ),
        50,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARSED)
def test_a_large_body_is_read_and_written_with_pauses(name):
    work, fewest = PARSED[name]
    pauses = []
    work(lambda: pauses.append(None))
    assert len(pauses) >= fewest


@given(st.binary(max_size=5000))
def test_what_was_compressed_comes_back(body):
    assert inflate(memoryview(gzip.compress(body, mtime=0)), "gzip", 5000) == body
    assert inflate(memoryview(zlib.compress(body)), "deflate", 5000) == body


def test_a_small_body_does_not_inflate_to_the_largest():
    bomb = memoryview(gzip.compress(bytes(16 << 20)))
    with pytest.raises(RequestError, match="allowed for its size") as caught:
        inflate(bomb, "gzip", 64 << 20)
    assert caught.value.status == 413
    body = memoryview(gzip.compress(bytes(1 << 20)))
    assert len(inflate(body, "gzip", 64 << 20)) == 1 << 20


def test_exactly_the_limit_is_allowed_and_one_byte_more_is_not():
    assert len(inflate(memoryview(gzip.compress(bytes(1000))), "gzip", 1000)) == 1000
    with pytest.raises(RequestError, match="more than the 1000 bytes") as caught:
        inflate(memoryview(gzip.compress(bytes(1001))), "gzip", 1000)
    assert caught.value.status == 413


def test_a_bomb_takes_no_more_memory_than_is_allowed():
    bomb = memoryview(gzip.compress(bytes(256 << 20), 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RequestError):
        inflate(bomb, "gzip", 1 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize(
    "body", [b"", b"plain", gzip.compress(b"a", mtime=0)[:-1], gzip.compress(b"a", mtime=0) + b"more"]
)
def test_what_is_not_one_whole_stream_is_refused(body):
    with pytest.raises(RequestError) as caught:
        inflate(memoryview(body), "gzip", 1000)
    assert caught.value.status == 400
