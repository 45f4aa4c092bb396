"""Logging in at a broker with a name and a password: agents and clients, with the right one and a wrong one."""

import shutil
import subprocess

import pytest

from edgeopt.cli.main import run
from edgeopt.errors import MissingError
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt.fleet.rollout_request import DevicesRequest
from tests.broker import PATH, Broker

PASSWORDS = {"camera-1": "of the camera", "camera-2": "of the other", "operator": "of the operator"}


@pytest.fixture(scope="module")
def locked_broker(mosquitto, tmp_path_factory):
    """Takes nobody without a password."""
    tool = shutil.which("mosquitto_passwd") or shutil.which("mosquitto_passwd", path=PATH)
    if tool is None:
        pytest.skip("mosquitto_passwd is not installed")
    folder = tmp_path_factory.mktemp("locked")
    passwords = folder / "passwords"
    passwords.touch(mode=0o600)
    for name, password in PASSWORDS.items():
        subprocess.run([tool, "-b", passwords, name, password], check=True, capture_output=True)
    running = Broker(folder, access=f"allow_anonymous false\npassword_file {passwords}")
    yield running
    running.stop()


@pytest.fixture
def password_file(tmp_path):
    def write(password):
        file = tmp_path / "password"
        file.write_text(f"{password}\n")
        file.chmod(0o600)
        return file

    return write


@pytest.fixture
def watch(make_client, locked_broker):
    def client_of(device):
        return make_client(locked_broker, Topics("default", device), login=("operator", PASSWORDS["operator"]))

    return client_of


@pytest.fixture
def start_camera(start_device, locked_broker):
    def start(name, file, **more):
        table = {"device": name, "username": name, "password_file": str(file)}
        return start_device(locked_broker.url, mqtt=table, **more)

    return start


def asking(broker, **login):
    return DevicesRequest(broker=broker.url, **login)


def test_agent_and_client_log_in(locked_broker, watch, start_camera, password_file):
    start_camera("camera-1", password_file(PASSWORDS["camera-1"]))
    watch("camera-1").presence("online")
    file = password_file(PASSWORDS["operator"])
    found = commands.devices(asking(locked_broker, username="operator", password_file=file, to="camera-1")).devices
    assert [(each.device, each.online) for each in found] == [("camera-1", True)]


def test_an_agent_with_a_wrong_password_says_so_and_connects_once_it_is_right(watch, start_camera, password_file):
    agent = start_camera("camera-2", password_file("wrong"), log_level="warning")
    line = next(line for line in agent.process.stderr if "Not connected to" in line)
    assert "the broker refuses this user name, password or certificate. It is tried again." in line
    assert agent.status()["state"] == "empty"
    client = watch("camera-2")
    assert client.of(client.topics.status) == []
    password_file(PASSWORDS["camera-2"])  # it is read at each connection
    client.presence("online")


@pytest.mark.parametrize("login", [{"username": "operator"}, {}], ids=["wrong password", "no login"])
def test_a_client_that_is_not_taken_says_what_to_check(locked_broker, password_file, login, monkeypatch):
    monkeypatch.setenv("EDGEOPT_BROKER_PASSWORD", "wrong" if login else "")
    with pytest.raises(
        MissingError, match="the broker refuses this user name, password or certificate"
    ) as refused:
        commands.devices(asking(locked_broker, **login))
    assert "--password-file" in refused.value.hint


def test_the_environment_has_the_login_of_the_command(locked_broker, monkeypatch, capfd):
    monkeypatch.setenv("EDGEOPT_BROKER", locked_broker.url)
    monkeypatch.setenv("EDGEOPT_BROKER_USERNAME", "operator")
    monkeypatch.setenv("EDGEOPT_BROKER_PASSWORD", PASSWORDS["operator"])
    assert run(["fleet", "devices"]) == 0
    assert PASSWORDS["operator"] not in capfd.readouterr().out
