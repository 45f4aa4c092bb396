"""The agent is killed at every write of its journal: after the next start exactly one release serves, and well."""

import contextlib
import http.client
import json
import random
import shutil
import signal
import subprocess
import threading
from functools import partial

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import VerificationError
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt_agent import trusted_keys
from edgeopt_agent.deployments.states import TABLE, State
from tests.agent.deployments.soaks import soaking

GROWS = {"memory_factor": 0.5, "memory_slack_bytes": 0}  # every soak fails with these limits
STAYS_OLD = {
    State.ACCEPTED, State.RECEIVING, State.VERIFYING, State.STAGED, State.PROBING,
    State.FAILED, State.ROLLING_BACK, State.ROLLED_BACK,
}  # fmt: skip
TURNS = {State.ACCEPTED, State.SWITCHING, State.ROLLING_BACK}
KILLED = [
    pytest.param(row.state, when, marks=[pytest.mark.slow] if when == "before" and row.state not in TURNS else [])
    for row in TABLE
    if row.state not in {State.DEGRADED, State.FETCHING, State.READY}
    for when in ("before", "after")
]


@pytest.fixture
def own_folder(serving_folder, tmp_path):
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
def test_killed_at_every_write(start_agent, own_folder, old_bundle, new_bundle, make_null_bundle, state, when):
    bad = state in {State.ROLLING_BACK, State.ROLLED_BACK}
    bundle = make_null_bundle(crash="load") if state is State.FAILED else new_bundle
    settings = GROWS if bad else {}
    die_while(start_agent, own_folder, state, bundle, when, **settings)
    again = start_agent(own_folder, **settings)
    again.settled()
    early = state is State.SWITCHING and when == "before"
    again.serves(old_bundle if state in STAYS_OLD or early else new_bundle)
    status = again.status()
    assert status["deployment"]["state"] in {"COMMITTED", "FAILED", "ROLLED_BACK"}
    assert [folder.name for folder in (own_folder / "partial").iterdir()] == []
    used = {status["serving"]["release"], *([status["previous"]["release"]] if status["previous"] else [])}
    assert {folder.name for folder in (own_folder / "releases").iterdir()} == used


def test_a_start_in_the_middle_of_a_soak_goes_on_once(start_agent, own_folder, old_bundle, new_bundle):
    die_while(start_agent, own_folder, State.SOAKING, new_bundle)
    again = start_agent(own_folder)
    again.serves(new_bundle)
    told = again.status()["deployment"]
    assert told["state"] == "COMMITTED"
    assert any("started again while it was soaking" in moment["reason"] for moment in told["history"])
    assert again.status()["previous"]["release"] == release_id(old_bundle)


def test_a_restart_loop_while_soaking_ends_with_the_old_release(start_agent, own_folder, old_bundle, new_bundle):
    die_while(start_agent, own_folder, State.SOAKING, new_bundle)
    second = start_agent(own_folder, kill={"state": State.COMMITTED, "when": "before"})
    assert second.process.wait(60) == -9
    third = start_agent(own_folder)
    third.serves(old_bundle)
    told = third.status()["deployment"]
    assert told["state"] == "ROLLED_BACK"
    assert "stopped 2 times while it was soaking" in told["reason"]
    refused = third.deploy(new_bundle)
    assert "failed before" in refused["reason"]


def test_a_clean_stop_while_receiving_leaves_the_old_release_and_says_so(
    start_agent, own_folder, old_bundle, new_bundle
):
    die_while(start_agent, own_folder, State.VERIFYING, new_bundle)
    again = start_agent(own_folder)
    again.serves(old_bundle)
    assert again.status()["deployment"]["reason"] == "The agent stopped while it was verifying."
    assert again.deploy(new_bundle)["state"] == "COMMITTED"


def soak_of(agent, min_s):
    """The deployment, once its soak has come so far."""
    told = agent.status()["deployment"]
    progress = (told and told["progress"]) or {}
    return progress.get("elapsed_s", -1.0) >= min_s and told


