"""The bundle of a rollout: its digest is taken from the file, and it is called by its name."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from edgeopt.bundle.archive import pack_into
from edgeopt.bundle.manifest import release_id
from edgeopt.cli.main import run
from edgeopt.errors import BundleError, MissingError, UsageError
from edgeopt.events import ignore
from edgeopt.fleet import rollout_commands
from edgeopt.fleet.rollout_bundle import RolloutBundle, read_bundle_of
from edgeopt.fleet.rollout_request import RolloutStartRequest, RolloutStatusRequest
from tests.fleet.light_agents import LightFleet

GIVEN = "sha256:" + "a" * 64


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture(scope="module")
def folder(conv_bundle, tmp_path_factory):
    made = tmp_path_factory.mktemp("web server")
    pack_into(conv_bundle, made / "conv.edgeopt")
    (made / "other.zip").write_bytes(b"PK")
    return made


@pytest.fixture(scope="module")
def web(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def known(folder, conv_bundle):
    digest = hashlib.sha256((folder / "conv.edgeopt").read_bytes()).hexdigest()
    return RolloutBundle(f"sha256:{digest}", "conv", release_id(conv_bundle))


def asked(bundle, **more):
    return read_bundle_of(RolloutStartRequest(bundle=bundle, to="*", **more), ignore)


def test_digest_and_name_are_those_of_the_file(web, folder, known):
    assert asked(f"{web}/conv.edgeopt") == known
    assert asked("https://host/m.edgeopt", copy=folder / "conv.edgeopt") == known
    assert asked("https://host/m.edgeopt", copy=folder / "conv.edgeopt", digest=known.digest.upper()) == known
    assert asked("https://host/m.edgeopt", digest=GIVEN) == RolloutBundle(GIVEN)


@pytest.mark.parametrize("file", ["other.zip", "none.edgeopt"])
def test_what_is_no_bundle_is_refused_before_anything_is_ordered(web, folder, file):
    with pytest.raises((BundleError, MissingError), match=r"is not a bundle|404"):
        asked(f"{web}/{file}")
    with pytest.raises(BundleError, match="is not a"):
        asked("https://host/m.edgeopt", copy=folder / file)


@pytest.mark.parametrize(
    "url", ["docker://registry/models:1", "model.edgeopt", "file:///m.edgeopt", "ftp://host/m"]
)
def test_places_from_which_devices_fetch_nothing(url):
    with pytest.raises(UsageError, match="not an address from which devices fetch") as raised:
        asked(url)
    assert "--copy" in raised.value.hint


def test_digest_in_the_address_of_a_registry_is_that_of_the_rollout():
    assert asked(f"oci://registry.example.com/models/m@{GIVEN}") == RolloutBundle(GIVEN)
    assert asked("oci://registry.example.com/models/m:v1", digest=GIVEN) == RolloutBundle(GIVEN)
    with pytest.raises(UsageError, match="differs from the digest"):
        asked(f"oci://registry.example.com/models/m@{GIVEN}", digest=f"sha256:{'1' * 64}")


def test_digest_over_plain_http_is_given_by_who_asks():
    with pytest.raises(UsageError, match="proves nothing") as raised:
        asked("http://models.example.com/m.edgeopt")
    assert "--digest" in raised.value.hint


def test_copy_that_is_not_the_one_of_the_digest(folder):
    with pytest.raises(UsageError, match="another digest"):
        asked("https://host/m.edgeopt", copy=folder / "conv.edgeopt", digest=GIVEN)


@pytest.fixture
def fleet(broker, request):
    running = LightFleet(broker.port, f"fleet-{abs(hash(request.node.nodeid))}")
    running.add(["d0", "d1"], lambda _: "commit")
    yield running
    running.close()


def test_rollout_of_an_address_alone_is_shown_by_the_name_of_its_model(fleet, broker, web, known, capfd, request):
    reaching = ["--broker", broker.url, "--fleet", f"fleet-{abs(hash(request.node.nodeid))}"]
    begin = ["fleet", "rollout", "start", f"{web}/conv.edgeopt", "--to", "*", "--name", "r", *reaching]
    title = f"Bundle: conv (release {known.release})"
    assert run([*begin, "--dry-run"]) == 0
    assert title in capfd.readouterr().out
    assert run(begin) == 0
    assert title in capfd.readouterr().out
    assert run(["fleet", "rollout", "status", "r", *reaching]) == 0
    assert title in capfd.readouterr().out
    report = rollout_commands.status(RolloutStatusRequest(broker=broker.url, fleet=reaching[-1], name="r"))
    assert (report.digest, report.model_name, report.release) == (known.digest, "conv", known.release)
    assert run(["fleet", "rollout", "status", *reaching]) == 0
    assert f"conv (release {known.release})" in capfd.readouterr().out


def test_name_that_devices_report_is_shown_where_only_the_digest_was_given(fleet, broker, capfd, request):
    reaching = ["--broker", broker.url, "--fleet", f"fleet-{abs(hash(request.node.nodeid))}"]
    begin = ["fleet", "rollout", "start", "https://host/m.edgeopt", "--digest", GIVEN, "--to", "*", "--name", "r"]
    assert run([*begin, *reaching, "--dry-run"]) == 0
    assert f"Bundle: m.edgeopt ({GIVEN[:19]}…)" in capfd.readouterr().out
    assert run([*begin, *reaching]) == 0
    found = rollout_commands.status(RolloutStatusRequest(broker=broker.url, fleet=reaching[-1], name="r"))
    assert found.release == GIVEN[7:19]
