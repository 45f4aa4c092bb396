"""The page in a window of its own, a real Mosquitto, and light agents."""

import threading

import pytest

from edgeopt_gui.pages.fleet.connection import Connection
from edgeopt_gui.pages.fleet.page import ENTRY
from tests import broker as brokers
from tests.fleet.light_agents import LightFleet

GOOD, BAD = "sha256:" + "a" * 64, "sha256:" + "b" * 64
mosquitto, broker = brokers.mosquitto, brokers.broker


@pytest.fixture
def fleet_name(request):
    """A fleet for each test: the broker is shared, and keeps what is retained."""
    return f"fleet-{abs(hash(request.node.nodeid))}"


@pytest.fixture
def fleet(broker, fleet_name):
    running = LightFleet(broker.port, fleet_name)
    yield running
    running.close()


@pytest.fixture
def page(open_page):
    return open_page(ENTRY)


@pytest.fixture
def connection(broker, fleet_name):
    return Connection(broker.url, fleet_name)


@pytest.fixture
def connect(qtbot, page, connection):
    """Connects the page to the fleet of the test, and waits for its devices."""

    def connect_now():
        page.connect_to(connection)
        qtbot.waitUntil(lambda: page.state == "content")
        return page

    return connect_now


@pytest.fixture
def gate():
    """Holds deployments back until it is set."""
    return threading.Event()


@pytest.fixture
def behaves():
    return lambda digest: "roll back" if digest == BAD else "commit"
