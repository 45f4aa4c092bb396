"""Bundles on a USB stick: a folder that the agent watches."""

import os
import shutil
import time
from hashlib import sha256

import pytest

from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt_agent import trusted_keys
from tests.agent.conftest import packed


@pytest.fixture
def stick(tmp_path):
    folder = tmp_path / "stick"
    folder.mkdir()
    return folder


@pytest.fixture
def signed_bundle(new_bundle, tmp_path):
    new_key(tmp_path / "key")
    folder = shutil.copytree(new_bundle, tmp_path / "signed.edgeopt")
    sign_bundle(folder, tmp_path / "key", 5)
    return folder


@pytest.fixture
def trusting(start_serving, signed_bundle, stick, tmp_path):
    """An agent that watches the stick and trusts the key of the signed bundle."""
    agent = start_serving(watch_dir=str(stick))
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    return agent


def refusals(agent):
    return {each["file"]: each["reason"] for each in agent.status()["watched"]}


def deployed(agent, number):
    agent.until(lambda: agent.status()["deployment"]["id"] >= number, f"deployment {number}", wait_s=0.5)
    return agent.ended(number)


def test_complete_signed_bundle_is_deployed_once(trusting, start_agent, signed_bundle, stick, tmp_path):
    content = packed(signed_bundle)
    file = stick / "new.edgeopt"
    file.write_bytes(content[:-100])  # as it is while it is copied
    (stick / "none.edgeopt").symlink_to("/etc/passwd")
    (stick / "folder.edgeopt").mkdir()
    number = trusting.status()["deployment"]["id"]
    file.write_bytes(content)
    done = deployed(trusting, number + 1)
    assert (done["state"], done["detail"]["sequence"]) == ("COMMITTED", 5), done["reason"]
    trusting.serves(signed_bundle)
    newer = shutil.copytree(signed_bundle, tmp_path / "newer.edgeopt")
    sign_bundle(newer, tmp_path / "key", 6)
    trusting.stop()
    again = start_agent(trusting.data_dir, watch_dir=str(stick))
    again.settled()
    (stick / "newer.edgeopt").write_bytes(packed(newer))
    done = deployed(again, number + 2)
    assert (done["state"], done["detail"]["sequence"]) == ("COMMITTED", 6)
    assert again.status()["deployment"]["id"] == number + 2


def test_unsigned_bundle_is_not_taken(trusting, new_bundle, signed_bundle, stick):
    (stick / "a.edgeopt").write_bytes(packed(new_bundle))
    number = trusting.status()["deployment"]["id"]
    (stick / "b.edgeopt").write_bytes(packed(signed_bundle))
    done = deployed(trusting, number + 1)
    assert done["detail"]["sequence"] == 5
    trusting.serves(signed_bundle)


def test_bundle_signed_by_another_key_is_refused(trusting, old_bundle, new_bundle, stick, tmp_path):
    new_key(tmp_path / "foreign")
    folder = shutil.copytree(new_bundle, tmp_path / "foreign.edgeopt")
    sign_bundle(folder, tmp_path / "foreign", 9)
    number = trusting.status()["deployment"]["id"]
    (stick / "a.edgeopt").write_bytes(packed(folder))
    assert deployed(trusting, number + 1)["state"] == "FAILED"
    assert trusting.status()["serving"]["untrusted"]
    reason = trusting.until(lambda: refusals(trusting).get("a.edgeopt"), "the refusal")
    assert reason == trusting.status()["deployment"]["reason"]


def test_nothing_is_taken_without_a_trusted_key(start_serving, signed_bundle, stick, tmp_path):
    agent = start_serving(watch_dir=str(stick))
    number = agent.status()["deployment"]["id"]
    (stick / "a.edgeopt").write_bytes(packed(signed_bundle))
    line = ""
    while "trusts no key" not in line:
        line = agent.process.stderr.readline()
        assert line, "the agent ended"
    assert agent.status()["deployment"]["id"] == number
    assert refusals(agent) == {"a.edgeopt": "The agent trusts no key."}
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    assert deployed(agent, number + 1)["state"] == "COMMITTED"
    agent.until(lambda: refusals(agent) == {}, "no refusal")


@pytest.fixture
def stopped(trusting, signed_bundle, stick):
    """The data folder of an agent that is stopped, and a stick with a bundle that it has not seen."""
    trusting.stop()
    (stick / "a.edgeopt").write_bytes(packed(signed_bundle))
    return trusting.data_dir


