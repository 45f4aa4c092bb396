"""The agent is killed at every write of its journal: after the next start exactly one release serves, and well."""

import contextlib
import http.client
import shutil
from functools import partial

import pytest

from edgeopt_agent.deployments.states import TABLE, State
from edgeopt_agent.releases import release_id

GROWS = {"memory_factor": 0.5, "memory_slack_bytes": 0}
"""With these limits every soak fails."""
STAYS_OLD = {
    State.ACCEPTED, State.RECEIVING, State.VERIFYING, State.STAGED, State.PROBING,
    State.FAILED, State.ROLLING_BACK, State.ROLLED_BACK,
}  # fmt: skip
TURNS = {State.ACCEPTED, State.SWITCHING, State.ROLLING_BACK}
KILLED = [
    # Dead before a write is most often as dead after the write before it.
    pytest.param(row.state, when, marks=[pytest.mark.slow] if when == "before" and row.state not in TURNS else [])
    for row in TABLE
    if row.state is not State.DEGRADED
    for when in ("before", "after")
]


@pytest.fixture
def serving_folder(serving_folder, tmp_path):
    """A copy of its own."""
    return shutil.copytree(serving_folder, tmp_path / "agent", symlinks=True)


def die(agent, bundle, **query):
    """Sends a bundle to an agent that dies of it."""
    with contextlib.suppress(OSError, http.client.HTTPException):  # it may die before it has answered
        agent.send(bundle, **query)
    assert agent.process.wait(60) == -9


def die_while(start_agent, folder, state, bundle, when="after", **more):
    agent = start_agent(folder, kill={"state": state, "when": when}, **more)
    agent.settled()
    die(agent, bundle)


@pytest.mark.parametrize(("state", "when"), KILLED)
def test_killed_at_every_write(start_agent, serving_folder, old_bundle, new_bundle, make_null_bundle, state, when):
    bad = state in {State.ROLLING_BACK, State.ROLLED_BACK}
    bundle = make_null_bundle(crash="load") if state is State.FAILED else new_bundle
    settings = GROWS if bad else {}
    die_while(start_agent, serving_folder, state, bundle, when, **settings)
    again = start_agent(serving_folder, **settings)
    again.settled()
    early = state is State.SWITCHING and when == "before"
    again.serves(old_bundle if state in STAYS_OLD or early else new_bundle)
    status = again.status()
    assert status["deployment"]["state"] in {"COMMITTED", "FAILED", "ROLLED_BACK"}
    assert [folder.name for folder in (serving_folder / "partial").iterdir()] == []
    used = {status["serving"]["release"], *([status["previous"]["release"]] if status["previous"] else [])}
    assert {folder.name for folder in (serving_folder / "releases").iterdir()} == used


def test_a_start_in_the_middle_of_a_soak_goes_on_once(start_agent, serving_folder, old_bundle, new_bundle):
    die_while(start_agent, serving_folder, State.SOAKING, new_bundle)
    again = start_agent(serving_folder)
    again.serves(new_bundle)
    told = again.status()["deployment"]
    assert told["state"] == "COMMITTED"
    assert any("started again while it was soaking" in moment["reason"] for moment in told["history"])
    assert again.status()["previous"]["release"] == release_id(old_bundle)


def test_a_restart_loop_while_soaking_ends_with_the_old_release(
    start_agent, serving_folder, old_bundle, new_bundle
):
    die_while(start_agent, serving_folder, State.SOAKING, new_bundle)
    second = start_agent(serving_folder, kill={"state": State.COMMITTED, "when": "before"})
    assert second.process.wait(60) == -9
    third = start_agent(serving_folder)
    third.serves(old_bundle)
    told = third.status()["deployment"]
    assert told["state"] == "ROLLED_BACK"
    assert "stopped 2 times while it was soaking" in told["reason"]
    refused = third.deploy(new_bundle)
    assert "failed before" in refused["reason"]


def test_a_clean_stop_while_receiving_leaves_the_old_release_and_says_so(
    start_agent, serving_folder, old_bundle, new_bundle
):
    die_while(start_agent, serving_folder, State.VERIFYING, new_bundle)
    again = start_agent(serving_folder)
    again.serves(old_bundle)
    assert again.status()["deployment"]["reason"] == "The agent stopped while it was verifying."
    assert again.deploy(new_bundle)["state"] == "COMMITTED"


def soak_of(agent, least_s):
    """The deployment, once its soak has come so far."""
    told = agent.status()["deployment"]
    progress = (told and told["progress"]) or {}
    return progress.get("elapsed_s", -1.0) >= least_s and told


