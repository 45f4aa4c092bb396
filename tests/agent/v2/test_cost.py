"""What a body costs in CPU time, beside a plain one of its size; and where parsing can stop for a moment."""

import gzip
import time

import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

from edgeopt_agent.v2 import protobuf
from edgeopt_agent.v2.answer import write_answer
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.inflate import inflate
from edgeopt_agent.v2.request import read_request
from edgeopt_agent.v2.tensors import MOST_SLOW_NUMBERS
from edgeopt_agent.workers.frames import Port
from tests.agent.v2.test_bounds import peak_bytes

BODY_BYTES = 2 << 20
X = Port("x", "float64", (None,))
I = Port("x", "int64", (None,))  # noqa: E741
S = Port("x", "str", (None,))
OUT = Port("y", "float32", (None,))
MOST = 1 << 28


def numbers(literal, count=None):
    count = count or BODY_BYTES // (len(literal) + 1)
    data = ",".join([literal] * count)
    return f'{{"inputs":[{{"name":"x","shape":[{count}],"datatype":"FP64","data":[{data}]}}]}}'.encode()


def read(text, port=X, pause=lambda: None, data=b""):
    return read_request(text, memoryview(data), (port,), (OUT,), MOST, pause=pause)


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
    found = read(numbers("5e-324", MOST_SLOW_NUMBERS)).feeds["x"]
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
    found = protobuf.read_request(typed(many), (I,), (OUT,), MOST)
    np.testing.assert_array_equal(found.feeds["x"], many)


def test_values_of_one_byte_take_little_more_memory_than_their_array():
    message = typed(np.ones(BODY_BYTES, np.int64))
    assert peak_bytes(lambda: protobuf.read_request(message, (I,), (OUT,), MOST)) < 9 * BODY_BYTES


STRINGS = b"\1\0\0\0a" * 60_000
BINARY = b'{"inputs":[{"name":"x","shape":[60000],"datatype":"BYTES","parameters":{"binary_data_size":300000}}]}'
PARSED = {
    "numbers in JSON": (lambda pause: read(numbers("0.25"), pause=pause), BODY_BYTES >> 17),
    "strings": (lambda pause: read(BINARY, S, pause, STRINGS), 50),
    "typed values of gRPC": (
        lambda pause: protobuf.read_request(typed(np.ones(1 << 20, np.int64)), (I,), (OUT,), MOST, pause=pause),
        10,
    ),
    "a compressed body": (
        lambda pause: inflate(memoryview(gzip.compress(np.random.default_rng(0).bytes(BODY_BYTES))), "gzip",
                              BODY_BYTES, pause),
        BODY_BYTES >> 17,
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
