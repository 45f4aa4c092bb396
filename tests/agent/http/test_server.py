import asyncio
import http.client
import json
import socket
import threading
import time

import pytest

from edgeopt.errors import UsageError
from edgeopt_agent.http.server import serve

ROW = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
REQUEST = json.dumps({"inputs": [ROW]}).encode()


async def app(scope, receive, send):
    raise AssertionError("nobody asks")


def test_a_taken_port_is_told_in_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"Port {port} of 127.0.0.1 is taken") as caught:
            asyncio.run(serve(app, "127.0.0.1", port, print, asyncio.Event()))
    assert "--port" in caught.value.hint


def test_an_address_of_another_machine_is_told_in_a_sentence():
    with pytest.raises(UsageError, match=r"Port 0 of 192\.0\.2\.1 is not an address of this machine"):
        asyncio.run(serve(app, "192.0.2.1", 0, print, asyncio.Event()))


def test_a_clean_stop_finishes_what_is_in_flight_and_lets_idle_connections_go(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle(latency_ms=600))
    idle = http.client.HTTPConnection(server.place)
    idle.request("GET", "/v2/health/live")
    assert idle.getresponse().status == 200
    got = []

    def ask():
        connection = http.client.HTTPConnection(server.place)
        connection.request("POST", "/v2/models/null/infer", REQUEST)
        got.append(connection.getresponse().status)
        connection.close()

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 5
    while not server.router.waiting:
        assert time.monotonic() < deadline
    server.stop()
    assert idle.sock.recv(1) == b"", "an idle connection waits for nothing"
    idle.close()
    thread.join(60)
    server.thread.join(60)
    assert got == [200]
    assert not server.thread.is_alive()


def test_a_stop_does_not_wait_for_those_who_never_finish(serving):
    server = serving(drain_s=0.3)
    with socket.create_connection(("127.0.0.1", server.port)) as stuck:
        stuck.sendall(b"POST /v2/models/null/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        begin = time.monotonic()
        server.stop()
        server.thread.join(60)
        assert time.monotonic() - begin < 60
    assert not server.thread.is_alive()


def test_every_answer_tells_the_trust_of_that_moment(serving):
    trust = ["unsigned"]
    server = serving(trust=lambda: trust[0])
    connection = http.client.HTTPConnection(server.place)
    for said in ("unsigned", "signed"):
        trust[0] = said
        for path in ("/v2/health/live", "/metrics", "/nowhere"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.getheader("edgeopt-trust") == said
            assert answer.getheader("date")
    connection.close()
