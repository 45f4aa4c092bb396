"""Deployments on a real agent: what is good comes into service, what is not leaves the old release there."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import threading

import pytest

from edgeopt.bundle.manifest import release_id, write_manifest
from tests.agent.deployments.soaks import LONG_SOAK, soaking

ALL_THE_WAY = [
    "ACCEPTED", "RECEIVING", "VERIFYING", "STAGED", "PROBING", "SWITCHING", "SOAKING", "COMMITTED"
]  # fmt: skip


def states(deployment):
    return [moment["state"] for moment in deployment["history"]]


def test_a_first_bundle_goes_through_every_state_into_service(start_agent, old_bundle):
    agent = start_agent()
    assert agent.status()["state"] == "empty"
    done = agent.deploy(old_bundle)
    assert states(done) == ALL_THE_WAY
    agent.serves(old_bundle)
    assert agent.status()["previous"] is None
    assert (agent.data_dir / "current").readlink().name == release_id(old_bundle)
    assert list((agent.data_dir / "partial").iterdir()) == []


def test_the_next_one_takes_over_and_the_one_before_can_come_back(agent, old_bundle, new_bundle, make_null_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    agent.serves(new_bundle)
    assert agent.status()["previous"]["release"] == release_id(old_bundle)
    third = make_null_bundle(model={"noise": 0.5})
    assert agent.deploy(third)["state"] == "COMMITTED"
    kept = {folder.name for folder in (agent.data_dir / "releases").iterdir()}
    assert kept == {release_id(each) for each in (third, new_bundle, old_bundle)}
    back = agent.roll_back()
    assert (back["kind"], back["state"]) == ("rollback", "COMMITTED")
    agent.serves(new_bundle)


def test_what_serves_already_is_left_alone(agent, old_bundle):
    pid = agent.status()["serving"]["pid"]
    done = agent.deploy(old_bundle)
    assert done["state"] == "COMMITTED"
    assert "already serves" in done["reason"]
    assert agent.status()["serving"]["pid"] == pid


def damaged(bundle):
    model = next((bundle / "model").iterdir())
    model.write_bytes(model.read_bytes() + b" ")


def with_a_file_too_many(bundle):
    (bundle / "run.sh").write_text("")


def with_an_unknown_key(bundle):
    with (bundle / "deployment.toml").open("a") as file:
        file.write("\n[hooks]\nafter = 'rm'\n")
    write_manifest(bundle)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (damaged, "is damaged: model/model.null.json was changed"),
        (with_a_file_too_many, "run.sh, which its manifest does not list"),
        (with_an_unknown_key, "hooks"),
    ],
)
def test_a_bundle_that_does_not_hold_is_refused(agent, old_bundle, new_bundle, tmp_path, change, reason):
    bundle = shutil.copytree(new_bundle, tmp_path / "changed.edgeopt")
    change(bundle)
    done = agent.deploy(bundle)
    assert states(done) == ["ACCEPTED", "RECEIVING", "VERIFYING", "FAILED"]
    assert reason in done["reason"]
    assert agent.status()["deployment"]["reason"] == done["reason"]
    assert str(agent.data_dir) not in done["reason"]
    agent.serves(old_bundle)
    assert list((agent.data_dir / "partial").iterdir()) == []


def test_a_truncated_archive_is_refused(agent, new_bundle, old_bundle, pack):
    done = agent.deploy(pack(new_bundle)[:-400])
    assert done["state"] == "FAILED"
    assert "not a valid zip archive" in done["reason"]
    agent.serves(old_bundle)


def test_a_bundle_of_another_device_is_refused_until_forced(
    agent, make_null_bundle, old_bundle, device_fingerprint
):
    other = make_null_bundle(model={"noise": 0.1}, device={**device_fingerprint, "cpu": "0" * 64})
    done = agent.deploy(other)
    assert done["state"] == "FAILED"
    assert "proved on another device" in done["reason"]
    assert "Optimize the model for this device" in done["reason"]
    assert "--force" in done["reason"]
    agent.serves(old_bundle)
    assert agent.deploy(other, force=1)["state"] == "COMMITTED"
    agent.serves(other)


def test_other_parts_of_the_device_may_differ(agent, make_null_bundle, device_fingerprint):
    other = make_null_bundle(model={"noise": 0.1}, device={**device_fingerprint, "runtimes": "0" * 64})
    assert agent.deploy(other)["state"] == "COMMITTED"


@pytest.mark.parametrize(
    ("faults", "settings", "reason"),
    [
        ({"crash": "load"}, {}, "crashed: SIGSEGV"),
        ({"crash": "run"}, {}, "crashed: SIGSEGV"),
        ({"fail": "run"}, {}, "as planted"),
        ({"hang": "run"}, {"probe_timeout_s": 5.0}, "limit of 5 s"),  # a busy machine needs 2 s to answer
        ({"noise": 10.0}, {}, "it needs"),
        ({"latency_ms": 20.0}, {}, "its bundle says 1.00 ms"),
        ({"fail": "load"}, {}, "fails while it should load"),
    ],
)
def test_a_candidate_that_does_not_prove_itself_never_serves(
    start_serving, old_bundle, new_bundle, make_null_bundle, faults, settings, reason
):
    agent = start_serving(**settings)
    pid = agent.status()["serving"]["pid"]
    bad = make_null_bundle(**faults)
    done = agent.deploy(bad)
    assert states(done)[-2:] == ["PROBING", "FAILED"]
    assert reason in done["reason"]
    assert agent.status()["deployment"]["reason"] == done["reason"]
    assert agent.status()["serving"]["pid"] == pid
    agent.serves(old_bundle)
    assert not (agent.data_dir / "releases" / release_id(bad)).exists()
    agent.until(lambda: len(agent.workers()) == 1, "the end of the candidate")
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"


def test_answers_that_are_no_numbers_are_refused(agent, make_log_bundle):
    done = agent.deploy(make_log_bundle("Log", at=-1.0), rename=1)
    assert done["state"] == "FAILED"
    assert "finite" in done["reason"] or "NaN" in done["reason"]


def test_what_failed_once_is_refused_until_forced(agent, make_null_bundle, old_bundle):
    bad = make_null_bundle(noise=10.0)
    first = agent.deploy(bad)
    again = agent.deploy(bad)
    assert states(again)[-2:] == ["VERIFYING", "FAILED"]
    assert first["reason"] in again["reason"]
    assert "--force" in again["reason"]
    releases = agent.ask("GET", "/api/v1/releases")[2]["releases"]
    assert [(r["id"], r["state"]) for r in releases] == [
        (release_id(old_bundle), "serving"),
        (release_id(bad), "quarantined"),
    ]
    assert releases[1]["reason"] == again["reason"] or first["reason"] in releases[1]["reason"]
    forced = agent.deploy(bad, force=1)
    assert states(forced)[-2:] == ["PROBING", "FAILED"]
    agent.serves(old_bundle)


def test_a_release_that_dies_by_itself_while_it_soaks_is_taken_back_and_quarantined(agent, old_bundle, new_bundle):
    number = soaking(agent, new_bundle)
    os.kill(agent.status()["serving"]["pid"], signal.SIGSEGV)
    done = agent.ended(number)
    assert states(done)[-3:] == ["SOAKING", "ROLLING_BACK", "ROLLED_BACK"]
    assert "SIGSEGV" in done["reason"]
    assert f"{release_id(old_bundle)} serves again" in done["reason"]
    agent.serves(old_bundle)
    assert "failed before" in agent.deploy(new_bundle)["reason"]


def test_a_release_that_keeps_dying_while_it_soaks_is_taken_back_without_a_failed_request(
    agent, old_bundle, new_bundle
):
    number = soaking(agent, new_bundle)
    failed, stop = [], threading.Event()

    def ask():
        for each in itertools.count():
            if stop.is_set():
                return
            x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [each, 2, 3, 4]}
            status, _, answer = agent.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
            if status != 200:
                failed.append(answer)

    asking = threading.Thread(target=ask)
    asking.start()
    killed = set()

    def kill_and_see():
        serving = agent.status()["serving"]
        if serving is not None and serving["release"] == release_id(new_bundle) and serving["pid"] not in killed:
            killed.add(serving["pid"])
            os.kill(serving["pid"], signal.SIGSEGV)
        found = agent.ask("GET", f"/api/v1/deployments/{number}")[2]["deployment"]
        return found["state"] == "ROLLED_BACK" and found

    try:
        done = agent.until(kill_and_see, "the way back")
    finally:
        stop.set()
        asking.join()
    assert not failed
    assert "SIGSEGV" in done["reason"]
    agent.serves(old_bundle)


def test_a_release_that_stops_answering_while_it_soaks_is_taken_back(start_serving, old_bundle, new_bundle):
    agent = start_serving(request_timeout_s=1.0)
    number = soaking(agent, new_bundle)
    os.kill(agent.status()["serving"]["pid"], signal.SIGSTOP)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "no answer within 1 s" in done["reason"]
    agent.serves(old_bundle)


def test_memory_that_grows_while_it_soaks_is_noticed(start_serving, old_bundle, new_bundle):
    strict = start_serving(memory_factor=0.5, memory_slack_bytes=0)
    done = strict.deploy(new_bundle, **LONG_SOAK)
    assert done["state"] == "ROLLED_BACK"
    assert "MiB are allowed" in done["reason"]
    strict.serves(old_bundle)


def test_a_soak_can_be_ended_by_going_back_and_is_no_fault(agent, old_bundle, new_bundle):
    number = soaking(agent, new_bundle)
    now = agent.status()["serving"]["release"]
    assert now == release_id(new_bundle)
    done = agent.roll_back()
    assert (done["id"], done["state"]) == (number, "ROLLED_BACK")
    agent.serves(old_bundle)
    releases = agent.ask("GET", "/api/v1/releases")[2]["releases"]
    assert {each["id"]: each["state"] for each in releases}[now] == "rolled back"
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"


def test_one_deployment_at_a_time(agent, new_bundle, old_bundle):
    number = soaking(agent, new_bundle)
    status, _, answer = agent.send(old_bundle)
    assert status == 409
    assert answer["error"]["code"] == "busy"
    assert f"Deployment {number} is still soaking" in answer["error"]["message"]


def test_a_deployment_that_has_ended_is_in_nobodys_way(agent, old_bundle, new_bundle, pack):
    """Whoever sees the end, by whichever view, may send the next bundle at once."""
    bundles = [pack(old_bundle), pack(new_bundle)]
    for turn in range(4):
        number = agent.send(bundles[(turn + 1) % 2], soak_s=0, soak_requests=0)[2]["deployment"]["id"]
        view = (
            lambda number=number: agent.ask("GET", f"/api/v1/deployments/{number}")[2]["deployment"]["state"],
            lambda: agent.status()["deployment"]["state"],
        )[turn % 2]
        while view() != "COMMITTED":
            pass
        status, _, answer = agent.send(b"no bundle")
        assert status == 202, answer
        assert agent.ended(answer["deployment"]["id"])["state"] == "FAILED"


def test_there_is_nothing_to_go_back_to_at_first(start_agent, old_bundle):
    agent = start_agent()
    assert agent.ask("POST", "/api/v1/rollback")[0] == 409


def test_without_memory_for_two_the_old_one_stops_first_and_comes_back_on_failure(
    start_serving, old_bundle, new_bundle, make_null_bundle
):
    agent = start_serving(memory_reserve_bytes=1 << 60)
    assert agent.deploy(make_null_bundle(noise=10.0))["state"] == "FAILED"
    agent.serves(old_bundle)
    done = agent.deploy(new_bundle)
    assert done["state"] == "COMMITTED"
    assert done["detail"]["gap_s"] > 0
    assert any("nothing served for" in moment["reason"] for moment in done["history"])
    agent.serves(new_bundle)


def test_a_bundle_that_does_not_fit_the_disk_is_refused_before_it_is_sent(start_serving, old_bundle, new_bundle):
    full = start_serving(disk_reserve_bytes=1 << 60)
    status, _, answer = full.send(new_bundle)
    assert status == 507
    assert answer["error"]["code"] == "disk-full"
    full.serves(old_bundle)


def test_when_the_way_back_fails_it_is_degraded_and_still_reachable(agent, old_bundle, new_bundle):
    number = soaking(agent, new_bundle)
    shutil.rmtree(agent.data_dir / "releases" / release_id(old_bundle))
    agent.ask("POST", "/api/v1/rollback")
    done = agent.ended(number)
    assert done["state"] == "DEGRADED"
    assert "is no longer on the disk" in done["reason"]
    assert agent.status()["deployment"]["state"] == "DEGRADED"
    assert agent.deploy(old_bundle, force=1)["state"] == "COMMITTED"
    agent.serves(old_bundle)


def test_the_new_release_serves_on_when_the_old_one_cannot_come_back(agent, old_bundle, new_bundle):
    number = soaking(agent, new_bundle)
    pid = agent.status()["serving"]["pid"]
    model = agent.data_dir / "releases" / release_id(old_bundle) / "model" / "model.null.json"
    model.write_bytes(b"damaged")
    (standby,) = (worker for worker in agent.workers() if worker.pid != pid)
    standby.kill()
    standby.wait(30)
    agent.ask("POST", "/api/v1/rollback")
    done = agent.ended(number)
    assert done["state"] == "DEGRADED"
    assert "The rollback failed" in done["reason"]
    assert agent.status()["serving"]["pid"] == pid
    agent.serves(new_bundle)
    assert "The rollback failed" in agent.status()["reason"]
    agent.stop()


def test_a_journal_that_cannot_be_written_stops_the_deployment_and_not_the_service(agent, old_bundle, new_bundle):
    number = soaking(agent, new_bundle)
    with contextlib.closing(sqlite3.connect(agent.data_dir / "state.db")) as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        db.commit()
        agent.ask("POST", "/api/v1/rollback")
        agent.until(lambda: agent.status()["state"] == "serving", "the end of the deployment")
        agent.serves(old_bundle)
        assert agent.status()["deployment"]["id"] == number
        status, _, answer = agent.send(new_bundle)
        assert status == 500
        assert "the disk is full" in answer["error"]["message"]
        agent.serves(old_bundle)
        db.execute("DROP TRIGGER full")
        db.commit()
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"


def test_a_soak_that_gets_too_few_requests_goes_back_and_is_no_fault(start_serving, new_bundle):
    agent = start_serving(soak_slack_s=0.5)
    done = agent.deploy(new_bundle, soak_s=0, soak_requests=10**9)
    assert done["state"] == "ROLLED_BACK"
    assert "longer than its limit of 0.5 s" in done["reason"]
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"


def test_a_way_back_that_fails_half_way_leaves_no_worker_behind(agent, old_bundle, new_bundle):
    number = soaking(agent, new_bundle)
    (agent.data_dir / ".previous.new").mkdir()
    (agent.data_dir / ".current.new").mkdir()
    agent.ask("POST", "/api/v1/rollback")
    assert agent.ended(number)["state"] == "DEGRADED"
    agent.until(lambda: len(agent.workers()) == 1, "the end of the candidate")
    assert agent.status()["serving"]["release"] == release_id(old_bundle)
