import asyncio
from itertools import repeat

import pytest

from edgeopt_agent.workers.channel import Channel
from edgeopt_agent.workers.frames import Answered, Infer, head
from edgeopt_agent.workers.lanes import LARGE_BYTES, Lanes, is_large
from tests.agent.workers.test_channel import Wire, feed

LARGE = [bytes(LARGE_BYTES + 1)]
SMALL = [b"small"]


def with_lanes(check):
    async def run():
        channels = Channel(), Channel()
        for channel in channels:
            channel.connection_made(Wire())
        check(Lanes(*channels), *channels)

    asyncio.run(run())


def test_a_small_request_is_answered_before_a_large_one_that_came_first():
    def check(lanes, small, large):
        first, second = lanes.ask(Infer(), 0, LARGE), lanes.ask(Infer(), 0, SMALL)
        assert lanes.channel_of(first) is large
        assert lanes.channel_of(second) is small
        feed(small, head(Answered(200, 2.0)), repeat(1000))
        assert second.result().message.compute_ms == 2.0
        assert not first.done()
        assert lanes.unanswered_bytes == len(LARGE[0])
        assert lanes.waiting

    with_lanes(check)


@pytest.mark.parametrize(
    ("body", "encoding", "large"), [(SMALL, "", False), (LARGE, "", True), (SMALL, "gzip", True)]
)
def test_compressed_bodies_are_large_ones(body, encoding, large):
    assert is_large(body, encoding) is large


@pytest.mark.parametrize("first_to_close", [0, 1])
def test_a_worker_without_memory_ended_by_its_large_request(first_to_close):
    def check(lanes, small, large):
        asked = Infer("gzip"), Infer()
        futures = [lanes.ask(message, 0, SMALL) for message in asked]
        for channel in (small, large)[:: 1 if first_to_close else -1]:
            channel.connection_lost(None)
        assert lanes.working_on is asked[0]
        assert lanes.closed
        assert all(future.exception() for future in futures)

    with_lanes(check)