def die_at(start_agent, folder, stick, state):
    agent = start_agent(folder, watch_dir=str(stick), kill={"state": state, "when": "after"})
    assert agent.process.wait(60) == -9


@pytest.mark.parametrize("state", ["ACCEPTED", "VERIFYING", "STAGED", "PROBING"])
def test_file_is_tried_again_after_a_power_loss(stopped, start_agent, signed_bundle, stick, state):
    die_at(start_agent, stopped, stick, state)
    again = start_agent(stopped, watch_dir=str(stick))
    again.until(lambda: (again.status()["deployment"] or {}).get("state") == "COMMITTED", "the second try")
    again.serves(signed_bundle)
    assert "(try 2 of 3)" in again.status()["deployment"]["history"][0]["reason"]
    assert again.status()["watched"] == []


def test_file_is_tried_three_times_at_most(stopped, start_agent, old_bundle, stick):
    for _ in range(3):
        die_at(start_agent, stopped, stick, "STAGED")
    again = start_agent(stopped, watch_dir=str(stick))
    again.until(lambda: refusals(again), "the refusal")
    assert refusals(again) == {"a.edgeopt": "The agent stopped 3 times while it was deployed."}
    again.serves(old_bundle)
    again.stop()
    last = start_agent(stopped, watch_dir=str(stick))
    last.until(lambda: refusals(last), "the refusal after another start")


@pytest.fixture
def sign(signed_bundle, tmp_path):
    """Makes a signed bundle with another sequence number, packed."""

    def make(number, key="key"):
        folder = shutil.copytree(signed_bundle, tmp_path / f"{key}-{number}.edgeopt")
        sign_bundle(folder, tmp_path / key, number)
        return packed(folder)

    return make


def put(place, content, *, days=0.0):
    """Puts a file on the stick in one step, as old as that."""
    fresh = place.with_suffix(".new")
    fresh.write_bytes(content)
    then = time.time() + days * 86400
    os.utime(fresh, (then, then))
    fresh.rename(place)


def test_nothing_hides_a_good_file(trusting, signed_bundle, stick, sign, tmp_path):
    new_key(tmp_path / "foreign")
    content = packed(signed_bundle)
    number = trusting.status()["deployment"]["id"]
    put(stick / "junk.edgeopt", b"no bundle", days=30_000)
    put(stick / "torn.edgeopt", content[:-50], days=20_000)
    put(stick / "foreign.edgeopt", sign(10**9, "foreign"), days=10_000)
    assert deployed(trusting, number + 1)["state"] == "FAILED"
    put(stick / "good.edgeopt", content, days=-1)
    assert deployed(trusting, number + 2)["state"] == "COMMITTED"
    trusting.serves(signed_bundle)
    trusting.until(lambda: len(refusals(trusting)) == 3, "the refusals")
    found = refusals(trusting)
    assert found["junk.edgeopt"] == found["torn.edgeopt"] == "It is not a complete bundle with a signature."
    assert "good.edgeopt" not in found
    trusting.process.terminate()
    _, said = trusting.process.communicate(timeout=60)
    for name in found:
        assert said.count(f"'{name}' in the watched folder is refused") == 1, said


def test_file_from_the_future_does_not_hide_a_newer_one(trusting, stick, sign):
    number = trusting.status()["deployment"]["id"]
    put(stick / "future.edgeopt", sign(6), days=30_000)
    assert deployed(trusting, number + 1)["state"] == "COMMITTED"
    put(stick / "newer.edgeopt", sign(7), days=-1)
    assert deployed(trusting, number + 2)["detail"]["sequence"] == 7
    trusting.until(lambda: refusals(trusting) == {}, "no refusal")
    put(stick / "older.edgeopt", sign(4))
    reason = trusting.until(lambda: refusals(trusting).get("older.edgeopt"), "the refusal")
    assert reason == "Its sequence number is 4, and that of a release which has served 7."
    assert trusting.status()["deployment"]["id"] == number + 2


def test_file_that_an_earlier_agent_has_taken_is_not_taken_again(stopped, start_agent, signed_bundle, stick, sign):
    (stopped / "watched").write_text(sha256((stick / "a.edgeopt").read_bytes()).hexdigest())
    again = start_agent(stopped, watch_dir=str(stick))
    again.settled()
    number = again.status()["deployment"]["id"]
    put(stick / "b.edgeopt", sign(6))
    assert deployed(again, number + 1)["detail"]["sequence"] == 6
