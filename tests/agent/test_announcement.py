"""Agents that announce themselves by mDNS, and the client that finds them, on the loopback interface."""

import json

import pytest
from zeroconf import Zeroconf

from edgeopt.cli.fleet_rollout_show import show_discovered
from edgeopt.cli.main import run
from edgeopt.fleet.discovery import (
    DiscoveredAgent,
    DiscoveredAgents,
    discover,
    read_announcement,
)
from edgeopt.fleet.rollout_request import DiscoverRequest
from edgeopt.version import __version__
from edgeopt_agent.certificate import present

HERE = "127.0.0.1"
TLS = {"scheme": "https", "fingerprint": "SHA256:" + "a" * 64}


@pytest.fixture
def multicast():
    try:
        Zeroconf(interfaces=[HERE]).close()
    except OSError as error:
        pytest.skip(f"no multicast on the loopback interface: {error}")


def announced(agent, seconds=0.5):
    """What is announced for its port: other agents may announce themselves at the same time."""
    found = discover(DiscoverRequest(seconds=seconds, interfaces=(HERE,))).agents
    return [each for each in found if each.url.endswith(f":{agent.port}")]


def test_an_agent_is_found_until_it_stops(multicast, start_agent, capfd):
    agent = start_agent(announce=True)
    (found,) = agent.until(lambda: announced(agent), "the announcement")
    assert found.url == f"http://{HERE}:{agent.port}"
    assert (found.version, found.fingerprint) == (__version__, "")
    assert found.name
    assert run(["fleet", "discover", "--seconds", "1", "--interface", HERE, "--json"]) == 0
    shown = json.loads(capfd.readouterr().out.splitlines()[-1])["data"]
    assert found.url in {each["url"] for each in shown["agents"]}
    agent.stop()
    assert announced(agent) == []


def test_the_fingerprint_is_that_of_the_certificate(multicast, start_agent):
    agent = start_agent(announce=True, tls="on")
    agent.fingerprint = present(agent.data_dir).fingerprint
    (found,) = agent.until(lambda: announced(agent), "the announcement")
    assert found.url == f"https://{HERE}:{agent.port}"
    assert found.fingerprint == agent.fingerprint


def test_an_agent_is_not_announced_unless_that_is_set(multicast, start_agent):
    assert announced(start_agent()) == []


def test_where_nothing_answers_it_is_said_what_to_do():
    said = " ".join(block.text for block in show_discovered(DiscoveredAgents(3.0, ())))
    assert "No agent answered within 3 s." in said
    assert "announce = true" in said


def test_the_table_shows_the_fingerprint_or_that_there_is_no_tls():
    agents = (DiscoveredAgent("a", "https://a", "1", "SHA256:ab"), DiscoveredAgent("b", "http://b", "1"))
    (table,) = show_discovered(DiscoveredAgents(3.0, agents))
    assert [row.cells for row in table.rows] == [
        ("a", "https://a", "1", "SHA256:ab"),
        ("b", "http://b", "1", "no TLS"),
    ]


def test_an_interface_that_is_not_there_is_refused(capfd):
    assert run(["fleet", "discover", "--interface", "192.0.2.1"]) == 2
    assert "No interface here has the address 192.0.2.1" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("texts", "address", "url"),
    [
        (TLS, "192.0.2.1", "https://192.0.2.1:8080"),
        (TLS, "2001:db8::1", "https://[2001:db8::1]:8080"),
        ({"scheme": "http"}, "192.0.2.1", "http://192.0.2.1:8080"),
        ({"scheme": "file"}, "192.0.2.1", None),
        ({}, "192.0.2.1", None),
        (TLS, "", None),
    ],
)
def test_announcements_of_others_are_no_agents(texts, address, url):
    found = read_announcement("a", address, 8080, texts)
    assert (None if found is None else found.url) == url


def test_a_fingerprint_that_is_none_is_left_out():
    found = read_announcement("a", "192.0.2.1", 8080, {**TLS, "fingerprint": "SHA256:1"})
    assert (found.name, found.fingerprint) == ("a", "")
