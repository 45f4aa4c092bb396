"""What an operator reads in the log of the agent."""

import json
import re
import signal

import pytest
from websockets.sync.client import connect

from edgeopt.bundle.sign import new_key
from edgeopt.errors import EdgeoptError
from edgeopt.events import ignore
from edgeopt.fleet.address import Address
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt.version import __version__
from edgeopt_agent import tokens, trusted_keys
from edgeopt_agent.mqtt.link import Outage
from tests import broker as brokers
from tests.agent.conftest import packed
from tests.agent.deployments.fetching import digest_of
from tests.agent.deployments.file_server import FileServer
from tests.broker import Client

WITHIN_S = 30
QUICK = "soak_s = 0\nsoak_requests = 0\nready_timeout_s = 30\nhang_timeout_s = 60\n"
mosquitto, broker, make_broker = brokers.mosquitto, brokers.broker, brokers.make_broker


@pytest.fixture
def begin(start, tmp_path):
    """Starts an agent with these lines of configuration; returns its process and its address."""

    def begun(config="", *options):
        file = tmp_path / "agent.toml"
        file.write_text(QUICK + config)
        process = start("--json", "--data-dir", tmp_path / "data", "--config", file, *options)
        return process, json.loads(process.stdout.readline())["message"]

    return begun


def ended(process):
    """The lines of the log, once the agent has stopped."""
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, log
    return log.splitlines()


def with_words(lines, *words):
    return [line for line in lines if all(word in line for word in words)]


def test_deployment_names_its_model_its_number_and_who_ordered_it(begin, tmp_path, old_bundle):
    token = tokens.add(tmp_path / "data", "laptop", "deploy").token
    process, url = begin()
    agent = Agent(Address("127.0.0.1", int(url.rpartition(":")[2]), token))
    assert agent.deploy(old_bundle, ignore).state == "COMMITTED"
    lines = ended(process)
    by = "Ordered by the token 'laptop' at 127.0.0.1."
    (accepted,) = with_words(lines, "Deployment 1 of the first model: ACCEPTED")
    assert accepted.endswith(by)
    (committed,) = with_words(lines, "INFO", "Deployment 1 of 'null': COMMITTED")
    assert committed.endswith(by)
    assert with_words(lines, "Deployment 1 of 'null': SOAKING")


def test_failed_and_refused_deployments_are_shown_at_the_level_warning(begin, tmp_path, old_bundle, null_bundle):
    process, url = begin('log_level = "warning"\n')
    agent = Agent(url)
    assert agent.deploy(old_bundle, ignore).state == "COMMITTED"
    with pytest.raises(EdgeoptError):
        agent.deploy(null_bundle(name="other"), ignore)
    new_key(tmp_path / "key")
    trusted_keys.add(tmp_path / "data", tmp_path / "key.pub")
    with pytest.raises(EdgeoptError):
        agent.deploy(null_bundle(), ignore)
    lines = ended(process)
    anyone = "Ordered by 127.0.0.1 without a token."
    (renamed,) = with_words(lines, "WARNING", "Deployment 2 of 'other': FAILED")
    (untrusted,) = with_words(lines, "WARNING", "Deployment 3 of 'null': FAILED")
    assert "--rename" in renamed
    assert "sign" in untrusted
    assert renamed.endswith(anyone)
    assert untrusted.endswith(anyone)
    assert not with_words(lines, " INFO ")


def test_rollback_is_a_warning_that_follows_who_ordered_it(begin, old_bundle, new_bundle):
    process, url = begin()
    agent = Agent(url)
    assert agent.deploy(old_bundle, ignore).state == "COMMITTED"
    agent.deploy(new_bundle, ignore, DeployOptions(soak_s=600.0), wait=False)
    seen = 0
    while agent.status().deployment.state != "SOAKING":
        seen = agent.events(seen, WITHIN_S).next
    agent.rollback(ignore)
    lines = ended(process)
    anyone = "Ordered by 127.0.0.1 without a token."
    assert with_words(lines, "Deployment 2 of 'null': A rollback was requested. " + anyone)
    (back,) = with_words(lines, "WARNING", "Deployment 2 of 'null': ROLLED_BACK")
    assert back.endswith(anyone)


def test_bundle_without_room_on_the_disk_is_a_warning(begin, old_bundle):
    process, url = begin('disk_reserve_bytes = 900_000_000_000_000\nlog_level = "warning"\n')
    with pytest.raises(EdgeoptError):
        Agent(url).deploy(old_bundle, ignore)
    (refused,) = with_words(ended(process), "WARNING", "/api/v1/deploy was refused")
    assert "disk" in refused
    assert refused.endswith("Ordered by 127.0.0.1 without a token.")


def test_start_and_stop_have_time_and_version(begin, tmp_path):
    process, url = begin()
    lines = ended(process)
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ INFO    "
    port = url.rpartition(":")[2]
    started = f"edgeopt-agent {__version__} started: port {port} of 127.0.0.1, data folder '{tmp_path}/data'"
    assert re.match(time + re.escape(started), lines[0])
    assert re.search(time + r"The agent stops: SIGTERM\.", "\n".join(lines))
    assert re.match(time + re.escape(f"edgeopt-agent {__version__} stopped after ") + r"\d+ s\.", lines[-1])


