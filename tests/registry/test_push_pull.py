"""Pushing and pulling bundles, with a real registry whose connection is cut at every tenth of the bytes."""

import json
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from edgeopt.bundle.manifest import release_id, write_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import BundleError, MissingError, UsageError
from edgeopt.registry.client import RegistryClient, digest_of
from edgeopt.registry.documents import ARTIFACT, CONFIG, FILE_PATH, MANIFEST
from edgeopt.registry.pull import pull, resolve
from edgeopt.registry.push import push
from edgeopt.registry.reference import read_reference
from edgeopt.registry.request import PullRequest, PushRequest
from tests.registry.conftest import lengthen
from tests.token_server import LOGIN, TokenServer


def send(bundle, place):
    return push(PushRequest((bundle,), place), lambda _event: None)


def get(place, out, emit=lambda _event: None, **more):
    return pull(PullRequest(place, out, **more), emit)


def test_bundle_that_is_pushed_is_pulled_unchanged(registry, bundle, tmp_path):
    place = f"oci://{registry.host}/models/plain:v1"
    pushed = send(bundle, place)
    assert pushed.reference == f"{place}@{pushed.digest}"
    assert (pushed.files, pushed.sent_files) == (7, 6), "the golden outputs are those of the reference"
    for address in (place, f"oci://{registry.host}/models/plain@{pushed.digest}"):
        out = tmp_path / address[-4:]
        pulled = get(address, out)
        assert release_id(read_bundle(out).folder) == release_id(bundle) == pulled.release
        assert pulled.reference == f"{address.partition('@')[0]}@{pushed.digest}"
    assert list(tmp_path.glob(".*")) == []