@pytest.mark.parametrize("first", [True, False])
def test_clean_stops_during_a_soak_are_no_failure(start_agent, own_folder, tmp_path, new_bundle, first):
    folder = tmp_path / "first" if first else own_folder
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
def test_a_damaged_journal_is_set_aside_and_the_release_serves_on(start_agent, own_folder, old_bundle, damage):
    journal = own_folder / "state.db"
    content = journal.read_bytes()
    journal.write_bytes({"garbage": b"no database " * 999, "truncated": content[:5000], "empty": b""}[damage])
    agent = start_agent(own_folder)
    agent.serves(old_bundle)
    assert "history is lost" in agent.status()["reason"]
    assert (own_folder / "state.db.damaged-1").exists()
    events = agent.ask("GET", "/api/v1/events")[2]["events"]
    assert events[0]["state"] == "JOURNAL LOST"
    told = agent.status()["deployment"]
    assert (told["state"], told["release"]) == ("COMMITTED", release_id(old_bundle))
    assert "after the journal was damaged" in told["reason"]


def test_a_release_that_the_journal_does_not_name_is_kept(start_agent, own_folder, old_bundle):
    shutil.copytree(old_bundle, own_folder / "releases" / "0123456789ab")
    (own_folder / "partial" / "7.zip").write_bytes(b"half")
    agent = start_agent(own_folder)
    agent.serves(old_bundle)
    listed = {each["id"]: each["state"] for each in agent.ask("GET", "/api/v1/releases")[2]["releases"]}
    assert listed == {release_id(old_bundle): "serving", "0123456789ab": "kept"}
    assert list((own_folder / "partial").iterdir()) == []


def without_links(folder):
    for name in ("current", "previous"):
        (folder / name).unlink()


def with_a_folder_as_link(folder):
    without_links(folder)
    (folder / "current").mkdir()


@pytest.mark.parametrize("damage", [without_links, with_a_folder_as_link])
def test_damaged_links_are_made_again_from_the_journal(start_agent, own_folder, old_bundle, new_bundle, damage):
    first = start_agent(own_folder)
    first.settled()
    assert first.deploy(new_bundle)["state"] == "COMMITTED"
    first.stop()
    damage(own_folder)
    again = start_agent(own_folder)
    again.serves(new_bundle)
    assert again.status()["previous"]["release"] == release_id(old_bundle)


def test_a_release_that_was_damaged_on_the_disk_gives_way_to_the_previous_one(
    start_agent, own_folder, old_bundle, new_bundle
):
    first = start_agent(own_folder)
    first.settled()
    assert first.deploy(new_bundle)["state"] == "COMMITTED"
    first.stop()
    model = own_folder / "releases" / release_id(new_bundle) / "model" / "model.null.json"
    model.write_bytes(model.read_bytes() + b" ")
    again = start_agent(own_folder)
    again.serves(old_bundle)
    told = again.status()["deployment"]
    assert (told["kind"], told["state"]) == ("rollback", "COMMITTED")
    assert "is damaged" in told["history"][0]["reason"]


@pytest.fixture
def signed(start_agent, old_bundle, new_bundle, tmp_path):
    """An agent that trusts a key; the older release, which served; the newer one, which serves."""
    agent = start_agent()
    new_key(tmp_path / "key")
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    bundles = []
    for sequence, bundle in ((5, old_bundle), (6, new_bundle)):
        bundles.append(shutil.copytree(bundle, tmp_path / f"{sequence}.edgeopt"))
        sign_bundle(bundles[-1], tmp_path / "key", sequence)
        done = agent.deploy(bundles[-1])
        assert done["state"] == "COMMITTED", done["reason"]
    assert {"signed_by", "sequence", "latency_ms"} <= done["detail"].keys()
    return agent, *bundles


def test_a_replayed_older_release_is_refused_and_taken_when_that_is_meant(signed):
    agent, older, newer = signed
    refused = agent.deploy(older)
    assert (refused["state"], refused["detail"]["refused"]) == ("FAILED", "downgrade")
    assert "sequence number is 5, the highest so far 6" in refused["reason"]
    assert "--allow-downgrade" in refused["reason"]
    agent.serves(newer)
    assert agent.deploy(older, force=1)["state"] == "FAILED"
    assert agent.deploy(older, allow_downgrade=1)["state"] == "COMMITTED"
    agent.serves(older)


def test_the_client_of_edgeopt_names_a_downgrade(signed):
    agent, older, _ = signed
    client = Agent(f"127.0.0.1:{agent.port}")
    with pytest.raises(VerificationError, match="older than a release") as raised:
        client.deploy(older, ignore)
    assert raised.value.code == "downgrade"
    assert client.deploy(older, ignore, DeployOptions(allow_downgrade=True)).state == "COMMITTED"


