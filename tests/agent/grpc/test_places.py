import asyncio
import itertools
import socket
from contextlib import suppress

import pytest

from edgeopt_agent.grpc.places import Places, received_bytes

MIB = 1 << 20
SECONDS = 60


async def hold(places, connection, lost):
    """Holds a place until it goes to another call."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS) as scope, places.place("1.2.3.4", connection, scope):
            await asyncio.Event().wait()
    lost.append(connection)


def test_a_silent_call_gives_way_and_a_slow_one_does_not():
    counts = itertools.count(step=MIB)

    async def run():
        places = Places(2, 0.05, lambda connection: next(counts) if connection == "slow" else 100)
        lost = []
        tasks = [asyncio.create_task(hold(places, connection, lost)) for connection in ("slow", "silent")]
        await asyncio.sleep(0)
        async with asyncio.timeout(SECONDS) as scope, places.place("1.2.3.4", "other", scope):
            await tasks[1]
            assert lost == ["silent"]
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize(("host", "peer"), [("127.0.0.1", "ipv4:127.0.0.1:{}"), ("::1", "ipv6:%5B::1%5D:{}")])
def test_the_bytes_of_a_connection_are_counted(host, peer):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.create_server((host, 0), family=family)
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b" " * 1000)
            accepted.recv(1000, socket.MSG_WAITALL)
            assert received_bytes(peer.format(client.getsockname()[1])) == 1000
    assert received_bytes(peer.format(1)) is None
