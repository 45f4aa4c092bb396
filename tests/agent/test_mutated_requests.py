"""Requests that are wrong in some byte, and clients that wait, to an agent that serves: it serves on."""

import json
import random
import socket
import time
from contextlib import ExitStack

import pytest

from edgeopt.hw.load import process_memory_bytes
from tests.agent.conftest import DEADLINE_S

MAX_MORE_BYTES = 64 << 20
"""How much more memory than before the agent may hold afterwards."""
X = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
BINARY = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}
PIECES = (
    b"\x00", b"\r\n", b"\r\n\r\n", b"\xff\xfe", b" ", b"%00", b"../", b"-1", b"9" * 20, b"1e400", b"NaN", b"null",
    b"[" * 300, b'{"a":' * 300, b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: evil\r\n",
    b"Expect: 100-continue\r\n", b"Content-Encoding: gzip\r\n", b"Inference-Header-Content-Length: 7\r\n",
    b"Origin: http://evil\r\n", b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"HTTP/1.0", b"HTTP/9.9",
)  # fmt: skip


def request(method, path, body=b"", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def sound_requests(bundle):
    """One of each kind; what is sent to `deploy` serves already."""
    gets = ("/v2", "/v2/health/ready", "/v2/models/null", "/v2/models/null/stats", "/metrics", "/api/v1/status")
    gets += (
        "/api/v1/device",
        "/api/v1/releases",
        "/api/v1/events?after=0",
        "/api/v1/deployments/1",
        "/api/v1/telemetry",
    )
    head = json.dumps({"inputs": [BINARY]}).encode()
    text = json.dumps({"inputs": [X], "id": "7", "parameters": {"binary_data_output": True}}).encode()
    return [
        *(request("GET", path) for path in gets),
        *(request("POST", "/v2/models/null/infer", text) for _ in range(6)),
        *(
            request("POST", "/v2/models/null/infer", head + bytes(16), Inference_Header_Content_Length=len(head))
            for _ in range(6)
        ),
        request("POST", "/v2/repository/index", b"{}"),
        request("POST", "/api/v1/rollback"),
        request("POST", "/api/v1/cancel"),
        request("POST", "/api/v1/deploy?force=0&soak_s=0&soak_requests=0", bundle),
    ]


def mutated(rng, sound):
    """The request with one to four changes."""
    content = bytearray(sound)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content) + 1) if content else 0
        kind = rng.randrange(6)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[place : place + rng.randint(1, 40)]
        elif kind == 2:
            content[place:place] = rng.choice(PIECES)
        elif kind == 3:
            content[place:place] = content[place : place + rng.randint(1, 200)]
        elif kind == 4:
            content[place:] = b""
        else:
            content[place:place] = rng.randbytes(rng.randint(1, 20))
    return bytes(content)


def answer_to(port, content):
    """All that comes back until the agent hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        received = b""
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                received += piece
                if b"101 Switching Protocols" in received:  # a viewer: it stays until it goes
                    break
        except (ConnectionResetError, BrokenPipeError):
            pass
        return received


@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutated_requests_neither_end_nor_fill_the_agent(start_serving, old_bundle, pack, record_property, count):
    agent = start_serving()
    sound = sound_requests(pack(old_bundle))
    for each in sound:
        answer_to(agent.port, each)
    before, peak = process_memory_bytes(agent.process.pid), 0
    rng = random.Random(37)  # noqa: S311 - the same each time
    statuses = {}
    for number in range(count):
        content = mutated(rng, rng.choice(sound))
        received = answer_to(agent.port, content)
        assert not received or received.startswith(b"HTTP/1.1 "), (content, received)
        status = int(received[9:12]) if received else 0
        statuses[status] = statuses.get(status, 0) + 1
        assert status not in {500, 502}, (content, received)
        if number % 500 == 0:
            peak = max(peak, process_memory_bytes(agent.process.pid))
    agent.until(lambda: agent.status()["state"] == "serving", "the end of the last deployment")
    agent.serves(old_bundle)
    after = process_memory_bytes(agent.process.pid)
    record_property("memory_mib", [each >> 20 for each in (before, peak, after)])
    record_property("statuses", statuses)
    assert max(peak, after) < before + MAX_MORE_BYTES
    agent.process.terminate()
    _, errors = agent.process.communicate(timeout=DEADLINE_S)
    assert "Traceback" not in errors, errors[-4000:]


@pytest.mark.slow  # 2,000 connections, and clients that need seconds on purpose
def test_idle_and_slow_clients_keep_nobody_from_being_served(start_serving, old_bundle, record_property):
    agent = start_serving()
    before = process_memory_bytes(agent.process.pid)
    head = b"POST /v2/models/null/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    with ExitStack() as stack:
        for number in range(2000):
            try:
                connection = stack.enter_context(
                    socket.create_connection(("127.0.0.1", agent.port), timeout=DEADLINE_S)
                )
                if number % 4 == 1:
                    connection.sendall(request("GET", "/v2"))
                elif number % 4 == 2:
                    connection.sendall(head[: 20 + number % 40])
                elif number % 4 == 3:
                    connection.sendall(head + b"\r\n" + b"{" * (number % 500))
            except OSError:
                continue  # it was closed for one of the others
        for _ in range(20):
            begin = time.monotonic()
            assert agent.ask("GET", "/v2/health/ready")[0] == 200
            assert agent.status()["state"] == "serving"
            assert time.monotonic() - begin < DEADLINE_S
        held = process_memory_bytes(agent.process.pid)
        record_property("memory_mib", [before >> 20, held >> 20])
        assert held < before + MAX_MORE_BYTES
    agent.until(lambda: agent.ask("GET", "/v2")[0] == 200, "a place for others")
    agent.serves(old_bundle)
