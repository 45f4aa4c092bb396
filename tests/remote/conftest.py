"""One SSH server for all tests of a process."""

import pytest

from tests.measuring import call, model  # noqa: F401 - fixtures
from tests.remote.server import BINARY, SshServer


@pytest.fixture
def make_server(tmp_path_factory, monkeypatch):
    if BINARY is None:
        pytest.skip("No SSH server is installed: sh packaging/system-packages.sh tests")
    servers = []

    def make(*before, **more):
        server = SshServer(tmp_path_factory.mktemp("ssh"), *before, **more)
        servers.append(server)
        monkeypatch.setenv("EDGEOPT_SSH", server.client())
        return server

    yield make
    for each in servers:
        each.stop()


@pytest.fixture
def server(make_server):
    return make_server()
