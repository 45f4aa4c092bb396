"""Older signed releases, which someone might send again: refused, unless that is meant."""

import shutil

import pytest

from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import VerificationError
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt_agent import trusted_keys
from edgeopt_agent.releases import release_id


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
