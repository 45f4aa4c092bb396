"""What one call costs the event loop."""

import asyncio
import threading

import grpc

from edgeopt_agent.grpc import calls as calls_module
from edgeopt_agent.grpc.calls import Calls
from edgeopt_agent.grpc.methods import SERVICE
from edgeopt_agent.grpc.server import serving
from edgeopt_agent.http.access import Access
from edgeopt_agent.http.plain import WORTH_GIVING_BACK_BYTES
from edgeopt_agent.settings import Settings
from edgeopt_agent.v2.wire import bytes_field
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.outcomes import Answer
from tests.agent.grpc.conftest import free_port

CALLS = 20
MESSAGE = b"\x0a\x04null"
METHOD = f"/{SERVICE}/ModelInfer"


class Echo:
    """Answers without a worker."""

    async def infer(self, _name, _version, body, **_options):
        await asyncio.sleep(0)
        return Answer(200, body, None, 0.0)


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
