"""Births, deaths and sessions of a device, as a client at a real broker sees them."""

import msgspec

from edgeopt.fleet.mqtt_documents import Presence
from tests.broker import TOPICS


def test_a_connected_device_is_online_and_reports_what_http_says(start_device, client):
    agent = start_device()
    birth = client.presence("online")
    assert birth["session"] > 0
    report = client.reported(lambda each: each["session"] == birth["session"])
    over_http = agent.status()
    for passing in ("uptime_s",):
        over_http.pop(passing)
        report["status"].pop(passing)
    assert report["status"] == over_http


def test_a_clean_stop_says_offline(start_device, client):
    agent = start_device()
    session = client.presence("online")["session"]
    agent.stop()
    assert client.presence("offline")["session"] == session


def test_a_killed_agent_is_offline_and_its_next_session_is_higher(start_device, client):
    agent = start_device()
    session = client.presence("online")["session"]
    agent.process.kill()
    assert client.presence("offline")["session"] == session
    start_device()
    assert client.presence("online", after=session)["session"] > session


def test_a_late_last_will_is_corrected(start_device, client, topics):
    start_device()
    session = client.presence("online")["session"]
    late = msgspec.json.encode(Presence("offline", session - 1))
    client.publish(topics.status, late, retain=True)
    client.until(
        lambda: [each["state"] for each in client.of(topics.status)][-2:] == ["offline", "online"], "birth"
    )
    assert client.of(topics.status)[-1]["session"] == session


def test_a_second_client_of_the_same_name_does_not_end_the_first_for_long(start_device, client, tmp_path):
    start_device()
    session = client.presence("online")["session"]
    other = start_device(data_dir=tmp_path / "other")
    client.presence("online", after=session)
    other.process.kill()
    client.until(lambda: client.of(client.topics.status)[-1]["state"] == "online", "the first one again")
    assert client.ask("view", {"command": "status"})["status"] == 200


def test_order_of_presences_is_that_of_sessions():
    online, offline = Presence("online", 5), Presence("offline", 5)
    assert online.after(None)
    assert offline.after(online)
    assert not online.after(offline)
    assert not Presence("offline", 4).after(online)
    assert Presence("online", 6).after(offline)
    assert TOPICS.status == "edgeopt/v1/default/device-1/status"
