"""A real registry, and bundles long enough to be broken off."""

import contextlib
import shutil

import msgspec
import pytest

from edgeopt.bundle.deployment import FILE, read_deployment, to_toml
from edgeopt.bundle.manifest import write_manifest
from edgeopt.registry import client
from tests import registry_server
from tests.agent import conftest as agents

docker_registry, registry, proxy = registry_server.docker_registry, registry_server.registry, registry_server.proxy
make_null_bundle = agents.make_null_bundle


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(client, "_RETRY_S", 0.01)


@pytest.fixture
def make_registry(docker_registry, tmp_path_factory):
    """A registry of a test's own, to be damaged or closed to strangers."""
    with contextlib.ExitStack() as stack:

        def make(access=""):
            running = registry_server.RegistryServer(tmp_path_factory.mktemp("registry"), access)
            stack.callback(running.stop)
            return running

        yield make


@pytest.fixture
def bundle(make_null_bundle, tmp_path):
    return lengthen(shutil.copytree(make_null_bundle(), tmp_path / "null.edgeopt"), 400_000)


def lengthen(bundle, count, name="model/model.null.json"):
    """Makes a file of a bundle so many bytes longer; JSON may end with spaces."""
    with (bundle / name).open("a") as file:
        file.write(" " * count)
    write_manifest(bundle)
    return bundle


def retarget(bundle, target, device, machine=None):
    """Makes a bundle say that it was proved for another target, on another device."""
    found = read_deployment(bundle / FILE)
    changed = msgspec.structs.replace(found, target=target, device=device, machine=machine or {})
    (bundle / FILE).write_text(to_toml(changed))
    write_manifest(bundle)
    return bundle


@pytest.fixture
def here(device_fingerprint):
    return device_fingerprint


@pytest.fixture
def elsewhere(here):
    """The fingerprint of another device."""
    return {**here, "host": "1" * 64, "cpu": "2" * 64}


@pytest.fixture
def make_bundles(make_null_bundle, tmp_path, here, elsewhere):
    """Bundles of this device and of another one, with different weights."""

    def make():
        machine = {"host": "Raspberry Pi 5 Model B Rev 1.0, Linux aarch64", "cpu": "Cortex-A76"}
        own, other = (
            lengthen(
                shutil.copytree(make_null_bundle(model={"noise": noise}), tmp_path / f"{name}.edgeopt"), 200_000
            )
            for name, noise in (("own", 0.0), ("other", 0.5))
        )
        return retarget(own, "cpu-avx2", here, {"host": "Linux x86_64, kvm"}), retarget(
            other, "arm-dotprod", elsewhere, machine
        )

    return make
