"""Agents to be a client of: real ones, and scripted ones for what a real one does only on a bad day."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from edgeopt import events
from edgeopt.fleet.client import Agent
from tests import broker as brokers

mosquitto, broker, make_broker = brokers.mosquitto, brokers.broker, brokers.make_broker


class Scripted:
    """A server that answers as it is told: by `METHOD /path`, with (status, document) or with a function."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                scripted.answer(self)

            do_POST = do_GET  # noqa: N815 - http.server's name

            def log_message(self, *_):
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def answer(self, handler):
        key = f"{handler.command} {handler.path.partition('?')[0]}"
        self.asked.append(f"{handler.command} {handler.path}")
        answer = self.answers[key]
        if callable(answer):
            answer = answer(handler)
        if answer is None:  # the connection ends without a word
            handler.close_connection = True
            return
        status, document = answer
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        handler.rfile.read(int(handler.headers.get("content-length", 0)))
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def scripted():
    with contextlib.ExitStack() as stack:

        def start(answers):
            server = Scripted(answers)
            stack.callback(server.close)
            return server

        yield start


class Started:
    """A real agent, as its command line starts it."""

    def __init__(self, data_dir, port=0):
        command = [sys.executable, "-m", "edgeopt_agent.main", "run", "--json", "--log-level", "error"]
        settings = ["--port", str(port), "--soak-seconds", "0", "--soak-requests", "0"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [*command, *settings, "--data-dir", str(data_dir)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.url = events.decode(line).message
        self.port = int(self.url.rpartition(":")[2])
        self.agent = Agent(self.url)

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_agent(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(**more):
            started = Started(tmp_path / "agent", **more)
            stack.callback(started.kill)
            return started

        yield start


@pytest.fixture(scope="session")
def serving(tmp_path_factory, conv_bundle):
    """An agent that serves the convolution, for tests that leave it so."""
    started = Started(tmp_path_factory.mktemp("serving"))
    try:
        started.agent.deploy(conv_bundle, events.ignore)
        yield started
    finally:
        started.kill()


@pytest.fixture
def told():
    """An `emit` that keeps what it is told."""
    kept = []

    def emit(event):
        kept.append(event)

    emit.events = kept
    emit.phases = lambda: [e.phase for e in kept if isinstance(e, events.Progress)]
    emit.logs = lambda: [e.message for e in kept if isinstance(e, events.Log)]
    return emit
