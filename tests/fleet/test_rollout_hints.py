"""Commands in hints of rollouts can be pasted: they reach the broker as the command did that gave them."""

import shlex

import pytest

from edgeopt.cli.main import run
from edgeopt.fleet.rollout_request import RolloutControlRequest, in_fleet_commands
from tests.agent.mqtt.test_tls import write_pair
from tests.broker import Broker
from tests.fleet.light_agents import LightFleet
from tests.ports import free_port
from tests.printed import commands_in, refusal

GOOD, BAD = "sha256:" + "a" * 64, "sha256:" + "b" * 64
URL = "https://host/model.edgeopt"
FLEET = "with-tls"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own certificates")
    write_pair(folder, "broker", write_pair(folder, "ca"))
    return folder


@pytest.fixture(scope="module")
def tls_port():
    return free_port()


@pytest.fixture(scope="module")
def broker(mosquitto, authority, tls_port, tmp_path_factory):
    """Devices use the plain port, clients the one with TLS."""
    running = Broker(
        tmp_path_factory.mktemp("broker"),
        f"listener {tls_port} 127.0.0.1\ncafile {authority}/ca.crt\ncertfile {authority}/broker.crt\n"
        f"keyfile {authority}/broker.key",
    )
    yield running
    running.stop()


@pytest.fixture
def fleet(broker):
    running = LightFleet(broker.port, FLEET)
    running.add(["d0", "d1"], lambda digest: "roll back" if digest == BAD else "commit")
    yield running
    running.close()


@pytest.mark.parametrize("given", ["options", "environment"])
def test_commands_for_a_broker_with_its_own_authority(fleet, given, authority, tls_port, capfd, monkeypatch):
    address = f"mqtts://localhost:{tls_port}"
    reaching = ["--fleet", FLEET]
    if given == "options":
        reaching += ["--broker", address, "--ca-file", f"{authority}/ca.crt"]
    else:
        monkeypatch.setenv("EDGEOPT_BROKER", address)
        monkeypatch.setenv("EDGEOPT_CA_FILE", f"{authority}/ca.crt")
    name = f"r-{given}"
    asked = ["fleet", "rollout", "start", URL, "--digest", BAD, "--to", "*", "--name", name]
    assert run([*asked, *reaching]) == 6
    back, shown = commands_in(capfd.readouterr().err)
    assert run(shlex.split(shown)[1:]) == 0
    assert f"Rollout {name}: stopped" in capfd.readouterr().out
    assert run(shlex.split(back)[1:]) == 0
    assert run(["fleet", "devices", "--to", "nobody-*", *reaching]) == 2
    assert run(["fleet", "rollout", "resume", "none", *reaching]) == 2
    assert not [each for each in commands_in(capfd.readouterr().err) if refusal(each)]


def test_only_options_that_were_given_are_in_commands():
    text = "Continue with: edgeopt fleet rollout resume r; see `edgeopt fleet rollout status r`"
    request = RolloutControlRequest(broker="mqtt://h", name="r", key="my key", allow_plain=True)
    assert in_fleet_commands(text, request) == (
        "Continue with: edgeopt fleet rollout resume r --broker mqtt://h --allow-plain --key 'my key'; "
        "see `edgeopt fleet rollout status r --broker mqtt://h --allow-plain`"
    )
    assert in_fleet_commands(text, RolloutControlRequest(name="r")) == text
