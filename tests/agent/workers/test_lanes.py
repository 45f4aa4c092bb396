import asyncio
import gc
import json
import os
from itertools import chain, repeat
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from edgeopt.bundle.runtime.session import load
from edgeopt_agent.workers import ending_requests
from edgeopt_agent.workers.channel import Channel, ChannelClosedError
from edgeopt_agent.workers.child_io import Frame
from edgeopt_agent.workers.ending_requests import EndingRequests
from edgeopt_agent.workers.frames import Answered, Infer, Load, Port, Signature, head
from edgeopt_agent.workers.lane_mark import LARGE, NONE, SMALL, LaneMark, new_descriptor
from edgeopt_agent.workers.lanes import Lanes
from edgeopt_agent.workers.requests import LARGE_BYTES, Request
from edgeopt_agent.workers.sequences import Sequences
from edgeopt_agent.workers.served import Served

LARGE_BODY = [bytes(LARGE_BYTES + 1)]
SMALL_BODY = [b"small"]


@pytest.mark.parametrize(
    ("body", "encoding", "large"), [(SMALL_BODY, "", False), (LARGE_BODY, "", True), (SMALL_BODY, "gzip", True)]
)
def test_compressed_bodies_are_large_ones(body, encoding, large):
    assert Request("null", None, body, encoding=encoding).is_large is large


@pytest.mark.parametrize("first_to_close", [0, 1])
@pytest.mark.parametrize("lane", [NONE, SMALL, LARGE])
def test_a_worker_ended_with_the_request_of_the_lane_it_worked_on(lane, first_to_close):
    async def run():
        mark, channels = LaneMark(new_descriptor()), (Channel(), Channel())
        lanes = Lanes(mark, *channels)
        for channel in channels:
            channel.connection_made(Wire())
        small, large = (Request("null", None, body) for body in (SMALL_BODY, LARGE_BODY))
        futures = [lanes.run(Infer(), request) for request in (small, large)]
        mark.set(lane)
        for channel in channels[:: 1 if first_to_close else -1]:
            channel.connection_lost(None)
        lanes.close_mark()
        assert [each.request for each in lanes.in_work] == {NONE: [], SMALL: [small], LARGE: [large]}[lane]
        assert lanes.closed
        assert all(future.exception() for future in futures)

    asyncio.run(run())


def test_the_requests_of_a_worker_that_begins_to_rest_can_be_asked_for():
    # A worker sets its mark at any time, so two reads of it may differ.
    lanes = [SMALL, *repeat(NONE, 9)]

    class Moving(LaneMark):
        def lane(self):
            return lanes.pop(0)

    assert Lanes(Moving(new_descriptor()), Channel(), Channel()).in_work == ()


def test_a_closed_mark_holds_no_descriptor():
    gc.collect()  # or what earlier tests left may close its own meanwhile
    before = open_descriptors()
    descriptor = new_descriptor()
    mark = LaneMark(descriptor)
    os.close(descriptor)
    mark.set(LARGE)
    mark.close()
    assert mark.lane() == LARGE
    assert open_descriptors() == before


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


SIZES = st.lists(st.sampled_from([0, 1, 100, 65_000, 65_536, 150_000]), min_size=1, max_size=4)


class Wire:
    def writelines(self, parts):
        pass


def feed(channel, data, cuts):
    """Gives the channel the bytes in pieces, each as long as its buffer allows at most."""
    place = 0
    while place < len(data):
        room = channel.get_buffer(-1)
        count = min(len(room), len(data) - place, next(cuts))
        room[:count] = data[place : place + count]
        channel.buffer_updated(count)
        place += count


