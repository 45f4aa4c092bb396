import contextlib
import shutil
import socket
import struct
import threading

import pytest
from websockets.sync.server import serve

from edgeopt import errors, events
from edgeopt.fleet import telemetry
from edgeopt.fleet.client import DeployOptions
from edgeopt.fleet.telemetry import watch
from edgeopt_agent import tokens

WITHIN_S = 20.0


@pytest.fixture
def viewers():
    """Starts a server of telemetry: a function that is given each viewer's connection."""
    with contextlib.ExitStack() as stack:

        def start(show, port=0):
            server = serve(show, "127.0.0.1", port, compression=None)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server.socket.getsockname()[1]

        yield start


@pytest.fixture
def watching():
    """Watches in a thread; `wait(what)` waits until that is true of the events so far, `end()` stops it."""

    class Watching:
        def __init__(self, url):
            self.stop, self.events, self.changed = threading.Event(), [], threading.Condition()
            self.thread = threading.Thread(target=watch, args=(url, self.tell, self.stop))
            self.thread.start()

        def tell(self, event):
            with self.changed:
                self.events.append(event)
                self.changed.notify_all()

        def wait(self, true_of):
            with self.changed:
                assert self.changed.wait_for(lambda: true_of(self.events), WITHIN_S), self.events

        def logs(self):
            return [e.message for e in self.events if isinstance(e, events.Log)]

        def end(self):
            self.stop.set()
            self.thread.join(WITHIN_S)
            assert not self.thread.is_alive()

    with contextlib.ExitStack() as stack:

        def start(url):
            made = Watching(url)
            stack.callback(made.end)
            return made

        yield start


METRIC = events.Metric("latency_ms", 1.5, time_s=10.0)


def forever(connection):
    with contextlib.suppress(Exception):
        connection.recv()


def test_a_real_agent_tells_where_it_stands(serving, watching):
    seen = watching(serving.url)
    seen.wait(
        lambda e: {"agent_memory_bytes", "load_percent"} <= {m.name for m in e if isinstance(m, events.Metric)}
    )
    first = next(e for e in seen.events if isinstance(e, events.Progress))
    assert first.phase == "committed"
    assert first.message.startswith("conv")


def test_several_lines_in_a_frame_and_what_this_version_does_not_know(viewers, watching):
    def show(connection):
        lines = [events.encode(METRIC), '{"event": "dream", "schema": 9}', "not JSON", events.encode(METRIC)]
        connection.send("\n".join(lines))
        connection.send(events.encode(events.Log("info", "end")).encode())
        forever(connection)

    seen = watching(f"127.0.0.1:{viewers(show)}")
    seen.wait(lambda e: len(e) == 3)
    assert seen.events == [METRIC, METRIC, events.Log("info", "end")]


def test_the_lease_is_renewed(viewers, watching, monkeypatch):
    monkeypatch.setattr(telemetry, "_RENEW_EVERY_S", 0.05)
    renewed = threading.Semaphore(0)

    def show(connection):
        for _ in connection:
            renewed.release()

    watching(f"127.0.0.1:{viewers(show)}")
    assert all(renewed.acquire(timeout=WITHIN_S) for _ in range(3))


def test_an_agent_that_closes_is_come_back_to(viewers, watching):
    visits = []

    def show(connection):
        visits.append(1)
        connection.send(events.encode(METRIC))
        if len(visits) == 1:
            connection.close(4000, "lease ended")
        else:
            forever(connection)

    seen = watching(f"127.0.0.1:{viewers(show)}")
    seen.wait(lambda e: e.count(METRIC) == 2)
    assert "went away" in seen.logs()[0]
    assert "is back" in seen.logs()[1]
    assert len(seen.logs()) == 2


def test_an_agent_that_is_killed_and_started_again(start_agent, watching):
    first = start_agent()
    seen = watching(first.url)
    seen.wait(lambda e: any(isinstance(x, events.Metric) for x in e))
    first.kill()
    seen.wait(lambda _: any("went away" in message for message in seen.logs()))
    start_agent(port=first.port)
    seen.wait(lambda _: any("is back" in message for message in seen.logs()))
    count = len(seen.events)
    seen.wait(lambda e: any(isinstance(x, events.Metric) for x in e[count:]))


