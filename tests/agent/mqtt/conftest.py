"""One broker for the tests of a file, and agents that connect to it."""

from contextlib import ExitStack, closing

import pytest

from edgeopt.fleet.mqtt_topics import Topics
from tests import broker as brokers
from tests.agent.conftest import packed
from tests.agent.deployments.fetching import RETRIES, digest_of
from tests.agent.deployments.file_server import FileServer
from tests.broker import Client
from tests.store import Store

mosquitto, broker, make_broker = brokers.mosquitto, brokers.broker, brokers.make_broker


@pytest.fixture
def make_client(request):
    with ExitStack() as stack:

        def make(broker, topics, **more):
            client = Client(broker, topics, **more)
            stack.callback(client.close)
            return client

        yield make


@pytest.fixture
def topics(request):
    """A device of its own for each test: the broker is shared, and keeps what is retained."""
    return Topics("default", f"device-{abs(hash(request.node.nodeid))}")


@pytest.fixture
def client(make_client, broker, topics):
    return make_client(broker, topics)


@pytest.fixture
def start_device(start_agent, start_serving, broker, topics):
    """Starts an agent that is connected to the broker; with `deployed`, it serves the old bundle at once."""

    def start(url=None, server=None, mqtt=(), deployed=False, **more):
        table = {
            "url": url or broker.url, "device": topics.device, "telemetry_s": 0,
            "reconnect_s": 0.05, "reconnect_most_s": 0.2, **dict(mqtt),
        }  # fmt: skip
        fetch = {"fetch_from": [server.prefix], **RETRIES} if server is not None else {}
        return (start_serving if deployed else start_agent)(mqtt=table, **fetch, **more)

    return start


@pytest.fixture
def serve_bundle():
    """A web server with a bundle; and its digest."""
    with ExitStack() as stack:

        def serve(bundle):
            server = FileServer(packed(bundle))
            stack.callback(server.close)
            return server, digest_of(server.content)

        yield serve


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A web server from which agents fetch models, and to which they put what they found."""
    monkeypatch.setenv("EDGEOPT_LOCK", str(tmp_path / "lock"))  # other tests measure on this machine too
    with closing(Store()) as store:
        yield store
