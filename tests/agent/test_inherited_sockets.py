"""The agent with sockets that a supervisor, here the test, holds while it restarts."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException, HTTPSConnection

import pytest

from edgeopt_agent.http.listeners import _STORED
from tests.agent.conftest import QUICK

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is for Linux")
WITHIN_S = 60
KILLS = 1
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
# Only the process itself knows its number, which LISTEN_PID must be.
WITH_SOCKET = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-m", "tests.agent.mortal", *sys.argv[2:]])
"""


@pytest.fixture
def start(tmp_path):
    """Starts an agent that inherits a socket; `stop` ends it by a signal."""
    with ExitStack() as stack:

        def starter(listener, name="http", notify=None, **settings):
            given = {**QUICK, "data_dir": str(tmp_path / "agent"), **settings}
            plan = [json.dumps(each) for each in (given, None, None)]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                "LISTEN_FDS": "1",
                "LISTEN_FDNAMES": name,
                **({} if notify is None else {"NOTIFY_SOCKET": notify}),
            }
            number = listener.fileno()
            process = subprocess.Popen(
                [sys.executable, "-c", WITH_SOCKET, str(number), *plan],
                env=environment,
                pass_fds=(number,),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield starter


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=128) as opened:
        yield opened


def port_of(listener):
    return listener.getsockname()[1]


def connection(port, tls):
    if tls == "off":
        return HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    anyone = ssl._create_unverified_context()  # noqa: S323 - the agent signed its certificate itself
    return HTTPSConnection("127.0.0.1", port, timeout=WITHIN_S, context=anyone)


class Client(threading.Thread):
    """Sends one request after the other, each on a new connection."""

    def __init__(self, port, tls):
        super().__init__()
        self.port, self.tls = port, tls
        self.statuses, self.errors = [], []
        self.ended = threading.Event()
        self.answered = threading.Condition()

    def run(self):
        while not self.ended.is_set():
            with contextlib.closing(connection(self.port, self.tls)) as one:
                try:
                    one.request("POST", "/v2/models/null/infer", BODY)
                    self.statuses.append(one.getresponse().status)
                except (OSError, HTTPException) as error:
                    self.errors.append(error)
            with self.answered:
                self.answered.notify_all()

    def wait_for_answers(self, more):
        goal = len(self.statuses) + more
        with self.answered:
            assert self.answered.wait_for(lambda: len(self.statuses) >= goal, WITHIN_S), self.errors


@pytest.mark.parametrize("tls", ["off", "on"])
def test_no_connection_is_refused_while_a_killed_agent_restarts(start, start_serving, listener, tls):
    first = start_serving()
    first.stop()
    port = port_of(listener)
    agent = start(listener, port=port, tls=tls)
    assert agent.stdout.readline() == f"{port}\n"
    client = Client(port, tls)
    client.start()
    try:
        for _ in range(KILLS):
            client.wait_for_answers(3)
            agent.kill()
            agent.wait()
            agent = start(listener, port=port, tls=tls)
        client.wait_for_answers(3)
    finally:
        client.ended.set()
        client.join(WITHIN_S)
    assert not [error for error in client.errors if isinstance(error, ConnectionRefusedError)]
    # One request at most is in flight at a kill.
    assert len(client.errors) <= KILLS, client.errors
    assert set(client.statuses) == {200}


def test_a_socket_at_another_address_than_the_settings_is_told_with_both(start, listener):
    agent = start(listener, port=port_of(listener) - 1)
    _, err = agent.communicate(timeout=WITHIN_S)
    assert agent.returncode != 0
    assert f"The supervisor listens on 127.0.0.1:{port_of(listener)}" in err
    assert f"the settings say 127.0.0.1:{port_of(listener) - 1}" in err


@pytest.mark.parametrize(("name", "said"), [("grpc", "gRPC cannot use"), ("http", "no listening TCP socket")])
def test_a_socket_that_cannot_be_used_is_told(start, name, said):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        agent = start(silent, name=name, port=port_of(silent))
        _, err = agent.communicate(timeout=WITHIN_S)
    assert agent.returncode != 0
    assert said in err


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.bind(str(tmp_path / "notify"))
        opened.settimeout(WITHIN_S)
        yield opened


def message(manager, begin):
    """The next message that begins with this line, and the descriptors that came with it."""
    while True:
        content, descriptors, _, _ = socket.recv_fds(manager, 4096, 8)
        lines = content.decode().split("\n")
        if lines[0] == begin:
            return lines, descriptors


def test_systemd_keeps_the_socket_that_the_agent_opened_and_the_next_start_serves_on_it(start, manager):
    with socket.create_server(("127.0.0.1", 0)) as free:
        agent = start(free, name=_STORED, notify=manager.getsockname(), port=0, host="127.0.0.2")
        port = int(agent.stdout.readline())
        assert port != port_of(free)
        # The settings no longer name the address of the socket that systemd kept.
        assert message(manager, "FDSTOREREMOVE=1")[0][1] == f"FDNAME={_STORED}"
        lines, (kept,) = message(manager, "FDSTORE=1")
    assert lines[1] == f"FDNAME={_STORED}"
    agent.kill()
    agent.wait()
    with socket.socket(fileno=kept) as stored:
        waiting = socket.create_connection(("127.0.0.2", port), timeout=WITHIN_S)
        again = start(stored, name=_STORED, notify=manager.getsockname(), port=port, host="127.0.0.2")
        assert again.stdout.readline() == f"{port}\n"
        with waiting:
            waiting.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert waiting.recv(4096).startswith(b"HTTP/1.1 200")
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=WITHIN_S)
        assert again.returncode == 0
