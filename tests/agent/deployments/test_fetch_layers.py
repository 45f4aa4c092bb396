"""Bundles that the agent fetches from a real registry, by reference."""

import shutil
from pathlib import Path

import pytest

from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import VerificationError
from edgeopt.fleet.commands import deploy
from edgeopt.fleet.request import DeployRequest
from edgeopt.registry.client import digest_of
from edgeopt.registry.push import push
from edgeopt.registry.request import PushRequest
from edgeopt_agent import trusted_keys
from tests import registry_server
from tests.agent.deployments.fetching import RETRIES, partial_files, want

docker_registry, registry, proxy = registry_server.docker_registry, registry_server.registry, registry_server.proxy


def ignore(_event):
    pass


def send(bundle, place):
    return push(PushRequest((bundle,), place), ignore)


@pytest.fixture
def start(start_serving, registry, proxy):
    def start(**more):
        places = [f"oci://{host}/models/" for host in (registry.host, proxy.host)]
        return start_serving(**{"fetch_from": places, **RETRIES, **more})

    return start


def test_reference_is_deployed_with_the_registry_cut_off_at_every_tenth(start, proxy, long_bundle):
    agent = start()
    pushed = send(long_bundle, f"oci://{proxy.host}/models/cut:v1")
    proxy.cut_every(pushed.total_bytes // 10, 10)
    proxy.down_bytes = 0
    status, _, answer = want(agent, pushed.reference, "")
    assert status == 202, answer
    done = agent.ended(answer["deployment"]["id"])
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(long_bundle)
    assert proxy.closed == 10
    assert proxy.down_bytes < 1.2 * pushed.total_bytes
    assert partial_files(agent) == []


def test_tag_is_looked_up_once_and_recorded_with_its_digest(start, registry, new_bundle):
    agent = start()
    place = f"oci://{registry.host}/models/tagged:v1"
    digest = send(new_bundle, place).digest
    deploy(DeployRequest(bundle=Path(place), url=f"127.0.0.1:{agent.port}"), ignore)
    agent.serves(new_bundle)
    assert agent.status()["deployment"]["source"] == f"{place}@{digest}"


def test_tag_that_moved_to_an_unsigned_bundle_is_refused(start, registry, new_bundle, old_bundle, tmp_path):
    key = tmp_path / "key"
    new_key(key)
    signed = shutil.copytree(new_bundle, tmp_path / "signed.edgeopt")
    sign_bundle(signed, key)
    agent = start()
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    place = f"oci://{registry.host}/models/moved:v1"
    send(signed, place)
    deploy(DeployRequest(from_=place, url=f"127.0.0.1:{agent.port}"), ignore)
    agent.serves(signed)
    send(old_bundle, place)
    with pytest.raises(VerificationError, match="not signed"):
        deploy(DeployRequest(from_=place, url=f"127.0.0.1:{agent.port}"), ignore)
    agent.serves(signed)


def test_damaged_blob_is_never_proved(start, registry, old_bundle, new_bundle, tmp_path):
    bundle = shutil.copytree(new_bundle, tmp_path / "damaged.edgeopt")
    (bundle / "ledger.json").write_text('["of this test alone"]')
    write_manifest(bundle)
    pushed = send(bundle, f"oci://{registry.host}/models/damaged:v1")
    agent = start()
    registry.blob(digest_of(bundle / "ledger.json")).write_text('["Of this test alone"]')
    _, _, answer = want(agent, pushed.reference, "")
    done = agent.ended(answer["deployment"]["id"])
    assert done["state"] == "FAILED"
    assert "is another one" in done["reason"]
    agent.serves(old_bundle)


@pytest.mark.parametrize(
    ("place", "digest", "code"),
    [
        ("oci://registry.example.com/other/model", "sha256:" + "0" * 64, "place-not-allowed"),
        ("oci://registry.example.com/models/model:v1", "", "bad-digest"),
        ("oci://registry.example.com/models/model@sha256:" + "0" * 64, "sha256:" + "1" * 64, "bad-digest"),
        ("oci://registry.example.com/models/MODEL", "sha256:" + "0" * 64, "bad-url"),
    ],
)
def test_reference_that_cannot_be_fetched_is_refused_at_once(start_serving, place, digest, code):
    agent = start_serving(fetch_from=["oci://registry.example.com/models/"])
    status, _, answer = want(agent, place, digest)
    assert (status // 100, answer["error"]["code"]) == (4, code)