def test_the_highest_number_counts_after_a_rollback_a_restart_and_a_lost_journal(
    signed, start_agent, tmp_path, make_null_bundle
):
    agent, older, _ = signed
    assert agent.roll_back()["state"] == "COMMITTED"
    agent.serves(older)
    assert "already serves" in agent.deploy(older)["reason"]
    between = shutil.copytree(make_null_bundle(model={"noise": 0.5}), tmp_path / "between.edgeopt")
    sign_bundle(between, tmp_path / "key", 5)
    assert agent.deploy(between)["detail"]["refused"] == "downgrade"
    agent.stop()
    again = start_agent()
    assert again.deploy(between)["detail"]["refused"] == "downgrade"
    sign_bundle(between, tmp_path / "key", 6)
    assert again.deploy(between)["state"] == "COMMITTED"
    again.stop()
    (again.data_dir / "state.db").write_bytes(b"")
    third = start_agent()
    third.serves(between)
    replayed = third.deploy(older)
    assert (replayed["release"], replayed["detail"]["refused"]) == (release_id(older), "downgrade")


def test_another_model_name_is_refused_until_it_is_asked_for(agent, null_bundle, old_bundle):
    other = null_bundle("other")
    done = agent.deploy(other)
    assert done["state"] == "FAILED"
    assert "'other', and the one that serves 'null'" in done["reason"]
    assert "--rename" in done["reason"]
    agent.serves(old_bundle)
    assert agent.deploy(other, rename=1)["state"] == "COMMITTED"
    assert agent.status()["serving"]["name"] == "other"


def test_clients_of_the_old_name_end_the_soak_of_a_renamed_model(agent, null_bundle, old_bundle):
    number = soaking(agent, null_bundle("other"), rename=1)
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
    for _ in range(20):
        agent.ask("POST", "/v2/models/null/infer", body)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "There is no model 'null' any more" in done["reason"]
    agent.serves(old_bundle)


def fill(place):
    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    assert shutil.disk_usage(place).free == 0


def make_read_only(place):
    subprocess.run(["/bin/mount", "-o", "remount,ro", str(place)], check=True)


@pytest.fixture
def served(start_agent, small_disk, old_bundle, new_bundle):
    """Starts an agent on the small disk, where two releases have been deployed."""
    first = start_agent(small_disk / "agent")
    for bundle in (old_bundle, new_bundle):
        assert first.deploy(bundle)["state"] == "COMMITTED"
    first.stop()
    return lambda: start_agent(small_disk / "agent")


@pytest.mark.parametrize("damage", [fill, make_read_only])
def test_a_restart_on_a_disk_that_takes_nothing_serves(served, small_disk, new_bundle, damage):
    damage(small_disk)
    agent = served()
    agent.serves(new_bundle)
    assert "cannot be written" in agent.status()["reason"]
    assert agent.status()["deployment"]["state"] == "COMMITTED"
    assert agent.send(new_bundle)[0] in {500, 507}
    agent.serves(new_bundle)


def test_a_rollback_on_a_full_disk_goes_back(served, small_disk, old_bundle):
    fill(small_disk)
    agent = served()
    agent.settled()
    done = agent.roll_back()
    assert (done["kind"], done["state"]) == ("rollback", "COMMITTED")
    agent.serves(old_bundle)
    (small_disk / "filler").unlink()
    agent.stop()
    served().serves(old_bundle)


def test_a_disk_that_fills_up_while_a_bundle_is_tried_fails_it_in_every_view(
    served, small_disk, new_bundle, make_null_bundle
):
    agent = served()
    agent.settled()
    number = agent.send(make_null_bundle(load_ms=1000.0))[2]["deployment"]["id"]
    agent.until(lambda: agent.status()["deployment"]["state"] == "PROBING", "the probe")
    fill(small_disk)
    done = agent.ended(number)
    assert done["state"] == agent.status()["deployment"]["state"] == "FAILED"
    assert agent.ask("GET", "/api/v1/events?after=0")[2]["events"][-1]["state"] == "FAILED"
    agent.serves(new_bundle)
    (small_disk / "filler").unlink()
    assert agent.deploy(make_null_bundle(model={"noise": 0.5}))["state"] == "COMMITTED"


PAGE_BYTES = 4096
slow = pytest.mark.slow


def outcome(agent, bundle):
    """The state in which a deployment ends; empty where it was not taken."""
    status, _, answer = agent.send(bundle)
    return agent.ended(answer["deployment"]["id"])["state"] if status == 202 else ""


