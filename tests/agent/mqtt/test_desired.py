"""The desired state: fetched, deployed, reported; and everything that is refused while the agent serves on."""

import errno
import json

import msgspec
import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.fleet.mqtt_documents import read_reported
from edgeopt_agent import trusted_keys


def committed(report, sequence):
    desired, deployment = report["desired"], report["status"]["deployment"]
    return bool(desired and desired["sequence"] == sequence and deployment and deployment["state"] == "COMMITTED")


def test_desired_state_is_fetched_deployed_and_reported(start_device, client, serve_bundle, new_bundle):
    server, digest = serve_bundle(new_bundle)
    agent = start_device(server=server)
    client.presence("online")
    client.desire(1, server.url, digest)
    report = client.reported(lambda each: committed(each, 1) and each["status"]["state"] == "serving")
    assert report["desired"]["state"] == "done"
    assert report["status"]["serving"]["release"] == release_id(new_bundle)
    agent.serves(new_bundle)
    client.until(lambda: client.of(client.topics.event)[-1]["state"] == "COMMITTED", "the last event")
    events = client.of(client.topics.event)
    assert [each["state"] for each in events] == [
        *("ACCEPTED", "FETCHING", "VERIFYING", "STAGED", "PROBING", "SWITCHING", "SOAKING", "COMMITTED")
    ]
    numbers = [each["number"] for each in events]
    assert numbers == sorted(set(numbers))
    typed = read_reported(msgspec.json.encode(report))
    assert typed.status.serving.release == release_id(new_bundle)


def test_state_that_was_published_while_the_device_was_away_is_followed(
    start_device, client, serve_bundle, new_bundle
):
    server, digest = serve_bundle(new_bundle)
    for sequence in (1, 2, 3):
        client.desire(sequence, server.url, digest)
    agent = start_device(server=server)
    report = client.reported(lambda each: committed(each, 3))
    assert report["refused"] is None
    assert report["status"]["deployment"]["id"] == 1
    agent.stop()
    client.presence("offline")
    agent = start_device(server=server)
    report = client.reported(lambda each: each["status"]["uptime_s"] < 30 and committed(each, 3))
    agent.serves(new_bundle)
    assert agent.status()["deployment"]["id"] == 1
    assert len(server.requests) == 1


def test_newer_state_ends_the_older_one(start_device, client, serve_bundle, new_bundle, old_bundle):
    slow, slow_digest = serve_bundle(old_bundle)
    slow.plans = [{"hold": 100}]
    good, digest = serve_bundle(new_bundle)
    agent = start_device(fetch_from=[slow.prefix, good.prefix])
    client.presence("online")
    client.desire(1, slow.url, slow_digest)
    client.until(lambda: slow.requests, "the download")
    client.desire(2, good.url, digest)
    report = client.reported(lambda each: committed(each, 2))
    assert report["desired"]["sequence"] == 2
    agent.serves(new_bundle)


def test_state_waits_until_a_bundle_that_was_sent_is_deployed(
    start_device, client, serve_bundle, new_bundle, old_bundle
):
    server, digest = serve_bundle(new_bundle)
    agent = start_device(server=server)
    client.presence("online")
    agent.send(old_bundle, soak_s=1.5)
    client.desire(1, server.url, digest)
    client.reported(lambda each: each["desired"] and each["desired"]["state"] == "waiting")
    client.reported(lambda each: committed(each, 1) and each["desired"]["deployment"] == 2)
    agent.serves(new_bundle)


def refused(client, code):
    def holds(report):
        return any(each and each["code"] == code for each in (report["refused"], report["desired"]))

    report = client.reported(holds, f"the refusal '{code}'")
    found = report["refused"] or report["desired"]
    assert found["reason"]
    return report


BAD = {
    "not JSON": (b"\x00\xff{", "bad-document"),
    "a list": (b"[]", "bad-document"),
    "an unknown key": (
        b'{"sequence": 9, "fleet": "a", "device": "x", "desired": {}, "x": 1}',
        "bad-document",
    ),
    "deep": (b"[" * 50_000, "bad-document"),
    "1 MB": (json.dumps({"sequence": 9, "x": "y" * 1_000_000}).encode(), "too-large"),
    "a sequence of 0": (None, "bad-document"),
    "another device's": (None, "other-device"),
    "a place that is not allowed": (None, "place-not-allowed"),
    "older": (None, "replayed"),
    "another one of the same number": (None, "replayed"),
}


