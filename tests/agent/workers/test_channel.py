import asyncio
from itertools import chain, repeat

from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt_agent.workers.channel import Channel, ChannelClosedError
from edgeopt_agent.workers.frames import Answered, head

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