@given(SIZES, st.lists(st.integers(1, 70_000), max_size=20))
@settings(max_examples=60, deadline=None)
def test_frames_arrive_whole_however_the_stream_is_cut(sizes, pieces):
    async def run():
        channel = Channel()
        channel.connection_made(Wire())
        futures = [channel.ask(Answered(200, float(k))) for k in range(len(sizes))]
        stream = b""
        for k, size in enumerate(sizes):
            text = min(size, 10)
            stream += head(Answered(200, float(k)), text, size - text) + bytes([k]) * size
        feed(channel, stream, chain(pieces, repeat(70_000)))
        for k, (size, future) in enumerate(zip(sizes, futures, strict=True)):
            got = future.result()
            assert got.message.compute_ms == k
            assert got.text_bytes == min(size, 10)
            assert bytes(got.body) == bytes([k]) * size

    asyncio.run(run())


def test_an_answer_that_nobody_waits_for_any_more_is_not_given_to_the_next():
    async def run():
        channel = Channel()
        channel.connection_made(Wire())
        first, second = channel.ask(Answered(200, 0.0)), channel.ask(Answered(200, 0.0))
        first.cancel()
        feed(channel, head(Answered(200, 1.0)) + head(Answered(200, 2.0)), repeat(1000))
        assert second.result().message.compute_ms == 2.0

    asyncio.run(run())


def test_all_who_wait_are_told_when_the_socket_closes():
    async def run():
        channel = Channel()
        channel.connection_made(Wire())
        waiting = channel.ask(Answered(200, 0.0))
        channel.connection_lost(None)
        late = channel.ask(Answered(200, 0.0))
        assert isinstance(waiting.exception(), ChannelClosedError)
        assert isinstance(late.exception(), ChannelClosedError)

    asyncio.run(run())


def test_strings_that_a_runtime_cannot_hold_are_the_fault_of_the_request(tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "strings.onnx")
    with load(tmp_path / "strings.onnx") as session:
        ports = (Port("x", "str", (None,)),), (Port("y", "str", (None,)),)
        loaded = Load(str(tmp_path), "a", 1 << 20, 1 << 20)
        served = Served(session, loaded, "strings", Signature(*ports), Sequences(session, {}, 0, 0.0))

        def ask(data):
            size = {"binary_data_size": len(data)}
            x = {"name": "x", "datatype": "BYTES", "shape": [1], "parameters": size}
            text = json.dumps({"inputs": [x]}).encode()
            return served.answer(Frame(Infer(), memoryview(text), memoryview(data)))

        answered, text, _ = ask(b"\x02\0\0\0a\xff")
        assert (answered.status, answered.fault) == (400, False)
        assert "not UTF-8" in json.loads(text)["error"]
        assert ask(b"\x02\0\0\0\xc3\xa4")[0].status == 200


POISON, OTHER, SAME_SIZE = [b"poi", b"son"], [b"longer body"], [b"plain."]


@pytest.fixture
def requests():
    return EndingRequests()


def test_one_request_counts_once_however_often_it_ends_the_worker(requests):
    assert [requests.note("new", [POISON]) for _ in range(3)] == [True, False, False]
    assert requests.times("new", [b"poison"]) == 3  # however it came in pieces
    assert requests.times("new", SAME_SIZE) == requests.times("old", POISON) == 0
    assert requests.note("new", [OTHER])
    assert requests.note("old", [POISON])


def test_a_request_that_is_answered_afterwards_was_not_the_cause_and_counts_anew(requests):
    requests.note("new", [POISON])
    requests.answered("new", SAME_SIZE)
    assert requests.times("new", POISON) == 1
    requests.answered("new", POISON)
    assert requests.times("new", POISON) == 0
    assert requests.note("new", [POISON])


def test_the_requests_of_a_batch_run_alone_until_the_cause_is_known(requests):
    assert requests.note("new", [OTHER, POISON])
    assert requests.suspected("new", OTHER)
    assert requests.times("new", POISON) == 0
    requests.answered("new", OTHER)
    assert not requests.suspected("new", OTHER)
    assert not requests.note("new", [POISON])  # its batch has counted
    assert requests.times("new", POISON) == 1


def test_only_so_many_are_remembered(requests, monkeypatch):
    monkeypatch.setattr(ending_requests, "KEPT", 2)
    for number in range(3):
        requests.note("new", [[b"%d" % number]])
    assert [requests.times("new", [b"%d" % number]) for number in range(3)] == [0, 1, 1]
