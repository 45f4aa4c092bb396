"""Connections without requests close; the limit starts again with each answer."""

import socket
import time

from websockets.sync.client import connect

from edgeopt_agent.http import telemetry

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_a_connection_closes_once_it_is_idle_for_the_limit(serving, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.server.KEEP_ALIVE_S", 1.0)
    with socket.create_connection(("127.0.0.1", serving().port), timeout=20) as client:
        for _ in range(4):
            client.sendall(LIVE)
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            answered_s = time.monotonic()
            time.sleep(0.4)
        assert client.recv(1) == b""
        assert time.monotonic() - answered_s > 0.9


def test_the_limit_of_requests_does_not_close_a_websocket(serving, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.server.KEEP_ALIVE_S", 0.5)
    port = serving().port
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(LIVE)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        with connect(f"ws://localhost:{port}{telemetry.PATH}", sock=client) as viewer:
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                viewer.recv(10)