def test_stopping_while_the_agent_is_away(viewers, watching):
    closed = threading.Event()

    def show(connection):
        connection.close()
        closed.set()

    seen = watching(f"127.0.0.1:{viewers(show)}")
    assert closed.wait(WITHIN_S)
    seen.wait(lambda _: seen.logs())
    seen.end()


def test_nobody_to_begin_with():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(errors.MissingError, match="No agent listens"):
        watch(f"127.0.0.1:{port}", events.ignore, threading.Event())


def test_a_server_that_is_no_agent(scripted):
    server = scripted({"GET /api/v1/telemetry": (404, {})})
    with pytest.raises(errors.MissingError, match="not an edgeopt agent"):
        watch(server.url, events.ignore, threading.Event())


def test_without_the_extra(monkeypatch):
    monkeypatch.setattr(telemetry, "find_spec", lambda _: None)
    with pytest.raises(errors.MissingExtraError, match="'fleet' extra"):
        watch("127.0.0.1", events.ignore, threading.Event())


def test_connections_that_are_reset_at_any_moment_are_an_agent_that_cannot_be_reached():
    """Before it is greeted, a reset is met as an end of the connection, not as an error of the socket."""
    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(0.05)

        def reset_all():
            while not stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    visitor, _ = door.accept()
                    visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    visitor.close()

        porter = threading.Thread(target=reset_all)
        porter.start()
        try:
            for _ in range(200):
                with pytest.raises(
                    errors.MissingError, match=r"closed the connection|not an edgeopt agent|reached"
                ):
                    telemetry.watch(f"127.0.0.1:{door.getsockname()[1]}", [].append, threading.Event())
        finally:
            stopped.set()
            porter.join()


def test_watch_of_a_removed_model_ends_and_other_watches_are_told(
    start_agent, conv_bundle, change_deployment, tmp_path, watching
):
    other = shutil.copytree(conv_bundle, tmp_path / "other.edgeopt")
    change_deployment(other, name="other")
    started = start_agent()
    started.agent.deploy(conv_bundle, events.ignore)
    first = watching(started.url)
    first.wait(bool)
    started.agent.deploy(other, events.ignore, DeployOptions(add=True))
    seen = []

    def remove_once(event):
        if not seen:
            started.agent.remove("other")
        seen.append(event)

    with pytest.raises(errors.InputError) as caught:
        watch(started.url, remove_once, threading.Event(), model="other")
    assert (caught.value.code, bool(seen)) == ("no-model", True)
    first.wait(lambda found: len(changes(found)) == 2)
    assert changes(first.events) == [
        ("other", "The model 'other' was added."),
        ("other", "The model 'other' was removed."),
    ]


def changes(found):
    return [(e.subject, e.message) for e in found if isinstance(e, events.Log) and e.kind == "models-changed"]


def test_a_watch_ends_when_its_token_is_removed(start_agent, tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry, "_RENEW_EVERY_S", 0.05)
    token = tokens.add(tmp_path / "agent", "one", "view").token
    tokens.add(tmp_path / "agent", "two", "view")
    remaining = ["one"]

    def emit(event):
        if isinstance(event, events.Metric) and remaining:
            tokens.remove(tmp_path / "agent", remaining.pop())

    with pytest.raises(errors.InputError, match="unknown to this agent"):
        watch(start_agent().url, emit, threading.Event(), token)


def test_a_refused_watch_says_why_in_the_words_of_the_agent(scripted):
    said = {"code": "too-many-connections", "message": "Too many connections are open.", "hint": "Close some."}
    server = scripted({"GET /api/v1/telemetry": (503, {"error": said})})
    with pytest.raises(errors.ConstraintError, match="Too many connections are open") as caught:
        watch(server.url, events.ignore, threading.Event())
    assert (caught.value.code, caught.value.hint) == ("too-many-connections", "Close some.")
