"""The way back: promised is done, never to what was just left, and a broken disk is named."""

import contextlib
import errno
import http.client
import shutil
import signal
import sqlite3

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt_agent.deployments.states import State
from tests.agent.deployments.soaks import soaking


@pytest.fixture
def two(agent, new_bundle):
    """An agent that serves the new bundle and served the old one."""
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    return agent


def refusal(agent, path="/api/v1/rollback"):
    status, _, answer = agent.ask("POST", path)
    return status, answer["error"]


def test_a_second_rollback_does_not_return_to_what_was_left(two, old_bundle, new_bundle):
    assert two.roll_back()["state"] == "COMMITTED"
    two.serves(old_bundle)
    assert two.status()["previous"] is None
    status, said = refusal(two)
    assert (status, said["code"]) == (409, "nothing-to-return-to")
    assert release_id(new_bundle) in said["message"]
    assert f"rollback --to {release_id(new_bundle)}" in said["hint"]
    two.serves(old_bundle)
    two.deploy(b"no bundle")  # which fails, and changes nothing
    assert two.roll_back(to=release_id(new_bundle))["state"] == "COMMITTED"
    two.serves(new_bundle)
    assert refusal(two)[0] == 409


def test_a_rollback_leads_past_what_was_left_to_the_next_older_release(
    two, start_agent, old_bundle, new_bundle, make_null_bundle
):
    two.roll_back()
    third = make_null_bundle(model={"noise": 0.5})
    assert two.deploy(third)["state"] == "COMMITTED"
    assert two.status()["previous"]["release"] == release_id(old_bundle)
    kept = {folder.name for folder in (two.data_dir / "releases").iterdir()}
    assert kept == {release_id(third), release_id(old_bundle), release_id(new_bundle)}
    two.stop()
    (two.data_dir / "previous").unlink()
    again = start_agent()
    again.serves(third)
    assert again.roll_back()["state"] == "COMMITTED"
    again.serves(old_bundle)


@pytest.mark.parametrize("state", [State.ACCEPTED, State.PROBING])
def test_a_rollback_of_a_killed_agent_is_carried_out_at_the_next_start(two, start_agent, old_bundle, state):
    two.stop()
    killed = start_agent(kill={"state": state, "when": "after"})
    killed.settled()
    with contextlib.suppress(OSError, http.client.HTTPException):
        killed.ask("POST", "/api/v1/rollback")
    assert killed.process.wait(60) == -9
    again = start_agent()
    again.serves(old_bundle)
    told = again.status()["deployment"]
    assert (told["kind"], told["state"]) == ("rollback", "COMMITTED")


def test_a_soak_that_was_to_go_back_does_so_at_the_next_start(two, start_agent, new_bundle, make_null_bundle):
    two.stop()
    killed = start_agent(kill={"state": State.ROLLING_BACK, "when": "before"})
    killed.settled()
    number = soaking(killed, make_null_bundle(model={"noise": 0.5}))
    with contextlib.suppress(OSError, http.client.HTTPException):
        killed.ask("POST", "/api/v1/rollback")
    assert killed.process.wait(60) == -9
    again = start_agent()
    done = again.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert done["reason"].startswith("A rollback was requested.")
    again.serves(new_bundle)


def test_a_rollback_that_the_disk_did_not_take_is_not_undone_by_a_kill(
    two, start_agent, new_bundle, make_null_bundle
):
    number = soaking(two, make_null_bundle(model={"noise": 0.5}))
    with contextlib.closing(sqlite3.connect(two.data_dir / "state.db")) as db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'full'); END")
        db.commit()
        two.ask("POST", "/api/v1/rollback")
        two.until(lambda: two.status()["state"] == "serving", "the end of the deployment")
        two.process.send_signal(signal.SIGKILL)
        two.process.wait(60)
        db.execute("DROP TRIGGER full")
        db.commit()
    again = start_agent()
    assert again.ended(number)["state"] == "ROLLED_BACK"
    again.serves(new_bundle)


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [
        (errno.EIO, 500, "The disk of the device failed"),
        (errno.EROFS, 500, "The disk of the device failed"),
        (errno.EPERM, 500, "The disk of the device failed"),
        (errno.ENOSPC, 507, "The disk is full"),
    ],
)
def test_a_disk_that_fails_while_receiving_is_not_the_senders_fault(start_agent, old_bundle, number, status, says):
    agent = start_agent(broken={"step": "receive", "number": number})
    found, _, answer = agent.send(old_bundle)
    assert found == status
    assert says in answer["error"]["message"]
    assert "Send it again" not in answer["error"]["hint"]
    assert "device" in answer["error"]["hint"]


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_a_disk_that_fails_while_staging_is_named_and_no_fault(start_agent, old_bundle, number):
    agent = start_agent(broken={"step": "stage", "number": number})
    done = agent.deploy(old_bundle)
    assert done["state"] == "FAILED"
    assert "The disk of the device failed" in done["reason"]
    releases = agent.ask("GET", "/api/v1/releases")[2]["releases"]
    assert [each["state"] for each in releases] == ["refused"]


def model_file(agent, release):
    file = agent.data_dir / "releases" / release / "model" / "model.null.json"
    file.parent.chmod(0o700)
    file.chmod(0o600)
    return file


def test_a_release_that_the_disk_has_damaged_is_not_quarantined(two, old_bundle, new_bundle):
    old = release_id(old_bundle)
    file = model_file(two, old)
    file.write_bytes(file.read_bytes()[::-1])
    ended = two.roll_back()
    assert ended["state"] == "FAILED"
    assert ended["reason"].endswith("was changed. Send its bundle again, which replaces the files.")
    two.serves(new_bundle)
    states = {each["id"]: each["state"] for each in two.ask("GET", "/api/v1/releases")[2]["releases"]}
    assert states == {old: "previous", release_id(new_bundle): "serving"}
    assert two.deploy(old_bundle)["state"] == "COMMITTED"
    two.serves(old_bundle)


def test_a_rollback_to_a_release_without_its_files_is_refused_and_not_promised(two, old_bundle):
    old = release_id(old_bundle)
    model_file(two, old).unlink()
    says = f"The bundle '{old}' is damaged: model/model.null.json is missing."
    assert two.status()["previous"]["reason"] == says
    status, said = refusal(two)
    assert (status, said["code"], said["message"]) == (409, "damaged", says)
    shutil.rmtree(two.data_dir / "releases" / old)
    assert two.status()["previous"] is None
    status, said = refusal(two)
    assert (status, said["code"]) == (409, "nothing-to-return-to")
    assert f"the files of {old}, which served before, are no longer on the device" in said["message"]


def test_readiness_names_the_damage_of_the_only_release(start_serving, start_agent, old_bundle):
    agent = start_serving()
    agent.stop()
    file = model_file(agent, release_id(old_bundle))
    file.write_bytes(file.read_bytes()[::-1])
    again = start_agent(agent.data_dir)
    again.until(lambda: again.status()["state"] == "degraded", "the damage is reported")
    status, _, answer = again.ask("GET", "/v2/health/ready")
    assert status == 503
    assert "is damaged: model/model.null.json was changed" in answer["error"]
