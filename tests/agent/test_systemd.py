import asyncio
import os
import socket
import subprocess
import sys

import pytest

from edgeopt_agent import systemd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is for Linux")
WITHIN_S = 20.0


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path, monkeypatch):
    """The socket on which systemd would listen."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@edgeopt-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name[1:] if name.startswith("@") else name)
        listener.settimeout(WITHIN_S)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield listener


def said(manager):
    return manager.recv(4096).decode().split("\n")


def test_what_is_said(manager):
    assert systemd.ready("Listening\non port 8080.")
    assert said(manager) == ["READY=1", "STATUS=Listening on port 8080."]
    assert systemd.status("Soaking.")
    assert said(manager) == ["STATUS=Soaking."]
    assert systemd.stopping()
    assert said(manager)[0] == "STOPPING=1"


@pytest.mark.parametrize("name", ["", "relative", "/no/such/socket", "@no-such-edgeopt-socket"])
def test_without_systemd_nothing_is_said_and_nothing_fails(monkeypatch, name):
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    assert not systemd.ready("Listening.")
    monkeypatch.delenv("NOTIFY_SOCKET")
    assert not systemd.ready("Listening.")


def test_a_manager_that_does_not_read_holds_nothing_up(manager):
    for _ in range(10_000):
        if not systemd.status("x" * 200):
            return
    pytest.fail("the socket's buffer never filled")


@pytest.mark.parametrize(
    ("usec", "pid", "interval_s"),
    [
        ("30000000", None, 15.0),
        ("30000000", "me", 15.0),
        ("30000000", "1", None),
        ("0", None, None),
        ("", None, None),
        ("soon", None, None),
    ],
)
def test_how_often_the_watchdog_is_fed(monkeypatch, usec, pid, interval_s):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    if pid is None:
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
    else:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "me" else pid)
    assert systemd.watchdog_interval_s() == interval_s


def test_the_watchdog_is_fed_until_it_is_cancelled(manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "20000")

    async def feed():
        task = asyncio.create_task(systemd.keep_watchdog())
        for _ in range(3):
            assert await asyncio.to_thread(said, manager) == ["WATCHDOG=1"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(feed())


def test_without_a_watchdog_it_ends_at_once(monkeypatch):
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    asyncio.run(asyncio.wait_for(systemd.keep_watchdog(), WITHIN_S))


@pytest.mark.parametrize("meant_for", ["1", ""])
def test_sockets_for_another_process_are_left_alone(monkeypatch, meant_for):
    monkeypatch.setenv("LISTEN_PID", meant_for)
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "http")
    assert systemd.inherited_sockets() == ()
    assert not [name for name in os.environ if name.startswith("LISTEN_")]


# In a process of its own, which has that descriptor free.
INHERIT = """
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
address = listener.getsockname()
os.dup2(listener.detach(), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="http")
from edgeopt_agent import systemd
((name, found),) = systemd.inherited_sockets()
assert (name, found.getsockname()) == ("http", address)
assert not os.get_inheritable(found.fileno())
assert systemd.inherited_sockets() == ()
"""


def test_inherited_sockets_come_with_their_names_once_and_go_to_no_child():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", INHERIT], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
