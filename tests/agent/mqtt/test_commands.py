"""Commands and their answers: the documents of HTTP, the roles of the topics, and each command once."""

import json

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgeopt.bundle.manifest import release_id


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
