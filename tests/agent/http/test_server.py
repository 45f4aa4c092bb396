import asyncio
import http.client
import json
import logging
import socket
import subprocess
import sys
import threading
import time

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from websockets.sync.client import connect

from edgeopt.errors import UsageError
from edgeopt_agent.http import plain, telemetry
from edgeopt_agent.http.cycle import Cycle
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


def test_memory_of_large_bodies_is_returned_outside_the_event_loop(monkeypatch):
    threads = []
    monkeypatch.setattr(plain, "GIVE_BACK_AFTER_S", 0.01)
    monkeypatch.setattr(plain, "give_back", lambda: threads.append(threading.current_thread()))

    async def use():
        limit = plain.BodyMemoryLimit(1 << 30)
        limit.take(plain.WORTH_GIVING_BACK_BYTES + 1)
        limit.give_back(plain.WORTH_GIVING_BACK_BYTES + 1)
        async with asyncio.timeout(20):
            while not threads:
                await asyncio.sleep(0.01)

    asyncio.run(use())
    assert threads != [threading.main_thread()]


LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_a_connection_closes_once_it_is_idle_for_the_limit(serving, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.server.KEEP_ALIVE_S", 2.0)
    with socket.create_connection(("127.0.0.1", serving().port), timeout=20) as client:
        for _ in range(9):
            asked_s = time.monotonic()
            client.sendall(LIVE)
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.25)  # a busy machine makes it longer, which must stay below the limit
        assert client.recv(1) == b""
        assert time.monotonic() - asked_s > 1.9


def test_the_limit_of_requests_does_not_close_a_websocket(serving, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.server.KEEP_ALIVE_S", 1.5)
    port = serving().port
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(LIVE)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        with connect(f"ws://localhost:{port}{telemetry.PATH}", sock=client) as viewer:
            end = time.monotonic() + 2.5
            while time.monotonic() < end:
                viewer.recv(10)


def test_what_no_route_knows_gets_an_error_of_the_control_api(serving):
    connection = http.client.HTTPConnection(serving().place)
    for method, path, status, code in (
        ("GET", "/api/v1/nothing", 404, "not-found"),
        ("PUT", "/metrics", 405, "not-allowed"),
    ):
        connection.request(method, path)
        answer = connection.getresponse()
        error = json.loads(answer.read())["error"]
        assert (answer.status, error["code"]) == (status, code)
        assert error["message"].endswith("on this agent.")
        assert error["hint"]
    connection.close()


def test_the_agent_routes_bytes_and_never_loads_what_computes():
    heavy = ("numpy", "onnx", "onnxruntime", "openvino", "scipy", "rich")
    program = f"import sys, edgeopt_agent.service; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def server(serving_all):
    return serving_all()


def talk(server, head):
    """The status, the headers and the document that bytes on the wire are answered with."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer, json.loads(answer.read())


PATHS = ("/v2", "/v2/models/null/infer", "/metrics", "/api/v1/status")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ("Host: localhost\r\nOrigin: http://evil.example", 403, "from web pages"),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site", 403, "from web pages"),
        ("Host: evil.example:8080", 403, "addressed as 'evil.example:8080'"),
        ("Host: localhost\r\nHost: evil.example", 400, "has 2 Host headers"),
        ("X-Nothing: 1", 400, "has no Host header"),
        ("Host: localhost\r\nTransfer-Encoding: gzip, chunked", 501, "'gzip, chunked' is not supported"),
        ("Host: localhost\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 501, "not supported"),
    ],
)
def test_what_a_web_page_or_a_smuggler_sends_is_refused_on_every_route(server, path, headers, status, words):
    found, answer, document = talk(server, f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode())
    error = document["error"]
    assert (found, answer.getheader("connection")) == (status, "close")
    assert words in (error if path.startswith("/v2") else error["message"])


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8080"])
def test_the_names_of_the_device_itself_are_answered(server, host):
    assert talk(server, f"GET /v2 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[0] == 200


def test_nothing_is_redirected_to_where_a_host_header_says(server):
    status, answer, document = talk(server, b"GET /metrics/ HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
    assert (status, answer.getheader("location")) == (404, None)
    assert "trailing slash" in document["error"]["hint"]


@pytest.mark.parametrize("path", ["/", "/v2/models"])
def test_a_path_that_leads_nowhere_says_where_the_routes_are(server, path):
    status, _answer, document = talk(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert status == 404
    assert "docs/agent.md lists the routes." in str(document)


START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]}
BODY = {"type": "http.response.body", "body": b"body"}
HEAD = b"HTTP/1.1 200 OK\r\nserver: edgeopt-agent\r\ncontent-length: 4\r\n\r\n"


class Recorder:
    """What reaches the wire, one entry a packet."""

    def __init__(self):
        self.packets = []

    def write(self, data):
        self.packets.append(bytes(data))

    def writelines(self, parts):
        self.packets.append(b"".join(parts))

    def close(self):
        self.packets.append("closed")

    def is_closing(self):
        return "closed" in self.packets


def written(app, method="GET", keep_alive=True):
    async def run():
        recorder = Recorder()
        cycle = Cycle(
            scope={"type": "http", "method": method},
            transport=recorder,
            flow=FlowControl(recorder),
            logger=logging.getLogger(__name__),
            access_logger=logging.getLogger(__name__),
            access_log=False,
            default_headers=[(b"server", b"edgeopt-agent")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=lambda: None,
        )
        await cycle.run_asgi(app)
        return recorder.packets

    return asyncio.run(run())


def sending(*messages):
    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    return app


def test_head_and_body_are_one_packet():
    assert written(sending(START, BODY)) == [HEAD + b"body"]


def test_an_answer_to_head_has_no_body():
    assert written(sending(START, BODY), method="HEAD") == [HEAD]


def test_a_length_is_added_where_none_is_stated():
    packets = written(sending({**START, "headers": []}, BODY))
    assert packets == [HEAD + b"body"]
    (packet,) = written(sending({**START, "status": 204, "headers": []}, {**BODY, "body": b""}))
    assert b"content-length" not in packet


@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_connection_closes_where_either_side_wants_it(keep_alive):
    headers = [*START["headers"], (b"connection", b"close")] if keep_alive else START["headers"]
    packets = written(sending({**START, "headers": headers}, BODY), keep_alive=keep_alive)
    assert packets == [HEAD[:-2] + b"connection: close\r\n\r\nbody", "closed"]


def test_a_body_in_pieces_follows_its_head():
    packets = written(sending(START, {**BODY, "body": b"bo", "more_body": True}, {**BODY, "body": b"dy"}))
    assert b"".join(packets) == HEAD + b"body"


def test_a_large_body_is_not_copied_and_arrives_whole():
    large = b"x" * 100_000
    start = {**START, "headers": [(b"content-length", b"100000")]}
    (packet,) = written(sending(start, {**BODY, "body": memoryview(large)}))
    assert packet.endswith(b"\r\n\r\n" + large)


@pytest.mark.parametrize(
    "messages",
    [
        [START],
        [{**START, "headers": [(b"content-length", b"5")]}, BODY],
        [{**START, "headers": [(b"x", b"1\r\nevil: 1")]}, BODY],
    ],
)
def test_a_wrong_answer_becomes_an_error(messages):
    (packet, *_) = written(sending(*messages))
    assert packet.startswith(b"HTTP/1.1 500")
    assert b"evil" not in packet


def test_a_real_answer_is_one_packet(serving):
    with socket.create_connection(("127.0.0.1", serving().port)) as client:
        client.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = client.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body.endswith(b"}")