def test_reload_names_what_changed(begin, tmp_path):
    process, _ = begin()
    (tmp_path / "agent.toml").write_text(QUICK + 'keep = 5\nqueue_length = 5\nlog_level = "warning"\n')
    process.send_signal(signal.SIGHUP)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "next restart" in line:
            break
    (told,) = with_words(lines, "INFO", "The configuration was read again")
    assert told.endswith("log_level is 'warning' instead of 'info', keep is 5 instead of 3.\n")
    assert lines[-1].endswith("queue_length.\n")
    process.send_signal(signal.SIGTERM)
    assert "stops" not in process.communicate(timeout=WITHIN_S)[1]


def test_reload_without_a_change_says_so(begin):
    process, _ = begin()
    process.send_signal(signal.SIGHUP)
    told = next(line for line in process.stderr if "read again" in line)
    assert told.endswith("nothing has changed at once.\n")


def test_viewer_of_the_telemetry_leaves_no_line_of_the_library(begin):
    process, url = begin()
    with connect(url.replace("http", "ws") + "/api/v1/telemetry") as viewer:
        assert viewer.recv(WITHIN_S)
    lines = ended(process)
    assert not with_words(lines, "connection")
    assert not with_words(lines, "WebSocket")


@pytest.fixture
def served(old_bundle):
    server = FileServer(packed(old_bundle))
    yield server
    server.close()


def test_order_from_the_broker_names_sequence_rollout_and_broker(begin, broker, served):
    client = Client(broker, Topics("default", "log-1"))
    mqtt = f'fetch_from = ["{served.prefix}"]\n[mqtt]\nurl = "{broker.url}"\ndevice = "log-1"\ntelemetry_s = 0\n'
    process, _ = begin(mqtt)
    try:
        client.desire(7, served.url, digest_of(served.content), rollout="spring\x1b[2J")
        client.reported(lambda found: (found.get("desired") or {}).get("state") == "done")
        client.desire(3, served.url, digest_of(served.content))
        client.reported(lambda found: (found.get("refused") or {}).get("sequence") == 3)
        assert client.ask("deploy", {"command": "rollback"})["status"] == 409
    finally:
        client.close()
    lines = ended(process)
    by = rf"Ordered by MQTT (sequence 7, rollout 'spring\x1b[2J', {broker.url})."
    (accepted,) = with_words(lines, "Deployment 1 of the first model: ACCEPTED")
    (committed,) = with_words(lines, "Deployment 1 of 'null': COMMITTED")
    assert accepted.endswith(by)
    assert committed.endswith(by)
    (older,) = with_words(lines, "WARNING", "A desired state was refused (replayed)")
    assert older.endswith(f"Ordered by MQTT (sequence 3, {broker.url}).")
    (refused,) = with_words(lines, "WARNING", "A command was refused (")
    assert refused.endswith(f"Ordered by the MQTT client '{client.name}' at {broker.url}.")


def test_lost_broker_is_logged_once_for_each_reason(start, make_broker, tmp_path):
    own = make_broker()
    quick = "reconnect_s = 0.01\nreconnect_most_s = 0.01\n"
    file = tmp_path / "agent.toml"
    file.write_text(f'[mqtt]\nurl = "{own.url}"\ndevice = "log-2"\ntelemetry_s = 0\n{quick}')
    # However long this test takes, its connections count as short ones.
    planted = "import edgeopt_agent.mqtt.link as link; link._STABLE_S = link._FIRST_AGAIN_S = 1e9"
    process = start("--json", "--data-dir", tmp_path / "data", "--config", file, planted=planted)
    lines = []

    def read_to(words):
        for line in process.stderr:
            lines.append(line.rstrip())
            if words in line:
                return

    read_to("Connected to")
    own.stop()
    read_to("Not connected to")
    own.start()
    read_to("Connected to")
    own.stop()
    own.start()
    read_to("Connected to")
    lines += ended(process)
    told = [line.partition("WARNING")[2] for line in with_words(lines, "WARNING", "Not connected to")]
    assert len(told) == len(set(told)) > 0


def test_broker_that_stays_away_is_named_at_growing_intervals():
    clock = Clock()
    outage = Outage(clock)
    told = [(clock.now_s, outage.note_failure("refused")) for clock.now_s in range(0, 24 * 3600, 10)]
    minutes = [at_s // 60 for at_s, for_s in told if for_s is not None]
    assert minutes == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def test_other_reason_is_named_at_once_and_only_once():
    outage = Outage(Clock())
    told = [outage.note_failure(reason) is not None for reason in ("lost", "refused", "lost", "refused")]
    assert told == [True, True, False, False]


def test_loss_after_a_long_connection_is_a_new_one():
    clock = Clock()
    outage = Outage(clock)
    assert outage.note_failure("lost") is not None
    outage.connected()
    clock.now_s = 5.0
    assert outage.note_failure("lost") is None
    outage.connected()
    clock.now_s = 50.0
    assert outage.note_failure("lost") == 0.0


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s
