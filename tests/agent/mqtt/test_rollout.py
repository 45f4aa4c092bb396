"""A rollout to a real agent: what it reports is what the client of the fleet understands."""

import shutil
from pathlib import Path

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import UsageError, VerificationError
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.rollout_request import (
    DevicesRequest,
    RolloutControlRequest,
    RolloutStartRequest,
    RolloutStatusRequest,
)
from edgeopt.hw.probe import probe
from edgeopt.profiles import shipped_profiles
from edgeopt.profiles.targets import choose
from edgeopt_agent import trusted_keys
from tests.measuring import wait_until


@pytest.fixture
def begin(broker, topics):
    """Runs a rollout; the tests of this file share a fleet, in which each name can be used once."""

    def start(name, server, digest, **more):
        request = RolloutStartRequest(
            broker=broker.url, bundle=server.url, digest=digest, to=topics.device, soak_seconds=0.1,
            soak_requests=1, **more,
        )  # fmt: skip
        return commands.start(request, name, lambda _: None)

    return start


def test_a_rollout_commits_on_an_agent_and_returns(
    start_device, client, serve_bundle, new_bundle, old_bundle, begin, broker
):
    new, new_digest = serve_bundle(new_bundle)
    old, old_digest = serve_bundle(old_bundle)
    agent = start_device(fetch_from=[new.prefix, old.prefix], mqtt={"labels": {"site": "north"}})
    client.presence("online")
    assert begin("old", old, old_digest).counts == {"done": 1}
    assert begin("new", new, new_digest).counts == {"done": 1}
    agent.serves(new_bundle)
    request = RolloutControlRequest(broker=broker.url, name="new")
    assert commands.go_on(request, "rollback", lambda _: None).counts == {"rolled-back": 1}
    agent.serves(old_bundle)
    found = commands.devices(DevicesRequest(broker=broker.url, to="site=north")).devices[0]
    assert (found.device, found.release) == (client.topics.device, release_id(old_bundle))


def test_a_rollout_returns_to_a_bundle_that_was_deployed_after_the_last_desired_state(
    start_device, client, serve_bundle, make_null_bundle, begin, broker
):
    first, between, last = (make_null_bundle(model={"noise": 0.1 * k}) for k in range(3))
    (old, old_digest), (new, new_digest) = serve_bundle(first), serve_bundle(last)
    agent = start_device(fetch_from=[new.prefix, old.prefix])
    client.presence("online")
    assert begin("before", old, old_digest).counts == {"done": 1}
    assert agent.deploy(between)["state"] == "COMMITTED"
    request = DevicesRequest(broker=broker.url, to=client.topics.device)
    wait_until(lambda: commands.devices(request).devices[0].release == release_id(between))
    assert begin("after", new, new_digest).counts == {"done": 1}
    agent.serves(last)
    request = RolloutControlRequest(broker=broker.url, name="after")
    assert commands.go_on(request, "rollback", lambda _: None).counts == {"rolled-back": 1}
    agent.serves(between)


def test_a_rollout_adds_a_model_and_its_rollback_removes_it(
    start_device, client, serve_bundle, old_bundle, null_bundle, begin, broker
):
    old, old_digest = serve_bundle(old_bundle)
    other, other_digest = serve_bundle(null_bundle("other"))
    agent = start_device(fetch_from=[old.prefix, other.prefix])
    client.presence("online")
    with pytest.raises(UsageError, match="--add needs"):
        begin("added", other, other_digest, add=True)
    assert begin("first", old, old_digest).counts == {"done": 1}
    # The rollback fails after this time unless the agent reports the removal when it happens.
    added = {"add": True, "model": "other", "device_timeout": 30.0}
    assert begin("added", other, other_digest, **added).counts == {"done": 1}
    assert [each["name"] for each in agent.status()["models"]] == ["null", "other"]
    request = RolloutControlRequest(broker=broker.url, name="added")
    assert commands.go_on(request, "rollback", lambda _: None).counts == {"rolled-back": 1}
    assert [each["name"] for each in agent.status()["models"]] == ["null"]
    agent.serves(old_bundle)


