"""Which calls may read their messages, and how those that do not come at once are ended."""

import asyncio
import socket
from collections import Counter

import pytest

from edgeopt_agent.grpc.places import QUICK_S, Places, ReadLimits
from edgeopt_agent.grpc.received import ReceivedBytes
from edgeopt_agent.workers.router import QueueFullError

MIB = 1 << 20
SECONDS = 60
LIMITS = ReadLimits(places=4, most_bytes=64 * MIB, message_bytes=64 * MIB, slow_each=4, silent_s=SECONDS)


class Connections:
    """What has come on connections; those of `arriving` receive that many bytes between two looks."""

    def __init__(self, **arriving):
        self.arriving = arriving
        self.total = Counter()

    def __call__(self, peers):
        self.total.update(self.arriving)
        return {peer: self.total[peer] for peer in peers}


def enter(places, connection, ended, limit_s=SECONDS):
    """A reader whose error goes to `ended` with its connection."""
    return places.enter(connection, limit_s, lambda error: ended.append((connection, error)))


async def until(found):
    async with asyncio.timeout(SECONDS):
        while not found():
            await asyncio.sleep(QUICK_S / 10)


def test_slow_messages_keep_no_quick_one_waiting():
    async def run():
        places, ended = Places(LIMITS, Connections(a=MIB, b=MIB)), []
        slow = [enter(places, connection, ended) for connection in ("a", "a", "b", "b")]
        other = enter(places, "c", ended)
        assert other.turn is not None
        assert not other.turn.done()
        async with asyncio.timeout(SECONDS):
            await other.turn
        assert not ended
        for each in (*slow, other):
            places.leave(each)

    asyncio.run(run())


def test_slow_messages_of_too_many_bytes_are_refused_one_by_one():
    async def run():
        places, ended = Places(LIMITS, Connections(a=30 * MIB, b=MIB)), []
        readers = [enter(places, connection, ended) for connection in ("b", "a", "a")]
        await until(lambda: ended)
        for each in readers:
            places.leave(each)
        return readers, ended

    readers, ended = asyncio.run(run())
    assert [connection for connection, _ in ended] == ["a"]
    assert isinstance(ended[0][1], QueueFullError)
    assert [reader.error for reader in readers] == [None, None, ended[0][1]]


def test_a_silent_call_ends_and_a_slow_one_does_not():
    async def run():
        limits = ReadLimits(4, 64 * MIB, MIB, 4, silent_s=2 * QUICK_S)
        places, ended = Places(limits, Connections(slow=2000)), []
        readers = [enter(places, connection, ended) for connection in ("slow", "silent")]
        await until(lambda: ended)
        await asyncio.sleep(4 * QUICK_S)
        for each in readers:
            places.leave(each)
        return ended

    ended = asyncio.run(run())
    assert [(connection, error.status) for connection, error in ended] == [("silent", 408)]


def test_a_client_with_fewer_calls_is_first():
    async def run():
        places, ended = Places(LIMITS, Connections()), []
        first = [enter(places, connection, ended) for connection in ("a", "a", "b", "b")]
        waiting = [enter(places, connection, ended) for connection in ("a", "a", "c")]
        places.leave(first[0])
        assert [each.turn.done() for each in waiting] == [False, False, True]

    asyncio.run(run())


def test_a_call_whose_client_is_gone_waits_no_longer():
    async def run():
        places, ended = Places(LIMITS, Connections()), []
        for connection in ("a", "a", "b", "b"):
            enter(places, connection, ended)
        gone = enter(places, "c", ended)
        gone.stop_waiting()
        assert gone.turn.done()
        assert gone.error is not None

    asyncio.run(run())


@pytest.mark.parametrize(("host", "peer"), [("127.0.0.1", "ipv4:127.0.0.1:{}"), ("::1", "ipv6:%5B::1%5D:{}")])
def test_the_bytes_of_a_connection_are_counted(host, peer):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.create_server((host, 0), family=family)
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        accepted, _ = server.accept()
        with accepted:
            name, received = peer.format(client.getsockname()[1]), ReceivedBytes()
            for total in (1000, 2000):  # found by a search, then remembered
                client.sendall(b" " * 1000)
                accepted.recv(1000, socket.MSG_WAITALL)
                assert received({name, peer.format(1)}) == {name: total}
