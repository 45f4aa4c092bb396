"""Pushing a large file over connections that break, with docker-registry and with what other registries do."""

import json
import ssl
import subprocess
import sys

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.errors import MissingError
from edgeopt.pipeline.cache.user import listing
from edgeopt.platform.user_folders import user_cache_folder
from edgeopt.registry import upload
from edgeopt.registry.client import RegistryClient, digest_of
from edgeopt.registry.documents import Descriptor
from edgeopt.registry.pull import pull, resolve
from edgeopt.registry.push import push
from edgeopt.registry.reference import RegistryReference, read_reference
from edgeopt.registry.request import PullRequest, PushRequest
from edgeopt.registry.upload import send_blob
from edgeopt_agent import certificate
from tests.registry.conftest import lengthen
from tests.registry.front_server import FrontServer
from tests.registry_server import CuttingProxy
from tests.token_server import LOGIN, USERS, TokenServer

CHUNK = 50_000
SIZE = 1_000_000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch, tmp_path):
    monkeypatch.setattr(upload, "_CHUNK_BYTES", CHUNK)
    monkeypatch.setenv("EDGEOPT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def make_front(registry):
    """Servers in front of the registry, each with a proxy before it that can be cut."""
    made = []

    def make(to=registry, **options):
        front = FrontServer(to, **options)
        made.extend((front, CuttingProxy(front.port)))
        return made[-2:]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def large(bundle):
    """A bundle of which one file is all but a hundredth."""
    return lengthen(bundle, SIZE - 400_000)


def send(bundle, place):
    return push(PushRequest((bundle,), place), lambda _event: None)


def arrived_whole(bundle, place, tmp_path):
    return pull(PullRequest(place, tmp_path / "out"), lambda _event: None).release == release_id(bundle)


@pytest.mark.parametrize(("takes_uploads", "most"), [(False, 1.5), (True, 1.1)])
def test_push_of_one_file_continues_where_it_is_cut_off_at_every_tenth(
    make_front, large, tmp_path, takes_uploads, most
):
    front, proxy = make_front(takes_uploads=takes_uploads)
    proxy.cut_every(SIZE // 10, 9, up_only=True)
    place = f"oci://{proxy.host}/models/tenths-{most}:v1"
    pushed = send(large, place)
    assert proxy.closed == 9
    assert proxy.up_bytes < most * SIZE
    assert resolve(read_reference(place)).digest == pushed.digest
    assert arrived_whole(large, f"oci://{front.host}/models/tenths-{most}:v1", tmp_path)
    assert not list(user_cache_folder().glob("upload-*"))


@pytest.mark.parametrize("tenths", [1, 5, 9])
def test_file_is_sent_anew_where_the_registry_forgets_what_broke_off(registry, proxy, large, tenths):
    proxy.cut_every(SIZE * tenths // 10, 1, up_only=True)
    place = f"oci://{proxy.host}/models/forgotten-{tenths}:v1"
    pushed = send(large, place)
    assert proxy.closed == 1
    assert proxy.up_bytes < (1.1 + tenths / 10) * SIZE
    assert resolve(read_reference(place)).digest == pushed.digest


@pytest.mark.parametrize("known", [True, False])
def test_push_continues_after_its_process_was_killed(make_front, large, tmp_path, known):
    front, proxy = make_front(takes_uploads=True)
    place = f"oci://{proxy.host}/models/killed-{int(known)}:v1"
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom edgeopt.registry import push, upload\n"
        f"upload._CHUNK_BYTES = {CHUNK}\n"
        "push.push(push.PushRequest((Path(sys.argv[1]),), sys.argv[2]),"
        f" lambda event: os._exit(9) if (event.done or 0) > {SIZE * 6 // 10} else None)"
    )
    assert subprocess.run([sys.executable, "-c", program, large, place], check=False).returncode == 9
    assert [other.count for other in listing().others] == [1], "edgeopt cache shows it"
    if not known:
        front.uploads.clear()
    proxy.up_bytes = 0
    pushed = send(large, place)
    assert (pushed.sent_bytes < 0.5 * SIZE) == (proxy.up_bytes < 0.5 * SIZE) == known
    assert arrived_whole(large, place, tmp_path)
    assert not list(user_cache_folder().glob("upload-*"))


@pytest.mark.parametrize("quirk", ["405", "416", "closes", "no range", "stuck", "no status", "damage", "least"])
def test_registry_that_takes_no_chunks_gets_the_file_in_one_request(make_front, large, tmp_path, quirk):
    front, proxy = make_front(takes_uploads=True, quirk=quirk)
    lengthen(large, CHUNK * 2, "ledger.json")
    if quirk == "no status":
        proxy.cut_every(SIZE // 3, 1, up_only=True)
    place = f"oci://{proxy.host}/models/{quirk.replace(' ', '-')}:v1"
    send(large, place)
    bodies = [(method, size) for method, path, size, _ in front.requests if "uploads" in path]
    whole = [size for method, size in bodies if method == "PUT" and size > CHUNK]
    chunks = [size for method, size in bodies if method == "PATCH"]
    assert len(whole) == {"least": 0, "no status": 1}.get(quirk, 2)
    assert max(chunks) == (150_000 if quirk == "least" else CHUNK)
    if quirk in {"405", "416", "closes", "no range", "stuck"}:
        assert len(chunks) <= 3, "what a registry refused is not tried with the next file"
    assert arrived_whole(large, place, tmp_path)


def test_tries_without_progress_are_limited(make_front, large):
    front, proxy = make_front()
    proxy.cut_every(CHUNK // 2, 1000, up_only=True)
    with pytest.raises(MissingError, match="ended the connection"):
        send(large, f"oci://{proxy.host}/models/hopeless:v1")
    assert proxy.closed < 20
    assert front.requests


def test_small_files_go_in_one_request_each(make_front, bundle, monkeypatch):
    monkeypatch.setattr(upload, "_CHUNK_BYTES", SIZE)
    front, proxy = make_front()
    pushed = send(bundle, f"oci://{proxy.host}/models/small:v1")
    methods = [method for method, path, *_ in front.requests if "uploads" in path]
    assert methods == ["POST", "PUT"] * (pushed.sent_files + 1)


@pytest.mark.parametrize("quirk", ["", "redirect"])
def test_login_goes_to_no_other_host(make_registry, make_front, large, tmp_path, monkeypatch, quirk):
    (tmp_path / "users").write_text(USERS)
    private = make_registry(f"auth: {{htpasswd: {{realm: test, path: '{tmp_path / 'users'}'}}}}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    own, _ = make_front(private, takes_uploads=True, quirk=quirk)
    other, _ = make_front(private, takes_uploads=True, login=f"Basic {LOGIN}")
    own.elsewhere = f"http://{other.host}"
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {own.host: {"auth": LOGIN}}}))
    send(large, f"oci://{own.host}/models/elsewhere:v1")
    assert {login for *_, login in own.requests} >= {f"Basic {LOGIN}"}
    assert {login for *_, login in other.requests} == {None}
    assert {method for method, *_ in other.requests} == {"PATCH", "PUT"}


def test_token_is_renewed_within_a_file(make_registry, tmp_path, monkeypatch):
    tokens = TokenServer(tmp_path)
    private = make_registry(tokens.access)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(upload, "_CHUNK_BYTES", 4 << 20)
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {private.host: {"auth": LOGIN}}}))
    client = RegistryClient(read_reference(f"oci://{private.host}/models/renewed:v1"))
    content = b"x" * (16 << 20)
    blob = Descriptor("application/octet-stream", digest_of(content), len(content))
    stale = []

    def on_bytes(_count):
        if not stale and len(tokens.scopes) == 1:
            stale.append(client._oras.auth.token)
            client._oras.auth.token = "stale"  # noqa: S105 - one that the registry refuses

    send_blob(client, blob, content, on_bytes)
    assert stale
    assert len(tokens.scopes) > 1
    assert client.has_blob(blob.digest)
    tokens.close()


def test_push_over_tls_continues_where_it_is_cut_off(make_front, large, tmp_path, monkeypatch):
    made = certificate.renew(tmp_path / "made")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.file)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.file))
    monkeypatch.setattr(RegistryReference, "is_loopback", False)
    _, proxy = make_front(tls=tls)
    proxy.cut_every(SIZE // 4, 3, up_only=True)
    place = f"oci://{proxy.host}/models/tls:v1"
    send(large, place)
    assert proxy.closed == 3
    assert proxy.up_bytes < 1.4 * SIZE
    assert arrived_whole(large, place, tmp_path)