def test_bad_documents_are_refused_and_the_agent_serves_on(start_device, client, serve_bundle, new_bundle):
    server, digest = serve_bundle(new_bundle)
    agent = start_device(server=server)
    client.presence("online")
    client.desire(5, server.url, digest)
    client.reported(lambda each: committed(each, 5))
    made = {
        "a sequence of 0": lambda: client.desire(0, server.url, digest),
        "another device's": lambda: client.desire(6, server.url, digest, device="device-of-others"),
        "older": lambda: client.desire(4, server.url, digest),
        "another one of the same number": lambda: client.desire(5, server.url, digest, force=True),
        "a place that is not allowed": lambda: client.desire(7, "http://127.0.0.1:1/x.edgeopt", digest),
    }
    for name, (payload, code) in BAD.items():
        before = len(client.seen)
        if payload is None:
            made[name]()
        else:
            client.publish(client.topics.desired, payload, retain=True)
        client.until(lambda: len(client.seen) > before + 1, f"the report about {name}")  # noqa: B023
        refused(client, code)
    agent.serves(new_bundle)
    assert agent.status()["deployment"]["id"] == 1


def test_refused_order_is_told_by_its_own_number(start_device, client, serve_bundle, new_bundle):
    server, digest = serve_bundle(new_bundle)
    start_device()
    client.presence("online")
    client.desire(3, server.url, digest)
    report = refused(client, "place-not-allowed")
    assert report["desired"]["sequence"] == 3
    assert report["desired"]["state"] == "refused"
    assert "fetch_from" in report["desired"]["hint"]


def test_model_that_the_disk_does_not_take_is_refused(start_device, client, serve_bundle, null_bundle):
    server, digest = serve_bundle(null_bundle("other"))
    agent = start_device(server=server, deployed=True, broken={"step": "add", "number": errno.EIO})
    client.presence("online")
    client.desire(1, server.url, digest, model="other", add=True)
    report = refused(client, "disk-failed")
    assert (report["desired"]["state"], report["desired"]["sequence"]) == ("refused", 1)
    assert report["desired"]["reason"] == "The model 'other' could not be added: Input/output error."
    assert [each["name"] for each in agent.status()["models"]] == ["null"]


def test_a_desired_state_whose_deployment_failed_is_reported_as_failed(
    start_device, client, serve_bundle, make_null_bundle
):
    server, digest = serve_bundle(make_null_bundle(fail="load"))
    start_device(server=server)
    client.presence("online")
    client.desire(1, server.url, digest)
    report = client.reported(lambda each: each["desired"] and each["desired"]["state"] == "failed")
    assert report["desired"]["reason"] == report["status"]["deployment"]["reason"] != ""


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in ("trusted", "foreign"):
        new_key(folder / name)
    return folder


def test_only_signed_orders_count_where_a_key_is_trusted(
    start_device, client, serve_bundle, make_null_bundle, keys, tmp_path
):
    bundle = make_null_bundle(model={"noise": 0.5})
    sign_bundle(bundle, keys / "trusted")
    server, digest = serve_bundle(bundle)
    trusted_keys.add(tmp_path / "agent", keys / "trusted.pub")
    agent = start_device(server=server)
    client.presence("online")
    client.desire(1, server.url, digest)
    refused(client, "unsigned")
    client.desire(2, server.url, digest, key=keys / "foreign")
    refused(client, "bad-signature")
    assert agent.status()["deployment"] is None
    client.desire(3, server.url, digest, key=keys / "trusted")
    client.reported(lambda each: committed(each, 3))
    agent.serves(bundle)
    tampered = next(payload for topic, payload, _ in reversed(client.seen) if topic == client.topics.desired)
    envelope = json.loads(tampered)
    envelope["payload"] = envelope["payload"][:4] + "A" + envelope["payload"][5:]
    client.publish(client.topics.desired, json.dumps(envelope).encode(), retain=True)
    client.reported(lambda each: each["refused"]["time_s"] > 0 and "does not match" in each["refused"]["reason"])


def test_a_flood_of_messages_pushes_out_neither_the_newest_order_nor_a_command(
    start_device, client, serve_bundle, new_bundle
):
    server, digest = serve_bundle(new_bundle)
    agent = start_device(server=server, deployed=True)
    client.presence("online")
    for number in range(1, 300):
        client.flood(client.topics.command("view"), b"{}")
        client.flood(client.topics.desired, b"%d" % number)
    client.desire(1, server.url, digest, soak_s=0.0, soak_requests=0)
    assert client.ask("view", {"command": "status"})["status"] == 200
    client.reported(lambda found: (found["desired"] or {}).get("state") == "done")
    agent.serves(new_bundle)
