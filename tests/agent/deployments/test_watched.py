"""Bundles on a USB stick: a folder that the agent watches."""

import shutil

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


def test_nothing_is_taken_without_a_trusted_key(start_serving, signed_bundle, stick):
    agent = start_serving(watch_dir=str(stick))
    number = agent.status()["deployment"]["id"]
    (stick / "a.edgeopt").write_bytes(packed(signed_bundle))
    line = ""
    while "trusts no key" not in line:
        line = agent.process.stderr.readline()
        assert line, "the agent ended"
    assert agent.status()["deployment"]["id"] == number
