"""Indexes of bundles for different devices, with a real registry."""

import json
import subprocess
import sys

import msgspec
import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import BundleError, UsageError
from edgeopt.hw.device import differing_parts
from edgeopt.registry.client import RegistryClient
from edgeopt.registry.documents import INDEX, RELEASE, TARGET
from edgeopt.registry.index import MACHINE, choose_entry, device_of
from edgeopt.registry.pull import pull
from edgeopt.registry.push import push
from edgeopt.registry.reference import read_reference
from edgeopt.registry.request import PullRequest, PushRequest
from tests.registry.conftest import lengthen, retarget


def ignore(_event):
    pass


def send(place, *bundles):
    return push(PushRequest(bundles, place), ignore)


def get(place, out, **more):
    return pull(PullRequest(place, out, **more), ignore)


def test_index_says_for_which_device_each_bundle_is(registry, make_bundles, here, elsewhere):
    own, other = make_bundles()
    place = f"oci://{registry.host}/models/index:v1"
    pushed = send(place, other, own)
    document = json.loads(RegistryClient(read_reference(place)).manifest("v1"))
    assert (document["mediaType"], pushed.reference) == (INDEX, f"{place}@{pushed.digest}")
    first, second = document["manifests"]
    assert first["platform"] == {"architecture": "arm64", "os": "linux"}
    assert second["platform"] == {"architecture": "amd64", "os": "linux"}
    assert (first["annotations"][TARGET], first["annotations"][RELEASE]) == ("arm-dotprod", release_id(other))
    assert first["annotations"][MACHINE] == "Raspberry Pi 5 Model B Rev 1.0, Linux aarch64; Cortex-A76"
    entry = choose_entry(msgspec.json.encode(document), here, place)
    assert device_of(entry) == here
    assert entry.digest == second["digest"] == pushed.entries[1].digest
    assert choose_entry(msgspec.json.encode(document), elsewhere, place).digest == first["digest"]


def test_pull_takes_the_bundle_of_this_machine_or_of_the_target_named(registry, make_bundles, tmp_path):
    own, other = make_bundles()
    place = f"oci://{registry.host}/models/pulled:v1"
    pushed = send(place, other, own)
    pulled = get(place, tmp_path / "a")
    assert pulled.release == release_id(own) == release_id(read_bundle(tmp_path / "a").folder)
    assert pulled.reference == f"{place}@{pushed.entries[1].digest}"
    assert get(place, tmp_path / "b", target="arm-dotprod").release == release_id(other)
    assert get(pushed.reference, tmp_path / "c").release == release_id(own)
    with pytest.raises(BundleError, match=r"no bundle of the target 'gpu-cuda'\. It has: arm-dotprod \(Raspberry"):
        get(place, tmp_path / "d", target="gpu-cuda")
    alone = send(f"oci://{registry.host}/models/pulled:alone", own)
    with pytest.raises(UsageError, match="not an index"):
        get(alone.reference, tmp_path / "d", target="cpu-avx2")


def test_device_without_a_fitting_bundle_is_told_what_there_is(registry, make_bundles, here, tmp_path):
    own, other = make_bundles()
    retarget(own, "cpu-avx512", {**here, "cpu": "3" * 64})
    place = f"oci://{registry.host}/models/unfit:v1"
    pushed = send(place, other, own)
    with pytest.raises(BundleError, match="no bundle that fits this device") as raised:
        get(place, tmp_path / "out")
    for each in pushed.entries:
        assert each.digest in raised.value.message
        assert each.target in raised.value.message
    assert list(tmp_path.glob(".*")) == []


def test_closest_of_several_fitting_bundles_is_taken(registry, make_bundles, here, tmp_path):
    own, other = make_bundles()
    retarget(other, "gpu-openvino", {**here, "drivers": "3" * 64})
    place = f"oci://{registry.host}/models/closest:v1"
    send(place, other, own)
    assert not differing_parts({**here, "drivers": "3" * 64}, here)
    assert get(place, tmp_path / "out").release == release_id(own)


def test_bundles_that_no_device_tells_apart_are_refused(registry, make_bundles, here):
    own, other = make_bundles()
    retarget(other, "cpu-avx2", here)
    with pytest.raises(UsageError, match="same target and device"):
        send(f"oci://{registry.host}/models/equal:v1", own, other)


@pytest.mark.parametrize("by", ["registry", "index"])
def test_swapped_entry_is_refused(make_registry, make_bundles, tmp_path, by):
    registry = make_registry()
    own, other = make_bundles()
    place = f"oci://{registry.host}/swapped:v1"
    first, second = send(place, own, other).entries
    if by == "registry":
        registry.blob(first.digest).write_bytes(registry.blob(second.digest).read_bytes())
    else:
        client = RegistryClient(read_reference(place))
        document = json.loads(client.manifest("v1"))
        one, two = document["manifests"]
        one["digest"], one["size"] = two["digest"], two["size"]
        client.put_manifest(json.dumps(document).encode(), "v1", INDEX)
    with pytest.raises(BundleError, match="another manifest" if by == "registry" else "leads to another bundle"):
        get(place, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_push_of_an_index_sends_what_changed(registry, proxy, make_bundles):
    own, other = make_bundles()
    place = f"oci://{proxy.host}/models/changed:v1"
    whole = send(place, own, other)
    assert whole.total_bytes > 400_000
    lengthen(other, 10, "ledger.json")
    proxy.up_bytes = 0
    again = send(place, own, other)
    assert again.sent_files == 2, "ledger.json and manifest.json"
    assert again.sent_bytes < proxy.up_bytes < 30_000
    assert again.entries[0] == whole.entries[0]
    assert again.digest != whole.digest


def test_pull_of_an_entry_continues_after_its_process_was_killed(registry, make_bundles, tmp_path):
    own, other = make_bundles()
    place, out = f"oci://{registry.host}/models/killed-index:v1", tmp_path / "out"
    send(place, other, own)
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom edgeopt.registry.pull import PullRequest, pull\n"
        "pull(PullRequest(sys.argv[1], Path(sys.argv[2])),"
        " lambda event: os._exit(9) if (event.done or 0) > 100_000 else None)"
    )
    assert subprocess.run([sys.executable, "-c", program, place, out], check=False).returncode == 9
    pulled = get(place, out)
    assert 0 < pulled.received_bytes <= pulled.total_bytes - 100_000
    assert pulled.release == release_id(own)


def test_index_of_other_images_is_refused(registry, tmp_path):
    place = read_reference(f"oci://{registry.host}/models/foreign:v1")
    RegistryClient(place).put_manifest(
        json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode(), "v1", INDEX
    )
    with pytest.raises(BundleError, match="not an index of bundles"):
        get(str(place), tmp_path / "out")