@pytest.mark.parametrize(
    "pages", [pytest.param(n, marks=[] if n in {0, 12, 40} else slow) for n in range(0, 72, 2)]
)
def test_a_disk_that_is_full_after_so_many_pages(
    start_agent,
    serving_folder,
    small_disk,
    old_bundle,
    new_bundle,
    make_null_bundle,
    pages,
):
    folder = shutil.copytree(serving_folder, small_disk / "agent", symlinks=True)
    agent = start_agent(folder)
    agent.settled()
    free = shutil.disk_usage(small_disk).free // PAGE_BYTES
    with contextlib.suppress(OSError):  # the agent may have written a page since then
        (small_disk / "filler").write_bytes(bytes(max(free - pages, 0) * PAGE_BYTES))
    ended = outcome(agent, new_bundle)
    serves = new_bundle if ended == "COMMITTED" else old_bundle
    agent.serves(serves)
    agent.process.kill()
    agent.process.wait()  # the folder is locked until it is gone
    again = start_agent(folder)
    again.serves(serves)
    (small_disk / "filler").unlink()
    assert outcome(again, make_null_bundle(model={"noise": 0.5})) == "COMMITTED"


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < 1 else slow) for n in range(40)])
def test_a_flipped_bit_in_the_journal(start_agent, serving_folder, tmp_path, old_bundle, new_bundle, seed):
    folder = shutil.copytree(serving_folder, tmp_path / "copy", symlinks=True)
    rng = random.Random(seed)  # noqa: S311 - the same each time
    journal = folder / "state.db"
    content = bytearray(journal.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    journal.write_bytes(content)
    agent = start_agent(folder)
    agent.serves(old_bundle)
    assert agent.ask("GET", "/api/v1/events?after=0")[0] == 200
    assert outcome(agent, new_bundle) == "COMMITTED"


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < 1 else slow) for n in range(40)])
def test_a_kill_at_any_moment(
    start_agent, serving_folder, tmp_path, old_bundle, new_bundle, make_null_bundle, seed
):
    folder = shutil.copytree(serving_folder, tmp_path / "copy", symlinks=True)
    agent = start_agent(folder)
    agent.settled()
    after_s = random.Random(seed).uniform(0, 1.0)  # noqa: S311 - the same each time
    killing = threading.Timer(after_s, agent.process.send_signal, [signal.SIGKILL])
    killing.start()
    with contextlib.suppress(OSError, http.client.HTTPException):
        agent.send(new_bundle)
    agent.process.wait(60)
    killing.join()
    again = start_agent(folder)
    again.settled()
    serving = again.status()["serving"]["release"]
    assert serving in {release_id(old_bundle), release_id(new_bundle)}
    again.serves(old_bundle if serving == release_id(old_bundle) else new_bundle)
    assert outcome(again, make_null_bundle(model={"noise": 0.5})) == "COMMITTED"


FAULTS = {
    "crashes when it is loaded": {"crash": "load"},
    "crashes when it runs": {"crash": "run"},
    "fails when it is loaded": {"fail": "load"},
    "hangs when it is loaded": {"hang": "load"},
    "hangs when it runs": {"hang": "run"},
}


@pytest.mark.parametrize(
    "fault", [pytest.param(e, marks=[] if e == "crashes when it is loaded" else slow) for e in FAULTS]
)
def test_a_first_release_that(start_agent, make_null_bundle, fault):
    agent = start_agent(probe_timeout_s=3.0)
    assert outcome(agent, make_null_bundle(**FAULTS[fault])) == "FAILED"
    assert agent.status()["state"] == "empty"
    assert outcome(agent, make_null_bundle(model={"noise": 0.5})) == "COMMITTED"


@pytest.mark.parametrize("first", [pytest.param(True, marks=slow), False])
def test_a_release_that_gets_slow_late_in_its_soak(
    start_agent, serving_folder, tmp_path, old_bundle, make_null_bundle, first
):
    folder = tmp_path / "copy"
    if not first:
        shutil.copytree(serving_folder, folder, symlinks=True)
    agent = start_agent(folder)
    if not first:
        agent.settled()
    number = soaking(agent, make_null_bundle(late_s=1.5, late_ms=20.0))
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "golden inputs take 2" in done["reason"]
    if first:
        assert agent.status()["state"] == "empty"
    else:
        agent.serves(old_bundle)
