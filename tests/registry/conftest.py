"""A real registry, and bundles long enough to be broken off."""

import contextlib
import shutil

import pytest

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