def test_a_signed_rollback_removes_a_model_from_an_agent_that_trusts_the_key(
    start_device, client, serve_bundle, null_bundle, key, begin, broker
):
    bundle = null_bundle("other")
    sign_bundle(bundle, key)
    server, digest = serve_bundle(bundle)
    agent = start_device(server=server, deployed=True)
    trusted_keys.add(agent.data_dir, key.with_suffix(".pub"))
    client.presence("online")
    added = {"add": True, "model": "other", "device_timeout": 30.0}
    assert begin("added-signed", server, digest, key=key, **added).counts == {"done": 1}
    request = RolloutControlRequest(broker=broker.url, name="added-signed", key=key)
    assert commands.go_on(request, "rollback", lambda _: None).counts == {"rolled-back": 1}
    assert [each["name"] for each in agent.status()["models"]] == ["null"]


def test_devices_are_selected_by_the_target_that_fits_them(start_device, client, broker):
    start_device()
    client.presence("online")
    target = choose(probe(), shipped_profiles()).target.name
    found = commands.devices(DevicesRequest(broker=broker.url, to=f"target={target}"))
    assert client.topics.device in {each.device for each in found.devices}
    with pytest.raises(UsageError, match="No device of the fleet matches"):
        commands.devices(DevicesRequest(broker=broker.url, to="target=none-of-these"))


def test_an_agent_that_trusts_a_key_follows_signed_rollouts_only(
    start_device, client, serve_bundle, new_bundle, tmp_path, begin
):
    new_key(tmp_path / "key")
    bundle = Path(shutil.copytree(new_bundle, tmp_path / "bundle"))
    sign_bundle(bundle, tmp_path / "key")
    server, digest = serve_bundle(bundle)
    trusted_keys.add(tmp_path / "agent", tmp_path / "key.pub")
    start_device(server=server)
    client.presence("online")
    with pytest.raises(VerificationError, match="not signed"):
        begin("plain", server, digest)
    assert begin("signed", server, digest, key=tmp_path / "key").counts == {"done": 1}


@pytest.fixture
def failed_rollback(broker):
    """Rolls a rollout back, which must fail; returns the message."""

    def roll_back(name, key=None):
        request = RolloutControlRequest(broker=broker.url, name=name, key=key)
        with pytest.raises(VerificationError) as failed:
            commands.go_on(request, "rollback", lambda _: None)
        phase = commands.status(RolloutStatusRequest(broker=broker.url, name=name)).phase
        assert (failed.value.code, failed.value.exit_code, phase) == ("rollback-failed", 6, "rollback-failed")
        return failed.value.message

    return roll_back


@pytest.fixture
def served_bundles(serve_bundle, old_bundle, new_bundle):
    """Web servers with the old and the new bundle, each with its digest."""
    return serve_bundle(old_bundle), serve_bundle(new_bundle)


@pytest.fixture
def key(tmp_path):
    new_key(tmp_path / "key")
    return tmp_path / "key"


def test_a_command_to_return_to_an_untrusted_release_fails_with_the_refusal(
    start_device, client, serve_bundle, make_null_bundle, key, begin, failed_rollback
):
    bundle = make_null_bundle(model={"noise": 0.5})
    sign_bundle(bundle, key)
    server, digest = serve_bundle(bundle)
    agent = start_device(server=server, deployed=True)
    trusted_keys.add(agent.data_dir, key.with_suffix(".pub"))
    client.presence("online")
    # Without the refusal, the rollback would end after this time, with another reason.
    begin("untrusted", server, digest, key=key, device_timeout=20.0)
    message = failed_rollback("untrusted", key)
    assert f"rolled back 0 of 1 device; {client.topics.device}: refused: The release" in message
    assert "is not trusted any more" in message
    agent.serves(bundle)


def test_an_order_to_return_that_the_device_does_not_read_fails_with_the_refusal(
    start_device, client, served_bundles, key, new_bundle, begin, failed_rollback
):
    (old, old_digest), (new, new_digest) = served_bundles
    agent = start_device(fetch_from=[new.prefix, old.prefix])
    client.presence("online")
    begin("read", old, old_digest)
    begin("unread", new, new_digest, device_timeout=20.0)
    trusted_keys.add(agent.data_dir, key.with_suffix(".pub"))
    assert "refused: The desired state is not signed" in failed_rollback("unread")
    agent.serves(new_bundle)