@pytest.mark.parametrize("first", [True, False])
def test_clean_stops_during_a_soak_are_no_failure(start_agent, serving_folder, tmp_path, new_bundle, first):
    folder = tmp_path / "first" if first else serving_folder
    agent = start_agent(folder)
    if not first:
        agent.settled()
    number = agent.send(new_bundle, soak_s=60, soak_requests=0)[2]["deployment"]["id"]
    before_s = 0.0
    for _ in range(3):
        told = agent.until(partial(soak_of, agent, 0.0), "the soak")
        assert (told["id"], told["state"]) == (number, "SOAKING")
        assert told["progress"]["elapsed_s"] >= before_s  # it goes on where it was
        before_s = agent.until(partial(soak_of, agent, before_s + 0.15), "more")["progress"]["elapsed_s"]
        agent.stop()
        agent = start_agent(folder)
    assert agent.ask("GET", "/api/v1/releases")[2]["releases"][0]["state"] == "serving"


def test_a_first_release_that_does_not_come_back_leaves_nothing_to_wait_for(start_agent, tmp_path, new_bundle):
    die(start_agent(tmp_path / "first", kill={"state": State.SOAKING, "when": "after"}), new_bundle)
    second = start_agent(tmp_path / "first", kill={"state": State.COMMITTED, "when": "before"})
    assert second.process.wait(60) == -9
    third = start_agent(tmp_path / "first")
    third.until(lambda: third.status()["state"] == "empty", "the end of the way back")
    reason = third.status()["reason"]
    assert reason.startswith("No release serves. The release ")
    assert "was rolled back: The agent stopped" in reason
    status, headers, answer = third.ask("POST", "/v2/models/null/infer", "{}")
    assert status == 503
    assert "Retry-After" not in headers
    assert reason.removeprefix("No release serves. ") in answer["error"]


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty"])
def test_a_damaged_journal_is_set_aside_and_the_release_serves_on(start_agent, serving_folder, old_bundle, damage):
    journal = serving_folder / "state.db"
    content = journal.read_bytes()
    journal.write_bytes({"garbage": b"no database " * 999, "truncated": content[:5000], "empty": b""}[damage])
    agent = start_agent(serving_folder)
    agent.serves(old_bundle)
    assert "history is lost" in agent.status()["reason"]
    assert (serving_folder / "state.db.damaged-1").exists()
    events = agent.ask("GET", "/api/v1/events")[2]["events"]
    assert events[0]["state"] == "JOURNAL LOST"
    told = agent.status()["deployment"]
    assert (told["state"], told["release"]) == ("COMMITTED", release_id(old_bundle))
    assert "after the journal was damaged" in told["reason"]


def test_a_release_that_the_journal_does_not_name_is_kept(start_agent, serving_folder, old_bundle):
    shutil.copytree(old_bundle, serving_folder / "releases" / "0123456789ab")
    (serving_folder / "partial" / "7.zip").write_bytes(b"half")
    agent = start_agent(serving_folder)
    agent.serves(old_bundle)
    listed = {each["id"]: each["state"] for each in agent.ask("GET", "/api/v1/releases")[2]["releases"]}
    assert listed == {release_id(old_bundle): "serving", "0123456789ab": "kept"}
    assert list((serving_folder / "partial").iterdir()) == []


def without_links(folder):
    for name in ("current", "previous"):
        (folder / name).unlink()


def with_a_folder_as_link(folder):
    without_links(folder)
    (folder / "current").mkdir()


@pytest.mark.parametrize("damage", [without_links, with_a_folder_as_link])
def test_damaged_links_are_made_again_from_the_journal(
    start_agent, serving_folder, old_bundle, new_bundle, damage
):
    first = start_agent(serving_folder)
    first.settled()
    assert first.deploy(new_bundle)["state"] == "COMMITTED"
    first.stop()
    damage(serving_folder)
    again = start_agent(serving_folder)
    again.serves(new_bundle)
    assert again.status()["previous"]["release"] == release_id(old_bundle)


def test_a_release_that_was_damaged_on_the_disk_gives_way_to_the_previous_one(
    start_agent, serving_folder, old_bundle, new_bundle
):
    first = start_agent(serving_folder)
    first.settled()
    assert first.deploy(new_bundle)["state"] == "COMMITTED"
    first.stop()
    model = serving_folder / "releases" / release_id(new_bundle) / "model" / "model.null.json"
    model.write_bytes(model.read_bytes() + b" ")
    again = start_agent(serving_folder)
    again.serves(old_bundle)
    told = again.status()["deployment"]
    assert (told["kind"], told["state"]) == ("rollback", "COMMITTED")
    assert "is damaged" in told["history"][0]["reason"]
