"""An agent that measures for others, and a session with it."""

import pytest

from edgeopt.remote.address import read_address
from edgeopt.remote.command import opened
from tests.measuring import call, model  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def own_files(tmp_path, monkeypatch):
    """Other tests measure on this machine too."""
    monkeypatch.setenv("EDGEOPT_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def agent(start_agent):
    return start_agent(trials=True)


@pytest.fixture
def url(agent):
    return f"http://127.0.0.1:{agent.port}"


@pytest.fixture
def link(url):
    """A session that has begun."""
    link = opened(read_address(url))
    link.ask({"do": "begin", "run": "1", "owner": {"who": "ada@laptop", "what": "edgeopt bench"}})
    yield link
    link.close()
