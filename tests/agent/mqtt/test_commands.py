"""Commands and their answers: the documents of HTTP, the roles of the topics, and each command once."""

import json
import time

import msgspec
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.sign import new_key
from edgeopt.fleet.mqtt_documents import Command, SignedCommand, command_message
from edgeopt_agent import trusted_keys


@pytest.fixture
def agent(start_device, client):
    started = start_device()
    client.presence("online")
    return started


def test_answers_are_those_of_http(agent, client, old_bundle):
    agent.deploy(old_bundle)
    for command, path in (("status", "status"), ("releases", "releases"), ("device", "device")):
        answer = client.ask("view", {"command": command})
        status, _, over_http = agent.ask("GET", f"/api/v1/{path}")
        assert answer["status"] == status == 200
        answer["answer"].pop("uptime_s", None)
        over_http.pop("uptime_s", None)
        assert answer["answer"] == over_http
    answer = client.ask("view", {"command": "deployment", "deployment": 1})
    assert answer["answer"]["deployment"]["state"] == "COMMITTED"


def test_rollback_is_done_once_however_often_it_arrives(agent, client, old_bundle, new_bundle, make_null_bundle):
    newest = make_null_bundle(model={"noise": 0.125})
    for bundle in (old_bundle, new_bundle, newest):
        assert agent.deploy(bundle)["state"] == "COMMITTED"
    first = client.ask("deploy", {"command": "rollback"}, correlation=b"one", times=3)
    assert first["status"] == 202
    agent.ended(first["answer"]["deployment"]["id"])
    assert client.ask("deploy", {"command": "rollback"}, correlation=b"one") == first
    assert agent.settled()["serving"]["release"] == release_id(new_bundle)


def test_cancel_ends_a_soak(agent, client, old_bundle, new_bundle):
    assert agent.deploy(old_bundle)["state"] == "COMMITTED"
    _, _, sent = agent.send(new_bundle, soak_s=600)
    answer = client.ask("deploy", {"command": "cancel"})
    assert answer["status"] == 202
    assert agent.ended(sent["deployment"]["id"])["state"] in {"ROLLED_BACK", "FAILED"}


REFUSED = (
    ("view", {"command": "rollback"}, 403, "wrong-role"),
    ("view", {"command": "cancel"}, 403, "wrong-role"),
    ("view", {"command": "remove", "model": "x"}, 403, "wrong-role"),
    ("deploy", {"command": "cancel"}, 409, "nothing-to-cancel"),
    ("deploy", {"command": "explode"}, 404, "not-found"),
    ("deploy", {"command": "status", "unknown": 1}, 400, "bad-document"),
    ("view", b"\xff", 400, "bad-document"),
    ("view", json.dumps({"command": "x" * 1_000_000}).encode(), 413, "too-large"),
    ("view", {"command": "status", "model": "none"}, 404, "no-model"),
)


def test_refusals(agent, client):
    for role, document, status, code in REFUSED:
        answer = client.ask(role, document)
        assert (answer["status"], answer["answer"]["error"]["code"]) == (status, code), document
        assert answer["answer"]["error"]["message"]
        assert str(agent.data_dir) not in str(answer)  # whoever asks is elsewhere


def test_commands_without_a_proper_answer_topic_are_ignored(agent, client, old_bundle, new_bundle):
    for bundle in (old_bundle, new_bundle):
        assert agent.deploy(bundle)["state"] == "COMMITTED"
    topic = client.topics.command("deploy")
    rollback = b'{"command": "rollback"}'
    client.publish(topic, rollback)
    for answer_topic in (client.topics.desired, "edgeopt/v1/default/other/answer/me", client.topics.answer("a/b")):
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic, properties.CorrelationData = answer_topic, b"1"
        client.publish(topic, rollback, properties=properties)
    retained = Properties(PacketTypes.PUBLISH)
    retained.ResponseTopic, retained.CorrelationData = client.topics.answer("me"), b"2"
    client.publish(topic, rollback, retain=True, properties=retained)
    status = client.ask("view", {"command": "status"})["answer"]
    assert status["serving"]["release"] in {release_id(old_bundle), release_id(new_bundle)}
    agent.stop()


@pytest.fixture
def sign(agent, topics, tmp_path):
    """Makes signed commands for the device of the test, which trusts the key."""
    for name in ("key", "foreign"):
        new_key(tmp_path / name)
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")

    def make(command="cancel", key="key", **changes):
        signed = SignedCommand(
            sequence=10,
            fleet=topics.fleet,
            device=topics.device,
            correlation="one",
            expires_s=time.time() + 600.0,
            command=Command(command, **changes.pop("more", {})),
        )
        return command_message(msgspec.structs.replace(signed, **changes), tmp_path / key)

    return make


def answered(client, document, correlation=b"one"):
    """The code of the answer to a command: `nothing-to-cancel` for one that was performed."""
    return client.ask("deploy", document, correlation)["answer"]["error"]["code"]


def test_only_signed_commands_change_something_where_a_key_is_trusted(client, sign):
    for command in ("cancel", "rollback", "remove"):
        assert answered(client, {"command": command, "model": "none"}, command.encode()) == "unsigned"
    assert answered(client, sign(key="foreign")) == "bad-signature"
    mixed = {**json.loads(sign()), "payload": json.loads(sign("remove"))["payload"]}
    assert answered(client, mixed) == "bad-signature"
    assert answered(client, sign(device="other")) == "other-device"
    assert answered(client, sign(fleet="other")) == "other-device"
    assert answered(client, sign(expires_s=time.time() - 1.0)) == "expired"
    assert answered(client, sign(sequence=0)) == "bad-document"
    assert answered(client, sign(), b"two") == "replayed"
    assert client.ask("view", {"command": "status"})["status"] == 200
    assert client.ask("deploy", {"command": "status"})["status"] == 200
    # None of these refusals was remembered as the answer to the correlation data.
    assert answered(client, sign()) == "nothing-to-cancel"
    assert answered(client, sign("rollback", sequence=11, correlation="1"), b"1") == "nothing-to-return-to"
    assert answered(client, sign("remove", sequence=12, correlation="2", more={"model": "x"}), b"2") == "no-model"


def test_a_signed_command_counts_once(agent, client, sign, start_device):
    assert answered(client, sign()) == "nothing-to-cancel"
    assert answered(client, sign()) == "nothing-to-cancel"  # the first answer again
    assert answered(client, sign(correlation="two"), b"two") == "replayed"
    assert answered(client, sign(correlation="two", sequence=9), b"two") == "replayed"
    session = client.presence("online")["session"]
    agent.stop()
    start_device()
    client.presence("online", after=session)
    assert answered(client, sign()) == "replayed"
    assert answered(client, sign(sequence=11)) == "nothing-to-cancel"


def test_without_a_trusted_key_a_signed_command_is_performed_too(agent, client, sign):
    (key,) = trusted_keys.trusted(agent.data_dir).keys
    trusted_keys.remove(agent.data_dir, key.id)
    assert answered(client, sign()) == "nothing-to-cancel"
    assert answered(client, {"command": "cancel"}, b"two") == "nothing-to-cancel"
