import asyncio
import gc
import os
from itertools import repeat
from pathlib import Path

import pytest

from edgeopt_agent.workers.channel import Channel
from edgeopt_agent.workers.frames import Answered, Infer, head
from edgeopt_agent.workers.lane_mark import LARGE, NONE, SMALL, LaneMark, new_descriptor
from edgeopt_agent.workers.lanes import LARGE_BYTES, Lanes, is_large
from tests.agent.workers.test_channel import Wire, feed

LARGE_BODY = [bytes(LARGE_BYTES + 1)]
SMALL_BODY = [b"small"]


def with_lanes(check):
    async def run():
        channels = Channel(), Channel()
        for channel in channels:
            channel.connection_made(Wire())
        check(Lanes(LaneMark(new_descriptor()), *channels), *channels)

    asyncio.run(run())


def test_a_small_request_is_answered_before_a_large_one_that_came_first():
    def check(lanes, small, large):
        first, second = lanes.ask(Infer(), 0, LARGE_BODY), lanes.ask(Infer(), 0, SMALL_BODY)
        assert lanes.channel_of(first) is large
        assert lanes.channel_of(second) is small
        feed(small, head(Answered(200, 2.0)), repeat(1000))
        assert second.result().message.compute_ms == 2.0
        assert not first.done()
        assert lanes.unanswered_bytes == len(LARGE_BODY[0])
        assert lanes.waiting

    with_lanes(check)


@pytest.mark.parametrize(
    ("body", "encoding", "large"), [(SMALL_BODY, "", False), (LARGE_BODY, "", True), (SMALL_BODY, "gzip", True)]
)
def test_compressed_bodies_are_large_ones(body, encoding, large):
    assert is_large(body, encoding) is large


@pytest.mark.parametrize("first_to_close", [0, 1])
@pytest.mark.parametrize("lane", [NONE, SMALL, LARGE])
def test_a_worker_ended_with_the_request_of_the_lane_it_worked_on(lane, first_to_close):
    async def run():
        mark, channels = LaneMark(new_descriptor()), (Channel(), Channel())
        lanes = Lanes(mark, *channels)
        for channel in channels:
            channel.connection_made(Wire())
        futures = [lanes.ask(Infer(), 0, body) for body in (SMALL_BODY, LARGE_BODY)]
        mark.set(lane)
        for channel in channels[:: 1 if first_to_close else -1]:
            channel.connection_lost(None)
        lanes.close_mark()
        assert [each.body for each in lanes.in_work] == {NONE: [], SMALL: [SMALL_BODY], LARGE: [LARGE_BODY]}[lane]
        assert lanes.closed
        assert all(future.exception() for future in futures)

    asyncio.run(run())


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
