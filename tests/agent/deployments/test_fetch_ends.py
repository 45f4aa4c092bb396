"""Servers that never come to an end: what a fetch opens ends with it."""

import itertools
import socketserver
import threading

import pytest

from edgeopt_agent.deployments.download import Link, TransferError, open_body
from tests.agent.deployments.fetching import begin, digest_of, partial_files, want

ENDLESS = {
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "header": (b"HTTP/1.1 200 OK\r\nA: ", b"a"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"a"),
    "silence": (b"", b""),
}
"""How an answer begins, and what follows again and again."""


class EndlessServer:
    """Drips its answer to each request until the client ends the connection."""

    def __init__(self, answer):
        self.content = b"never sent"
        self.begun, self.ended = threading.Semaphore(0), 0
        self._closing = threading.Event()
        server, lock = self, threading.Lock()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(65536)
                self.request.settimeout(0.01)
                server.begun.release()
                ours = itertools.chain([answer[0]], itertools.repeat(answer[1]))
                while not server._closing.is_set():
                    try:
                        self.request.sendall(next(ours))
                        if not self.request.recv(1):
                            break
                    except TimeoutError:
                        continue
                    except OSError:
                        break
                with lock:
                    server.ended += 1

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.prefix = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self.url = f"{self.prefix}model.edgeopt"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(params=ENDLESS)
def endless(request):
    server = EndlessServer(ENDLESS[request.param])
    yield server
    server.close()


def test_cancelled_fetches_leave_no_connection_open(start_fetching, endless):
    agent = start_fetching(fetch_from=[endless.prefix])
    for number in range(3):
        status, _, answer = want(agent, endless.url, digest_of(b"%d" % number))
        assert status == 202
        assert endless.begun.acquire(timeout=30)
    assert agent.ask("POST", "/api/v1/cancel")[0] == 202
    assert agent.ended(answer["deployment"]["id"])["state"] == "FAILED"
    agent.until(lambda: endless.ended == 3, "the end of all connections")


def test_fetch_that_reaches_its_time_limit_leaves_no_connection_open(start_fetching, endless):
    agent = start_fetching(fetch_from=[endless.prefix], fetch_timeout_s=0.5)
    assert "limit of 0.5 s" in agent.ended(begin(agent, endless))["reason"]
    agent.until(lambda: endless.ended >= 1, "the end of the connection")


@pytest.mark.parametrize("endless", ["continue", "header"], indirect=True)
def test_answer_that_never_begins_is_tried_again(start_fetching, endless):
    agent = start_fetching(fetch_from=[endless.prefix], body_timeout_s=0.2)
    begin(agent, endless)
    agent.until(lambda: endless.ended >= 2, "two tries")


def test_ended_link_opens_no_connection(file_server):
    link = Link()
    link.close()
    with pytest.raises(TransferError, match="the transfer was ended"):
        open_body(file_server.url, 0, "", [file_server.prefix], 30.0, link)
    assert file_server.requests == []


def test_rest_that_is_longer_than_announced_is_not_written(start_fetching, file_server, long_bundle):
    agent = start_fetching(body_timeout_s=3600.0)
    file_server.plans = [{"cut": 1000}, {"surplus": 1 << 20, "hold": len(file_server.content) + (1 << 19)}]
    done = agent.ended(begin(agent, file_server))
    assert done["state"] == "COMMITTED", done["reason"]
    assert any(asked is None for _, asked in file_server.requests[2:]), "it began again"
    assert partial_files(agent) == []
    agent.serves(long_bundle)
