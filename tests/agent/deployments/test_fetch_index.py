"""Indexes in a real registry, of which the agent takes the bundle of its device."""

import json
from pathlib import Path

import pytest

from edgeopt.errors import VerificationError
from edgeopt.fleet.commands import deploy
from edgeopt.fleet.request import DeployRequest
from edgeopt.registry.client import RegistryClient
from edgeopt.registry.documents import INDEX
from edgeopt.registry.push import push
from edgeopt.registry.reference import read_reference
from edgeopt.registry.request import PushRequest
from tests import registry_server
from tests.agent.deployments.fetching import RETRIES, partial_files, want
from tests.registry import conftest as registries

docker_registry, registry, proxy = registry_server.docker_registry, registry_server.registry, registry_server.proxy
here, elsewhere, make_bundles = registries.here, registries.elsewhere, registries.make_bundles


def ignore(_event):
    pass


def send(place, *bundles):
    return push(PushRequest(bundles, place), ignore)


@pytest.fixture
def start(start_serving, registry, proxy):
    def start(**more):
        places = [f"oci://{host}/models/" for host in (registry.host, proxy.host)]
        return start_serving(**{"fetch_from": places, **RETRIES, **more})

    return start


def test_tag_of_an_index_deploys_the_bundle_of_the_device(start, registry, make_bundles):
    own, other = make_bundles()
    place = f"oci://{registry.host}/models/index:v1"
    digest = send(place, other, own).digest
    agent = start()
    deploy(DeployRequest(bundle=Path(place), url=f"127.0.0.1:{agent.port}"), ignore)
    agent.serves(own)
    assert agent.status()["deployment"]["source"] == f"{place}@{digest}"


def test_entry_continues_with_the_registry_cut_off_at_every_tenth(start, proxy, make_bundles):
    own, other = make_bundles()
    pushed = send(f"oci://{proxy.host}/models/cut-index:v1", other, own)
    size = pushed.total_bytes // 2
    agent = start()
    proxy.cut_every(size // 10, 10)
    proxy.down_bytes = 0
    _, _, answer = want(agent, pushed.reference, "")
    done = agent.ended(answer["deployment"]["id"])
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(own)
    assert proxy.closed == 10
    assert proxy.down_bytes < 1.3 * size
    assert partial_files(agent) == []


def test_device_that_no_entry_fits_is_refused_even_by_force(start, registry, make_bundles, here, old_bundle):
    own, other = make_bundles()
    registries.retarget(own, "cpu-avx512", {**here, "cpu": "3" * 64})
    place = f"oci://{registry.host}/models/unfit-index:v1"
    pushed = send(place, other, own)
    agent = start()
    for force in (False, True):
        with pytest.raises(VerificationError, match="no bundle that fits this device") as raised:
            deploy(DeployRequest(from_=place, url=f"127.0.0.1:{agent.port}", force=force), ignore)
        assert "arm-dotprod (Raspberry Pi 5" in raised.value.message
    agent.serves(old_bundle)
    entry = f"oci://{registry.host}/models/unfit-index@{pushed.entries[1].digest}"
    deploy(DeployRequest(from_=entry, url=f"127.0.0.1:{agent.port}", force=True), ignore)
    agent.serves(own)


def test_index_whose_entry_was_swapped_is_refused(start, registry, make_bundles, old_bundle):
    own, other = make_bundles()
    place = read_reference(f"oci://{registry.host}/models/swapped-index:v1")
    send(str(place), own, other)
    client = RegistryClient(place)
    document = json.loads(client.manifest("v1"))
    one, two = document["manifests"]
    one["digest"], one["size"] = two["digest"], two["size"]
    client.put_manifest(json.dumps(document).encode(), "v1", INDEX)
    agent = start()
    with pytest.raises(VerificationError, match="leads to another bundle"):
        deploy(DeployRequest(from_=str(place), url=f"127.0.0.1:{agent.port}", force=True), ignore)
    agent.serves(old_bundle)
