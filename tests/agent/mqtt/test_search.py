"""Searches that a fleet orders: real agents, a real broker, and a web server that takes uploads."""

import json
from hashlib import sha256

import pytest

from edgeopt.fleet.rollout_bundle import speedup_in
from edgeopt.hw.device import fingerprint, kind_of
from edgeopt.hw.probe import probe
from tests.measuring import model  # noqa: F401 - a fixture


@pytest.fixture
def order(store, model, tmp_path):  # noqa: F811 - the fixture
    url, digest = store.add(model)
    data, data_digest = store.add(tmp_path / "d.npz")
    return {
        "id": "first", "model": url, "model_digest": digest, "data": data, "data_digest": data_digest,
        "put": f"{store.prefix}found.edgeopt", "time_limit_s": 3.0,
    }  # fmt: skip


@pytest.fixture
def start_searching(start_device, store, client):
    def start(**more):
        settings = {"trials": True, "fetch_from": [store.prefix], "put_to": [store.prefix], "fetch_retry_s": 0.01}
        agent = start_device(**{**settings, **more})
        client.presence("online")
        return agent

    return start


@pytest.fixture
def ask(client):
    def ask(order):
        return client.ask("deploy", {"command": "optimize", "search": order})

    return ask


def ended(client, search="first"):
    """The report of a search at its end; a busy machine takes long for one."""
    return client.reported(
        lambda each: (found := each.get("search")) and found["id"] == search and found["state"] != "running",
        within_s=300.0,
    )["search"]


def nothing_left(agent):
    return not (agent.data_dir / "search").exists() and not (agent.data_dir / "trials" / "runs").exists()


def test_device_searches_for_itself_and_uploads_what_it_proved(
    start_searching, client, store, order, ask, tmp_path
):
    agent = start_searching()
    answer = ask(order)
    assert (answer["status"], answer["answer"]["search"]["state"]) == (202, "running")
    found = ended(client)
    assert found["state"] == "done", found
    assert (found["bundle"], store.put) == (order["put"], ["found.edgeopt"])
    content = store.files["found.edgeopt"]
    assert found["digest"] == f"sha256:{sha256(content).hexdigest()}"
    deployment = store.deployment("found.edgeopt", tmp_path)
    assert deployment.name == "m"
    assert f"sha256:{deployment.source.sha256}" == order["model_digest"]
    assert deployment.device == fingerprint(probe())
    assert found["summary"] == deployment.summary
    assert tuple(map(found.get, ("speedup", "speedup_low", "speedup_high"))) == speedup_in(deployment)
    assert nothing_left(agent)
    # The same order again is no other search, after a restart of the agent too.
    assert ask(order)["answer"]["search"] == found
    agent.stop()
    start_searching()
    assert ask(order)["answer"]["search"] == found
    assert store.put == ["found.edgeopt"]


@pytest.mark.parametrize(
    ("settings", "changes", "code"),
    [
        ({"trials": False}, {}, "trials-off"),
        ({"put_to": []}, {}, "place-not-allowed"),
        ({}, {"put": "http://127.0.0.1:9/elsewhere/found.edgeopt"}, "place-not-allowed"),
        ({}, {"model": "http://127.0.0.1:9/elsewhere/m.onnx"}, "place-not-allowed"),
        ({}, {"model_digest": "sha256:1"}, "bad-digest"),
        ({}, {"id": "../1"}, "bad-document"),
        ({}, {"time_limit_s": 1e9}, "bad-document"),
    ],
)
def test_order_that_the_device_does_not_allow_is_refused(
    start_searching, store, order, ask, settings, changes, code
):
    start_searching(**settings)
    answer = ask({**order, **changes})
    assert answer["answer"]["error"]["code"] == code
    assert store.put == []


def test_files_that_could_hold_code_are_refused(start_searching, store, order, ask):
    start_searching()
    for changes in ({"model": f"{store.prefix}net.py"}, {"data": f"{store.prefix}data.pkl"}):
        answer = ask({**order, **changes})
        assert answer["answer"]["error"]["code"] == "bad-document"


def test_metric_of_ones_own_is_refused_by_the_measurement(start_searching, client, order, ask):
    agent = start_searching()
    ask({**order, "metric": "steal.py:all"})
    found = ended(client)
    assert (found["state"], found["code"]) == ("failed", "usage")
    assert "no metric of your own" in found["reason"]
    assert nothing_left(agent)


def test_model_of_another_digest_fails_the_search(start_searching, client, store, order, ask):
    agent = start_searching()
    store.files["m.onnx"] += b"x"
    ask(order)
    found = ended(client)
    assert (found["state"], store.put) == ("failed", [])
    assert "is another one: its digest is" in found["reason"]
    assert nothing_left(agent)


def test_cancelled_search_says_who_ended_it(start_searching, client, store, order, ask):
    agent = start_searching()
    store.held = "d.npz"
    store.holding.clear()
    ask(order)
    assert store.asked.wait(30)
    assert ask({**order, "id": "second"})["answer"]["error"]["code"] == "busy"
    answer = client.ask("deploy", {"command": "cancel-search", "id": "first"})
    assert answer["answer"]["search"]["code"] == "cancelled"
    assert client.name in ended(client)["reason"]
    assert nothing_left(agent)


def test_search_that_is_cancelled_while_it_measures_makes_way_for_the_next(start_searching, client, order, ask):
    agent = start_searching()
    ask({**order, "time_limit_s": 600.0})
    client.reported(lambda each: (each.get("search") or {}).get("step") not in {None, "fetching"}, within_s=300.0)
    assert client.ask("deploy", {"command": "cancel-search", "id": "first"})["status"] == 200
    assert ended(client)["code"] == "cancelled"
    assert nothing_left(agent)
    ask({**order, "id": "second", "metric": "steal.py:all"})
    assert ended(client, "second")["code"] == "usage"


def test_restarted_agent_reports_its_search_as_failed(start_searching, client, store, order, ask):
    agent = start_searching()
    store.held = "d.npz"
    store.holding.clear()
    ask(order)
    assert store.asked.wait(30)
    agent.close()
    agent = start_searching()
    found = ended(client)
    assert (found["state"], found["code"]) == ("failed", "restarted")
    assert nothing_left(agent)


def test_place_that_takes_no_uploads_is_named(start_searching, client, store, order, ask):
    start_searching()
    store.statuses = [503, 405]
    ask(order)
    found = ended(client)
    assert found["state"] == "failed"
    assert f"{order['put']} answers 405" in found["reason"]


def test_devices_tell_their_kind_unless_the_configuration_does(start_device, client, tmp_path):
    agent = start_device()
    birth = client.presence("online")
    assert birth["labels"]["kind"] == kind_of(probe())
    agent.stop()
    start_device(mqtt={"labels": {"kind": "camera", "target": "quick"}})
    assert client.presence("online", after=birth["session"])["labels"] == {"kind": "camera", "target": "quick"}


def test_commands_of_a_search_need_the_role_to_deploy(start_searching, client, order):
    start_searching()
    for document in ({"command": "optimize", "search": order}, {"command": "cancel-search", "id": "first"}):
        assert client.ask("view", json.loads(json.dumps(document)))["status"] == 403
    assert client.ask("deploy", {"command": "optimize"})["answer"]["error"]["code"] == "bad-document"
