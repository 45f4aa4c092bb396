"""The table `[mqtt]`: what is refused before the agent starts, each with its reason and what to do."""

import json
import subprocess
import sys

import pytest

from edgeopt.fleet.mqtt_topics import Topics, device_of
from edgeopt_agent.config import ConfigError, configured
from edgeopt_agent.mqtt.settings import MqttSettings, broker_of, topics_of, wrong_mqtt

URL = 'url = "mqtts://broker"\n'


@pytest.fixture
def file(tmp_path):
    def write(text):
        place = tmp_path / "agent.toml"
        place.write_text(text)
        return place

    return write


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ("", "'mqtt.url' is not the address of a broker", "mqtts://"),
        ('url = "https://broker"', "'mqtt.url' is not the address of a broker", "mqtts://"),
        ('url = "mqtts://user:secret@broker"', "'mqtt.url' is not the address of a broker", "mqtts://"),
        ('url = "mqtts://broker:99999"', "'mqtt.url' is not the address of a broker", "mqtts://"),
        ('url = "mqtt://broker"', "'mqtt.url' leads to broker without TLS", "allow_plain"),
        (f'{URL}devise = "a"', "there is no setting 'mqtt.devise'", "'device'"),
        (f"{URL}keepalive_s = true", "'mqtt.keepalive_s' is wrong: Expected `int`, got `bool`", "fleet.md"),
        (f"{URL}keepalive_s = 1", "'mqtt.keepalive_s' is 1; it must be from 5 to 65535", "Correct"),
        (f"{URL}outbox_s = nan", "'mqtt.outbox_s' is nan", "Correct"),
        (f'{URL}device = "a/b"', "'mqtt.device' cannot be a name", "letters"),
        (f'{URL}fleet = "#"', "'mqtt.fleet' cannot be a name", "letters"),
        (f'{URL}prefix = "a/+"', "must be topics without wildcards", "edgeopt/v1"),
        (f'{URL}cert_file = "a.crt"', "'mqtt.cert_file' and 'mqtt.key_file' must be given together", "both"),
        (f'{URL}password_file = "a"', "'mqtt.password_file' needs a user name", "username"),
        ('url = "mqtt://127.0.0.1"\nca_file = "a"', "names certificates, but the address has no TLS", "mqtts"),
    ],
)
def test_mistakes_are_named(file, table, message, hint):
    place = file(f"port = 9000\n\n[mqtt]\n{table}\n")
    with pytest.raises(ConfigError) as caught:
        configured(place, {})
    assert f"{place}, line 3: " in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_table_is_read_with_its_paths(file):
    found = configured(file(f'[mqtt]\n{URL}device = "camera-1"\nca_file = "~/ca.pem"\n'), {}).settings.mqtt
    assert str(broker_of(found)) == "mqtts://broker:8883"
    assert topics_of(found).desired == "edgeopt/v1/default/camera-1/desired"
    assert found.ca_file.is_absolute()


def test_the_host_name_is_the_device(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "_my host/1")
    assert topics_of(MqttSettings(url="mqtts://broker")).device == "my-host-1"


@pytest.mark.parametrize("url", ["mqtt://127.0.0.1", "mqtt://[::1]:1884", "mqtt://localhost:1", "mqtts://broker"])
def test_loopback_needs_no_tls(url):
    assert wrong_mqtt(MqttSettings(url=url)) == ("", "")


@pytest.mark.parametrize(
    "labels", [{"site": ""}, {"a b": "x"}, {"site": "x" * 65}, {f"l{k}": "x" for k in range(33)}]
)
def test_labels_that_cannot_be_used_are_named(labels):
    message, hint = wrong_mqtt(MqttSettings(url="mqtts://broker", labels=labels))
    assert "mqtt.labels" in message
    assert "at most 32 labels" in hint
    assert wrong_mqtt(MqttSettings(url="mqtts://broker", labels={"site": "north"})) == ("", "")


def test_config_show_lists_the_table(file):
    place = file(f"[mqtt]\n{URL}")
    command = [sys.executable, "-m", "edgeopt_agent.main", "config", "show", str(place), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    settings = {each["name"]: each for each in json.loads(done.stdout)["data"]["settings"]}
    assert settings["mqtt.url"]["value"] == "mqtts://broker"
    assert settings["mqtt.url"]["source"] == f"{place}:2"
    assert settings["mqtt.keepalive_s"]["value"] == MqttSettings().keepalive_s
    assert settings["mqtt.keepalive_s"]["source"] == "default"


def ran(place, tmp_path, prefix=""):
    code = f"import sys; {prefix}; from edgeopt_agent.main import main; sys.exit(main())"
    options = ["run", "--config", str(place), "--data-dir", str(tmp_path / "data"), "--port", "0"]
    return subprocess.run(
        [sys.executable, "-c", code, *options], capture_output=True, text=True, timeout=60, check=False
    )


def test_orders_from_another_machine_need_a_trusted_key(file, tmp_path):
    done = ran(file(f"[mqtt]\n{URL}"), tmp_path, "pass")
    assert done.returncode == 2
    assert "trusts no key yet" in done.stderr
    assert "mqtts://broker:8883" in done.stderr
    assert "edgeopt-agent trust add KEY.pub" in done.stderr


def test_without_its_extra_the_agent_says_what_to_install(file, tmp_path):
    hide = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n: None if n == 'aiomqtt' else f(n)"
    done = ran(file(f"[mqtt]\n{URL}"), tmp_path, hide)
    assert done.returncode == 5
    assert "MQTT needs the 'fleet' extra" in done.stderr
    assert "aiomqtt" in done.stderr


def test_answers_go_to_the_topics_of_answers_only():
    topics = Topics("default", "camera-1")
    assert topics.is_answer(topics.answer("me"))
    for topic in (topics.desired, topics.answer("a/b"), topics.answer("+"), "x/answer/me", ""):
        assert not topics.is_answer(topic)
    assert device_of(topics.status, "default") == "camera-1"
    assert device_of(topics.status, "other") == ""