def test_manifest_is_a_modelpack_with_a_layer_a_file(registry, bundle):
    reference = read_reference(f"oci://{registry.host}/models/modelpack:v1")
    pushed = send(bundle, str(reference))
    manifest = json.loads(RegistryClient(reference).manifest(pushed.digest))
    assert (manifest["artifactType"], manifest["config"]["mediaType"]) == (ARTIFACT, CONFIG)
    kinds = {layer["annotations"][FILE_PATH]: layer["mediaType"] for layer in manifest["layers"]}
    assert set(kinds) == {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert kinds["model/model.null.json"] == "application/vnd.cncf.model.weight.v1.raw"
    assert kinds["deployment.toml"] == "application/vnd.cncf.model.weight.config.v1.raw"


def test_same_bundle_has_the_same_digest_and_is_not_sent_again(registry, bundle):
    first, second = (send(bundle, f"oci://{registry.host}/models/same:{tag}") for tag in ("a", "b"))
    assert first.digest == second.digest
    assert second.sent_files == 0
    assert second.sent_bytes < 10_000


def test_changed_threshold_costs_kilobytes(registry, proxy, bundle, tmp_path):
    place = f"oci://{proxy.host}/models/changed:v1"
    send(bundle, place)
    get(place, tmp_path / "here")
    text = (bundle / "deployment.toml").read_text()
    (bundle / "deployment.toml").write_text(text.replace('summary = "a test"', 'summary = "another"'))
    write_manifest(bundle)
    proxy.up_bytes = proxy.down_bytes = 0
    again = send(bundle, place)
    assert again.sent_files == 2, "deployment.toml and manifest.json"
    assert again.sent_bytes < proxy.up_bytes < 20_000
    assert again.total_bytes > 400_000
    proxy.down_bytes = 0
    pulled = get(place, tmp_path / "here")
    assert pulled.received_bytes < proxy.down_bytes < 20_000
    assert release_id(tmp_path / "here") == release_id(bundle)


@pytest.mark.parametrize("tenths", range(1, 10))
def test_push_goes_on_after_the_registry_was_cut_off(registry, proxy, bundle, tenths):
    lengthen(bundle, 400_000, "ledger.json")
    size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    proxy.cut_every(size * tenths // 10, 1)
    place = f"oci://{proxy.host}/models/cut-{tenths}:v1"
    pushed = send(bundle, place)
    assert proxy.closed == 1
    assert proxy.up_bytes < 1.6 * size, "of two large files, one begins again"
    assert resolve(read_reference(place)).digest == pushed.digest


def test_pull_continues_where_the_registry_is_cut_off_at_every_tenth(registry, proxy, bundle, tmp_path):
    place = f"oci://{proxy.host}/models/cut:v1"
    size = send(bundle, place).total_bytes
    proxy.cut_every(size // 10, 10)
    proxy.down_bytes = 0
    pulled = get(place, tmp_path / "out")
    assert proxy.closed == 10
    assert pulled.received_bytes <= size
    assert proxy.down_bytes < 1.2 * size
    assert release_id(read_bundle(tmp_path / "out").folder) == release_id(bundle)


def test_pull_continues_after_its_process_was_killed(registry, proxy, bundle, tmp_path):
    place, out = f"oci://{registry.host}/models/killed:v1", tmp_path / "out"
    size = send(lengthen(bundle, 600_000), place).total_bytes
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom edgeopt.registry.pull import PullRequest, pull\n"
        "pull(PullRequest(sys.argv[1], Path(sys.argv[2])),"
        " lambda event: os._exit(9) if (event.done or 0) > 100_000 else None)"
    )
    done = subprocess.run([sys.executable, "-c", program, place, out], check=False)
    assert done.returncode == 9
    assert not out.exists()
    pulled = get(place, out)
    assert 0 < pulled.received_bytes <= size - 100_000
    assert release_id(read_bundle(out).folder) == release_id(bundle)
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("damage", [lambda content: content[:-1000], lambda content: b"\0" + content[1:]])
def test_damaged_blob_is_refused_and_the_old_bundle_stays(make_registry, bundle, tmp_path, damage):
    registry, out = make_registry(), tmp_path / "out"
    place = f"oci://{registry.host}/damaged:v1"
    send(bundle, place)
    get(place, out)
    old = release_id(out)
    lengthen(bundle, 10)
    send(bundle, place)
    blob = registry.blob(digest_of(bundle / "model" / "model.null.json"))
    blob.write_bytes(damage(blob.read_bytes()))
    with pytest.raises((BundleError, MissingError)) as raised:
        get(place, out)
    assert raised.value.hint
    assert release_id(read_bundle(out).folder) == old


def test_bundle_that_differs_from_its_own_manifest_is_refused(registry, bundle, tmp_path):
    reference = read_reference(f"oci://{registry.host}/models/lying:v1")
    client = RegistryClient(reference)
    pushed = msgspec.json.decode(client.manifest(send(bundle, str(reference)).digest))
    pushed["layers"] = [each for each in pushed["layers"] if each["annotations"][FILE_PATH] != "ledger.json"]
    client.put_manifest(msgspec.json.encode(pushed), "v1", MANIFEST)
    with pytest.raises(BundleError, match=r"not a sound bundle.*ledger.json is missing"):
        get(str(reference), tmp_path / "out")
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside", "C:\\outside", ""])
def test_layer_that_leads_out_of_the_bundle_is_refused(registry, bundle, tmp_path, path):
    reference = read_reference(f"oci://{registry.host}/models/outside:v1")
    client = RegistryClient(reference)
    pushed = msgspec.json.decode(client.manifest(send(bundle, str(reference)).digest))
    pushed["layers"][0]["annotations"][FILE_PATH] = path
    client.put_manifest(msgspec.json.encode(pushed), "v1", MANIFEST)
    with pytest.raises(BundleError, match="not one plain file"):
        get(str(reference), tmp_path / "out")
    assert not (tmp_path / "outside").exists()


def test_registry_with_a_login_takes_that_of_docker(make_registry, bundle, tmp_path, monkeypatch):
    (tmp_path / "users").write_text("someone:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n")
    registry = make_registry(f"auth: {{htpasswd: {{realm: test, path: '{tmp_path / 'users'}'}}}}\n")
    place = f"oci://{registry.host}/private/model:v1"
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(MissingError, match="refuses access") as raised:
        send(bundle, place)
    assert "docker login" in raised.value.hint
    (tmp_path / ".docker").mkdir()
    login = {"auths": {registry.host: {"auth": "c29tZW9uZTpzZWNyZXQ="}}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps(login))
    send(bundle, place)
    assert get(place, tmp_path / "out").release == release_id(bundle)


def test_absent_bundle_and_absent_registry_are_named(registry, tmp_path):
    with pytest.raises(MissingError, match=r"has no oci://.*nothing:v1"):
        get(f"oci://{registry.host}/models/nothing:v1", tmp_path / "out")
    with pytest.raises(MissingError, match=r"cannot be reached.*: Connection refused") as raised:
        get("oci://127.0.0.1:9/models/nothing:v1", tmp_path / "out")
    assert raised.value.hint == "Check the address, and whether the registry runs."


def test_server_that_is_no_registry_is_named(bundle, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"oci://127.0.0.1:{server.server_port}/models/plain:v1"
    try:
        with pytest.raises(MissingError, match="answers 501 Unsupported method") as error:
            send(bundle, place)
        assert "Check the address" in error.value.hint
        with pytest.raises(MissingError) as error:
            get(place, tmp_path / "pulled")
        assert "Check the address" in error.value.hint
    finally:
        server.shutdown()
        server.server_close()


def test_connection_that_always_ends_is_named_in_words(registry, proxy, bundle):
    proxy.cut_every(1, 100_000)
    with pytest.raises(MissingError, match=r"ended the connection: [A-Z][A-Za-z ]+\.$"):
        send(bundle, f"oci://{proxy.host}/models/plain:v1")


def test_tag_is_resolved_to_the_digest_that_it_has_now(registry, bundle):
    tagged = read_reference(f"oci://{registry.host}/models/tagged:v1")
    first = send(bundle, str(tagged)).digest
    assert resolve(tagged).digest == first
    lengthen(bundle, 10)
    second = send(bundle, str(tagged)).digest
    assert resolve(tagged).digest == second != first
    assert resolve(read_reference(f"{tagged}@{first}")).digest == first


@pytest.mark.parametrize(
    "text", ["oci://host", "oci://host/UPPER:v1", "oci://host/a@sha256:12", "oci://a@b/c", "x/y"]
)
def test_address_that_no_registry_can_have_is_refused(text):
    with pytest.raises(UsageError, match="not the address"):
        read_reference(text)


def test_push_to_a_digest_is_refused(bundle):
    with pytest.raises(UsageError, match="names a digest"):
        send(bundle, f"oci://127.0.0.1:9/a@sha256:{'0' * 64}")


def test_registry_with_tokens_takes_the_login_of_docker(make_registry, bundle, tmp_path, monkeypatch):
    tokens = TokenServer(tmp_path)
    registry = make_registry(tokens.access)
    place = f"oci://{registry.host}/private/model:v1"
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".docker").mkdir()
    logins = tmp_path / ".docker" / "config.json"
    for login in ("", "c29tZW9uZTp3cm9uZw=="):
        logins.write_text(json.dumps({"auths": {registry.host: {"auth": login}} if login else {}}))
        with pytest.raises(MissingError, match="refuses access"):
            send(bundle, place)
    logins.write_text(json.dumps({"auths": {registry.host: {"auth": LOGIN}}}))
    send(bundle, place)
    assert {"repository:private/model:push,pull", "repository:private/model:pull,push"} & set(tokens.scopes)
    assert get(place, tmp_path / "out").release == release_id(bundle)
    tokens.close()
