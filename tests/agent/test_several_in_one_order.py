"""One order of several models to a real agent: all of it is committed, or nothing has changed."""

import contextlib
import http.client
import json

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt_agent.deployments.states import FINAL
from tests.agent.conftest import packed
from tests.agent.deployments.fetching import RETRIES, digest_of
from tests.agent.deployments.file_server import FileServer


@pytest.fixture(scope="module")
def bundles(make_null_bundle):
    """Of the models `null` (old and new), `other` and `third`."""
    return {
        "old": make_null_bundle(),
        "null": make_null_bundle(model={"noise": 0.25}),
        "other": make_null_bundle(name="other"),
        "third": make_null_bundle(name="third"),
    }


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Serves bundles; each is given as its address and digest."""
    servers = []

    def place(bundle):
        servers.append(FileServer(packed(bundle)))
        return servers[-1]

    yield place
    for each in servers:
        each.close()


@pytest.fixture(scope="module")
def places(bundles, serve):
    return {name: serve(bundle) for name, bundle in bundles.items()}


def model(name, server=None, **more):
    place = {"remove": True} if server is None else {"bundle": server.url, "digest": digest_of(server.content)}
    return {"model": name, **place, **more}


def order(agent, *models, **more):
    """Sends an order, and returns its number."""
    status, _, answer = agent.ask("POST", "/api/v1/desired", json.dumps({"models": models, **more}))
    assert status == 202, answer
    return answer["order"]["id"]


def ended(agent, number):
    def final():
        found = agent.status()["order"]
        return found and found["id"] == number and found["state"] in FINAL and found

    found = agent.until(final, f"the end of order {number}")
    agent.until(lambda: all(each["state"] != "deploying" for each in agent.status()["models"]), "the end")
    return found


def last_order(agent):
    """Returns the last order once it has ended, or None if there was none."""
    last = agent.status()["order"]
    return last and ended(agent, last["id"])


def served(agent):
    """The release of each model that answers."""
    found = agent.until(
        lambda: (s := agent.status()["models"])
        and all(m["state"] in {"serving", "empty"} for m in s) and s, "what serves",
    )  # fmt: skip
    ready = {m["name"] for m in agent.ask("POST", "/v2/repository/index")[2] if m["state"] == "READY"}
    releases = {each["name"]: each["serving"]["release"] for each in found if each["serving"]}
    assert ready == set(releases)
    return releases


@pytest.fixture
def start_pair(start_serving, bundles, places):
    """Starts an agent that serves the old `null` and `other`."""

    def start(*more_places, **settings):
        prefixes = [each.prefix for each in (*places.values(), *more_places)]
        agent = start_serving(fetch_from=prefixes, **RETRIES, **settings)
        assert agent.deploy(bundles["other"], add=1)["state"] == "COMMITTED"
        return agent

    return start


@pytest.fixture
def before(bundles):
    return {"null": release_id(bundles["old"]), "other": release_id(bundles["other"])}


@pytest.fixture
def after(bundles):
    return {"null": release_id(bundles["null"]), "third": release_id(bundles["third"])}


@pytest.fixture
def three(places):
    """One replaced, one added and one removed."""
    return model("null", places["null"]), model("third", places["third"]), model("other")


def test_one_added_one_replaced_one_removed(start_pair, three, before, after):
    agent = start_pair()
    assert served(agent) == before
    number = order(agent, *three)
    done = ended(agent, number)
    assert done["state"] == "COMMITTED", done
    assert [(each["model"], each["state"]) for each in done["models"]] == [
        *(("null", "COMMITTED"), ("third", "COMMITTED"), ("other", "COMMITTED"))
    ]
    assert served(agent) == after
    assert agent.ask("GET", "/v2/models/other")[0] == 404
    assert order(agent, *three) == number


def failed(agent, number, before, reason):
    done = ended(agent, number)
    assert done["state"] in {"FAILED", "ROLLED_BACK"}
    assert reason in done["reason"]
    assert served(agent) == before
    return done


def test_one_whose_digest_is_wrong_leaves_all_as_they_are(start_pair, places, three, before):
    agent = start_pair()
    wrong = {**three[1], "digest": "sha256:" + "0" * 64}
    done = failed(agent, order(agent, three[0], wrong, three[2]), before, "'third': The file at")
    assert done["state"] == "FAILED"
    assert [each["state"] for each in done["models"]] == ["FAILED"] * 3


def test_one_of_another_name_leaves_all_as_they_are(start_pair, places, three, before):
    agent = start_pair()
    wrong = {**three[1], "model": "fourth"}
    said = "'fourth': The bundle's model is called 'third'"
    done = failed(agent, order(agent, three[0], wrong, three[2]), before, said)
    assert done["state"] == "FAILED"


def test_one_that_crashes_in_its_probe_leaves_all_as_they_are(start_pair, serve, make_null_bundle, three, before):
    bad = serve(make_null_bundle(name="third", crash="run"))
    agent = start_pair(bad)
    done = failed(agent, order(agent, three[0], model("third", bad), three[2]), before, "'third': ")
    assert done["state"] == "FAILED"
    again = order(agent, three[0], model("third", bad), three[2])
    failed(agent, again, before, "failed before")


def test_one_that_gets_slow_in_its_soak_takes_all_back(start_pair, serve, make_null_bundle, three, before):
    bad = serve(make_null_bundle(name="third", late_s=0.5, late_ms=20.0))
    agent = start_pair(bad)
    number = order(agent, three[0], model("third", bad), three[2], soak_s=60.0)
    done = failed(agent, number, before, "'third': Its golden inputs take")
    assert done["state"] == "ROLLED_BACK"
    assert [each["state"] for each in done["models"]] == ["ROLLED_BACK"] * 3
    # The others are not to blame.
    assert ended(agent, order(agent, *three))["state"] == "COMMITTED"


def soaking(agent, number):
    def all_soak():
        found = agent.status()["order"]
        return found and found["id"] == number and {each.get("state") for each in found["models"]} == {"SOAKING"}

    agent.until(all_soak, "the soak")


def test_newer_order_takes_the_one_before_back(start_pair, three, before, bundles, places):
    agent = start_pair()
    first = order(agent, *three, soak_s=600.0)
    soaking(agent, first)
    second = order(agent, model("third", places["third"]))
    assert ended(agent, second)["state"] == "COMMITTED"
    assert served(agent) == {**before, "third": release_id(bundles["third"])}


def test_cancelling_one_takes_all_back(start_pair, three, before):
    agent = start_pair()
    number = order(agent, *three, soak_s=600.0)
    soaking(agent, number)
    assert agent.ask("POST", "/api/v1/cancel?model=third")[0] == 202
    failed(agent, number, before, "It was cancelled.")


def test_one_for_which_there_is_no_place_is_refused_and_leaves_all_as_they_are(start_pair, places, three, before):
    agent = start_pair(max_models=2)
    status, _, answer = agent.ask("POST", "/api/v1/desired", json.dumps({"models": three}))
    assert (status, answer["error"]["code"]) == (409, "too-many-models")
    assert served(agent) == before


def test_one_from_a_place_that_is_not_allowed_is_named(start_pair, three, before):
    agent = start_pair()
    wrong = {**three[1], "bundle": "https://example.com/x.edgeopt"}
    status, _, answer = agent.ask("POST", "/api/v1/desired", json.dumps({"models": [three[0], wrong]}))
    assert status == 403
    assert answer["error"]["message"].startswith("'third': The agent does not fetch from")
    assert served(agent) == before


def test_clean_stop_in_the_soak_goes_on(start_agent, start_pair, three, after):
    agent = start_pair()
    number = order(agent, *three, soak_s=1.0)
    soaking(agent, number)
    agent.stop()
    again = start_agent(agent.data_dir)
    assert ended(again, number)["state"] == "COMMITTED"
    assert served(again) == after


def test_removed_model_stays_removed_after_a_restart(start_agent, start_pair, three, after):
    agent = start_pair()
    ended(agent, order(agent, *three))
    agent.stop()
    again = start_agent(agent.data_dir)
    assert served(again) == after
    assert [each["name"] for each in again.status()["models"]] == ["null", "third"]


MAX_WRITES = 29
QUICK_ONES = {8, 20, 24, 27, 29}


KILLED = [
    pytest.param(
        {"writes": writes, "when": when},
        marks=[] if when == "after" and writes in QUICK_ONES else [pytest.mark.slow],
    )
    for writes in range(1, MAX_WRITES + 1)
    for when in ("before", "after")
]


@pytest.mark.parametrize("kill", KILLED, ids=lambda kill: f"{kill['when']}-{kill['writes']}")
def test_killed_at_each_write_of_an_order(start_agent, start_pair, three, before, after, places, kill):
    agent = start_pair()
    agent.stop()
    fetch = {"fetch_from": [each.prefix for each in places.values()], **RETRIES}
    doomed = start_agent(agent.data_dir, kill=kill, **fetch)
    doomed.settled()
    with contextlib.suppress(OSError, http.client.HTTPException):  # it may die before it has answered
        order(doomed, *three)
    assert doomed.process.wait(60) == -9
    again = start_agent(agent.data_dir, **fetch)
    found = served(again)
    assert found in (before, after)
    told = last_order(again)
    if told is None:
        assert kill == {"writes": 1, "when": "before"}
    else:
        assert told["state"] in ({"COMMITTED"} if found == after else {"FAILED", "ROLLED_BACK"})
    assert ended(again, order(again, *three))["state"] == "COMMITTED"
    assert served(again) == after


def test_sweep_covers_all_writes(start_agent, start_pair, three, after, places):
    agent = start_pair()
    agent.stop()
    fetch = {"fetch_from": [each.prefix for each in places.values()], **RETRIES}
    agent = start_agent(agent.data_dir, kill={"writes": MAX_WRITES + 1}, **fetch)
    agent.settled()
    assert ended(agent, order(agent, *three))["state"] == "COMMITTED"
    assert served(agent) == after
    assert agent.process.poll() is None


GROWS = {"memory_factor": 0.5, "memory_slack_bytes": 0}  # every soak fails with these limits


@pytest.mark.parametrize("state", ["ROLLING_BACK", "ROLLED_BACK"])
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_killed_while_an_order_is_taken_back(start_agent, start_pair, three, before, places, state, when):
    agent = start_pair()
    agent.stop()
    fetch = {"fetch_from": [each.prefix for each in places.values()], **RETRIES, **GROWS}
    doomed = start_agent(agent.data_dir, kill={"state": state, "when": when}, **fetch)
    doomed.settled()
    order(doomed, *three, soak_s=60.0)
    assert doomed.process.wait(60) == -9
    again = start_agent(agent.data_dir, **fetch)
    assert served(again) == before
    assert last_order(again)["state"] == "ROLLED_BACK"


def test_restart_loop_in_the_soak_takes_all_back(start_agent, start_pair, three, before):
    agent = start_pair()
    number = order(agent, *three, soak_s=600.0)
    for _ in range(2):
        soaking(agent, number)
        agent.process.kill()
        agent.process.wait(60)
        agent = start_agent(agent.data_dir)
    assert served(agent) == before
    told = last_order(agent)
    assert (told["state"], told["reason"]) == (
        "ROLLED_BACK", "The agent stopped while several models were put into service together.",
    )  # fmt: skip


BAD = {
    "no bundle": ([{"model": "a", "digest": "sha256:" + "0" * 64}], "bad-url"),
    "no digest": ([{"model": "a", "bundle": "https://host/a"}], "bad-digest"),
    "no name": ([{"model": "", "remove": True}], "bad-name"),
    "twice": ([{"model": "a", "remove": True}, {"model": "a", "remove": True}], "bad-name"),
    "both": ([{"model": "a", "remove": True, "bundle": "https://host/a"}], "bad-document"),
    "an unknown key": ([{"model": "a", "add": True}], "bad-document"),
}


def test_bad_documents_are_refused(start_agent):
    agent = start_agent()
    for models, code in BAD.values():
        status, _, answer = agent.ask("POST", "/api/v1/desired", json.dumps({"models": models}))
        assert (status, answer["error"]["code"]) == (400, code)
    for document in ({}, {"models": [model("a")], "model": "a"}):
        status, _, answer = agent.ask("POST", "/api/v1/desired", json.dumps(document))
        assert (status, answer["error"]["code"]) == (400, "bad-document")


def test_three_models_come_to_an_agent_without_any(start_agent, places, bundles):
    agent = start_agent(fetch_from=[each.prefix for each in places.values()], **RETRIES)
    names = ("null", "other", "third")
    done = ended(agent, order(agent, *(model(name, places[name]) for name in names), model("fourth")))
    assert done["state"] == "COMMITTED"
    assert done["models"][-1] == {"model": "fourth", "kind": "remove", "reason": "It was not on this agent."}
    assert served(agent) == {name: release_id(bundles[name]) for name in names}
