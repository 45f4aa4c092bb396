"""Which calls may read their messages, and how those that do not come at once are ended."""

import asyncio
import socket
import threading
from collections import Counter

import grpc
import pytest

from edgeopt_agent.grpc import calls as calls_module
from edgeopt_agent.grpc.calls import Calls
from edgeopt_agent.grpc.methods import SERVICE
from edgeopt_agent.grpc.places import QUICK_S, Places, ReadLimits
from edgeopt_agent.grpc.received import ReceivedBytes
from edgeopt_agent.grpc.server import serving
from edgeopt_agent.http.access import Access
from edgeopt_agent.http.plain import WORTH_GIVING_BACK_BYTES
from edgeopt_agent.settings import Settings
from edgeopt_agent.v2.wire import bytes_field
from edgeopt_agent.workers.frames import Answered
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.outcomes import Answer
from edgeopt_agent.workers.router import QueueFullError
from tests.ports import free_port

MIB = 1 << 20
SECONDS_PLACES = 60
LIMITS = ReadLimits(places=4, max_bytes=64 * MIB, message_bytes=64 * MIB, slow_each=4, silent_s=SECONDS_PLACES)


class Connections:
    """What has come on connections; those of `arriving` receive that many bytes between two looks."""

    def __init__(self, **arriving):
        self.arriving = arriving
        self.total = Counter()

    def __call__(self, peers):
        self.total.update(self.arriving)
        return {peer: self.total[peer] for peer in peers}


def enter(places, connection, ended, limit_s=SECONDS_PLACES):
    """A reader whose error goes to `ended` with its connection."""
    return places.enter(connection, limit_s, lambda error: ended.append((connection, error)))


async def until(found):
    async with asyncio.timeout(SECONDS_PLACES):
        while not found():
            await asyncio.sleep(QUICK_S / 10)


def test_slow_messages_keep_no_quick_one_waiting():
    async def run():
        places, ended = Places(LIMITS, Connections(a=MIB, b=MIB)), []
        slow = [enter(places, connection, ended) for connection in ("a", "a", "b", "b")]
        other = enter(places, "c", ended)
        assert other.turn is not None
        assert not other.turn.done()
        async with asyncio.timeout(SECONDS_PLACES):
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


CALLS = 20
MESSAGE = b"\x0a\x04null"
METHOD = f"/{SERVICE}/ModelInfer"


class Echo:
    """Answers without a worker."""

    async def infer(self, request):
        await asyncio.sleep(0)
        return Answer(Answered(200, 0.0), request.parts[0])


async def tasks_of_calls(port):
    """How many tasks the calls of a client in this event loop and their server make."""
    made = []
    loop = asyncio.get_running_loop()

    def factory(loop, coroutine, **options):
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(METHOD)
        assert await call(MESSAGE) == MESSAGE
        loop.set_task_factory(factory)
        for _ in range(CALLS):
            await call(MESSAGE)
        loop.set_task_factory(None)
    return len(made) / CALLS


async def plain_tasks():
    async def echo(message, _context):
        return message

    handler = grpc.method_handlers_generic_handler(
        SERVICE, {"ModelInfer": grpc.unary_unary_rpc_method_handler(echo)}
    )
    server = grpc.aio.server(handlers=(handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        return await tasks_of_calls(port)
    finally:
        await server.stop(None)


def serve(folder):
    settings = Settings(data_dir=folder, grpc_port=free_port())
    calls = Calls(settings, Access("127.0.0.1", folder / "tokens"), lambda: "unsigned")
    return serving(Models(Echo()), settings, calls, None, asyncio.Event(), 1.0)


def test_a_call_takes_one_task_more_than_the_library_alone(tmp_path):
    async def run():
        async with serve(tmp_path) as port:
            return await tasks_of_calls(port), await plain_tasks()

    ours, plain = asyncio.run(run())
    assert ours <= plain + 1.25  # a call of one's own may end a little later


def test_memory_of_large_messages_is_returned_outside_the_event_loop(tmp_path, monkeypatch):
    async def run():
        loop, done, threads = asyncio.get_running_loop(), asyncio.Event(), []

        def give_back():
            threads.append(threading.get_ident())
            loop.call_soon_threadsafe(done.set)

        monkeypatch.setattr(calls_module, "give_back", give_back)
        options = [("grpc.max_receive_message_length", -1)]
        async with serve(tmp_path) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
            size = WORTH_GIVING_BACK_BYTES
            await channel.unary_unary(METHOD)(MESSAGE + bytes_field(7, size) + bytes(size))
            await asyncio.wait_for(done.wait(), 60)
        return threads

    assert threading.get_ident() not in asyncio.run(run())
