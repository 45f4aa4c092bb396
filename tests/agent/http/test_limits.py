"""What a client may not do, by raw sockets: the server answers, or hangs up, and goes on."""

import json
import select
import socket
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from edgeopt.hw.load import process_memory_bytes
from edgeopt_agent.http import guard
from edgeopt_agent.http.early import RateLimit
from edgeopt_agent.http.guard import GuardedProtocol
from edgeopt_agent.http.plain import BodyDeadline

ROW = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
REQUEST = json.dumps({"inputs": [ROW]}).encode()
HEAD = b"POST /v2/models/null/infer HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def served(serving, null_bundle):
    def start(**changes):
        server = serving(**changes)
        server.deploy(null_bundle())
        return server

    return start


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def talk(server, *pieces):
    """Sends the pieces, and returns what comes back until the server hangs up or is done."""
    with connected(server) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return answer_of(connection)


def answer_of(connection):
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            return 0, received
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += connection.recv(65536)
    return int(head.split()[1]), body, fields


def test_a_length_that_is_too_large_is_refused_before_the_body(served):
    server = served(max_body_bytes=1000)
    status, body, fields = talk(server, HEAD + b"Content-Length: 1001\r\n\r\n")
    assert status == 413
    assert "at most 1000" in json.loads(body)["error"]
    assert fields[b"connection"] == b"close"


def test_a_chunked_body_is_taken_and_bounded_as_well(served):
    server = served(max_body_bytes=1000)
    chunks = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(REQUEST), REQUEST)
    assert talk(server, chunks, whole)[0] == 200
    endless = b"190\r\n" + b" " * 400 + b"\r\n"
    assert talk(server, chunks, endless, endless, endless)[0] == 413


def test_a_body_that_comes_too_slowly_is_given_up(served):
    server = served(body_timeout_s=0.3)
    status, body, _ = talk(server, HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST), REQUEST[:10])
    assert status == 408
    assert "did not arrive in time" in json.loads(body)["error"]


def test_the_deadline_of_a_body_follows_its_progress():
    deadline = BodyDeadline(30.0, 100.0)
    assert deadline.left_s(10, 100.0) == 30.0
    assert deadline.left_s(4 << 20, 101.0) == 30.0, "what came before buys no silence"
    assert deadline.left_s(1 << 10, 130.0) == pytest.approx(1 + 1 / 64), "a byte now and then is no progress"
    assert deadline.left_s(64 << 10, 131.0) == pytest.approx(1 + 1 / 64)


def test_silent_senders_leave_no_memory_behind(start_agent):
    agent = start_agent(body_timeout_s=0.5)
    head = HEAD + b"Content-Length: %d\r\n\r\n" % (32 << 20)
    before = process_memory_bytes(agent.process.pid)
    for _ in range(4):
        with ExitStack() as stack:
            senders = [stack.enter_context(connected(agent)) for _ in range(16)]
            for sender in senders:
                sender.sendall(head + b" " * (4 << 20))
            assert process_memory_bytes(agent.process.pid) - before > 32 << 20
            assert [answer_of(sender)[0] for sender in senders] == [408] * 16
    while process_memory_bytes(agent.process.pid) - before > 16 << 20:  # the test's own limit ends it
        assert agent.process.poll() is None


def test_a_slow_client_delays_nobody_else(served):
    server = served()
    with connected(server) as slow:
        slow.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST))
        for _ in range(3):
            assert talk(server, HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST), REQUEST)[0] == 200
        slow.sendall(REQUEST)
        assert answer_of(slow)[0] == 200


def test_a_head_that_never_ends_is_given_up(served, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.guard.HEAD_TIMEOUT_S", 0.3)
    server = served()
    with connected(server) as silent, connected(server) as slow:
        slow.sendall(HEAD)
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""


def test_a_head_that_is_too_large_is_given_up(served):
    server = served()
    with connected(server) as flood, pytest.raises((ConnectionResetError, BrokenPipeError)):  # noqa: PT012
        flood.sendall(HEAD)
        for _ in range(1000):
            flood.sendall(b"X-More: " + b"x" * 5000 + b"\r\n")
        while flood.recv(65536):
            pass
        raise ConnectionResetError
    assert talk(server, HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST), REQUEST)[0] == 200


HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
VIEWER = b"GET /api/v1/telemetry HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE
SERVER = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("limit", ["MAX_CONNECTIONS", "MAX_OF_AN_ADDRESS"])
def test_who_holds_all_connections_locks_out_neither_health_nor_control(served, monkeypatch, limit):
    monkeypatch.setattr(f"edgeopt_agent.http.connections.{limit}", 3)
    monkeypatch.setattr("edgeopt_agent.http.connections.RESERVED_CONNECTIONS", 2)
    monkeypatch.setattr("edgeopt_agent.http.connections.IDLE_S", 600.0)
    server = served()
    with ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(connected(server))
            connection.sendall(HEALTH)
            assert answer_of(connection)[0] == 200
        silent = [stack.enter_context(connected(server)) for _ in range(5)]
        for asked in (HEALTH, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            status, _, fields = talk(server, asked)
            assert (status, fields[b"connection"]) == (200, b"close")
        status, body, fields = talk(server, SERVER)
        assert (status, fields[b"connection"], fields[b"retry-after"]) == (503, b"close", b"1")
        assert "Too many connections" in json.loads(body)["error"]
        assert talk(server, VIEWER)[0] == 503
        assert len(silent) == 5


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /api/v1/telemetry?zz=1 HTTP/1.1\r\nHost: localhost\r\n", 400),
        (b"GET /api/v1/telemetry HTTP/1.1\r\nHost: evil.example\r\n", 403),
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n", 403),
        (b"GET /api/v1/telemetry HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 20000 + b"\r\n", 431),
        (b"GET /api/v1/telemetry HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 300, 431),
        (b"GET /api/v1/telemetry?model=" + b"x" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n", 414),
        (b"POST /api/v1/telemetry HTTP/1.1\r\nHost: localhost\r\n", 405),
        (b"GET /api/v1/telemetry HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"GET /api/v1/telemetry HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n", 400),
    ],
)
def test_refused_websocket_is_answered_and_closed_without_an_error_in_the_log(served, caplog, head, status):
    server = served()
    with connected(server) as connection:
        connection.settimeout(30)
        connection.sendall(head + UPGRADE)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert talk(server, HEALTH)[0] == 200  # after what the refusal may log
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == []


def test_text_that_is_not_utf_8_logs_no_error(served, caplog):
    server = served()
    with connected(server) as viewer:
        viewer.sendall(VIEWER)
        assert viewer.recv(65536).startswith(b"HTTP/1.1 101 ")
        viewer.sendall(b"\x81\x82\0\0\0\0\xff\xfe" + b"\x88\x80\0\0\0\0")
        while viewer.recv(65536):
            pass
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == []


def test_viewers_leave_connections_to_requests(served, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.guard.MAX_VIEWERS", 2)
    server = served()
    with ExitStack() as stack:
        for _ in range(2):
            viewer = stack.enter_context(connected(server))
            viewer.sendall(VIEWER)
            assert viewer.recv(65536).startswith(b"HTTP/1.1 101 ")
        assert talk(server, VIEWER)[0] == 503
        assert talk(server, SERVER)[0] == 200


def test_idle_connections_give_way_to_new_ones(served, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.connections.MAX_CONNECTIONS", 3)
    monkeypatch.setattr("edgeopt_agent.http.connections.IDLE_S", 0.0)
    server = served()
    with ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(3)]
        for connection in held:
            connection.sendall(HEALTH)
            assert answer_of(connection)[0] == 200
        assert talk(server, SERVER)[0] == 200
        # The server's clock counts milliseconds, so that all three may have been idle equally long.
        closed, _, _ = select.select(held, [], [], 30)
        assert len(closed) == 1
        assert end_of(closed[0])


def end_of(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_pipelined_requests_are_answered_in_order_within_bounded_memory(idle_agent):
    pid = idle_agent.process.pid
    count = 40_000
    with connected(idle_agent) as client:
        sending = threading.Thread(target=client.sendall, args=(SERVER * count + HEALTH,))
        before = process_memory_bytes(pid)
        sending.start()
        answers, peak, tail = 0, before, b""
        while answers <= count:
            piece = client.recv(1 << 20)
            assert piece
            answers += (tail + piece).count(b"HTTP/1.1 200")
            tail = piece[-11:]
            peak = max(peak, process_memory_bytes(pid))
        sending.join()
    assert answers == count + 1
    assert peak - before < 8 << 20


def test_a_large_body_may_follow_pipelined_requests(served):
    server = served()
    with connected(server) as client:
        row = {"name": "x", "datatype": "FP32", "shape": [50_000, 4], "data": [1] * 200_000}
        body = json.dumps({"inputs": [row]}).encode()
        infer = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
        client.sendall(HEALTH * 20 + infer + HEALTH)
        received = b""
        while received.count(b"HTTP/1.1 200") < 22:
            piece = client.recv(1 << 20)
            assert piece, received[-500:]
            received += piece


def test_a_client_that_hangs_up_in_the_middle_leaves_nothing_behind(served):
    server = served()
    with connected(server) as client:
        client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST) + REQUEST[:10])
    assert talk(server, HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST), REQUEST)[0] == 200
    assert server.router.waiting == 0


def test_what_is_not_http_is_told_so_as_json(served):
    server = served()
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    for sent in (HEAD + b"Content-Length: -5\r\n\r\n", HEAD + both):
        status, body, fields = talk(server, sent)
        assert (status, fields[b"content-type"], fields[b"connection"]) == (400, b"application/json", b"close")
        assert json.loads(body)["error"] == "The request is not valid HTTP."
    status, body, _ = talk(server, b"\x16\x03\x01\x02\x00\x01nonsense\r\n\r\n")
    assert (status, json.loads(body)["error"]["code"]) == (400, "bad-http")


def test_a_flood_of_malformed_requests_is_one_line_in_the_log(served, caplog, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("edgeopt_agent.http.early.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(guard.logger, "filters", [RateLimit()])
    server = served()
    for _ in range(20):
        assert talk(server, b"nonsense\r\n\r\n")[0] == 400
    assert len([r for r in caplog.records if "Invalid HTTP" in r.getMessage()]) == 1
    clock[0] += 11.0
    talk(server, b"nonsense\r\n\r\n")
    assert "19 more" in caplog.records[-1].getMessage()


def test_a_full_queue_says_when_to_come_again(serving, null_bundle):
    server = serving(queue_length=1)
    server.deploy(null_bundle(latency_ms=500))
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST) + REQUEST
    got = []
    threads = [threading.Thread(target=lambda: got.append(talk(server, request))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status for status, _, _ in got) == [200, 503, 503]
    assert all(fields[b"retry-after"] == b"1" for status, _, fields in got if status == 503)


def test_bodies_on_their_way_are_bounded_together(served):
    server = served(max_body_bytes=100_000)
    part = HEAD + b"Content-Length: 100000\r\n\r\n" + b" " * 99_990
    held = [connected(server) for _ in range(4)]
    try:
        for connection in held:
            connection.sendall(part)
        with connected(server) as fifth:
            fifth.sendall(part)
            status, body, fields = answer_of(fifth)
        assert (status, fields[b"retry-after"], fields[b"connection"]) == (503, b"1", b"close")
        assert "in flight" in json.loads(body)["error"]
        small = HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST)
        with connected(server) as connection:
            connection.sendall(small + REQUEST)
            assert answer_of(connection)[0] == 200, "large bodies keep out no small one"
    finally:
        for connection in held:
            connection.close()
    assert talk(server, HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST), REQUEST)[0] == 200


def test_an_answer_that_nobody_reads_is_not_kept(served, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.guard.READ_TIMEOUT_S", 0.3)
    lost, gone = GuardedProtocol.connection_lost, threading.Event()
    monkeypatch.setattr(GuardedProtocol, "connection_lost", lambda *given: (lost(*given), gone.set()))
    server = served()
    row = {"name": "x", "datatype": "FP32", "shape": [400_000, 4], "parameters": {"binary_data_size": 6_400_000}}
    text = json.dumps({"inputs": [row]}).encode()
    lengths = b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
    request = HEAD + lengths % (len(text), len(text) + 6_400_000) + text + bytes(6_400_000)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(request)
        assert gone.wait(60)
    assert talk(server, HEAD + b"Content-Length: %d\r\n\r\n" % len(REQUEST), REQUEST)[0] == 200
