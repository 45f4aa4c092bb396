"""Logins of the agent at real registries, and to whom it sends them."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from edgeopt.registry.push import push
from edgeopt.registry.request import PushRequest
from edgeopt_agent.bundle_urls import read_url
from edgeopt_agent.deployments.download import Link, open_body
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.registry_login import RegistryLogin, RegistryRequest
from tests import registry_server
from tests.agent.deployments.fetching import RETRIES, want
from tests.registry import conftest as registries
from tests.token_server import LOGIN, USERS, TokenServer

docker_registry, make_registry = registry_server.docker_registry, registries.make_registry


@pytest.fixture
def token_server(tmp_path):
    server = TokenServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def basic_registry(make_registry, tmp_path):
    (tmp_path / "users").write_text(USERS)
    return make_registry(f"auth: {{htpasswd: {{realm: test, path: '{tmp_path / 'users'}'}}}}\n")


@pytest.fixture
def pushed(new_bundle, tmp_path, monkeypatch):
    """Pushes a bundle with a login of this user."""

    def pushed(*hosts):
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".docker").mkdir()
        write_logins(tmp_path / ".docker" / "config.json", *hosts)
        return push(
            PushRequest((new_bundle,), f"oci://{hosts[0]}/models/private:v1"), lambda _event: None
        ).reference

    return pushed


def write_logins(file, *hosts, login=LOGIN, mode=0o600):
    file.write_text(json.dumps({"auths": {host: {"auth": login} for host in hosts}}))
    file.chmod(mode)
    return file


def end(agent, reference):
    status, _, answer = want(agent, reference, "")
    assert status == 202, answer
    return agent.ended(answer["deployment"]["id"])


def files_with(folder, text):
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


def test_basic_login_of_the_file_is_used_and_written_nowhere(
    start_serving, basic_registry, pushed, new_bundle, tmp_path
):
    place = pushed(basic_registry.host)
    logins = write_logins(tmp_path / "logins.json", basic_registry.host)
    agent = start_serving(
        fetch_from=[f"oci://{basic_registry.host}/models/"], registry_auth=str(logins), **RETRIES
    )
    done = end(agent, place)
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(new_bundle)
    for secret in (LOGIN, "someone:secret"):
        assert files_with(agent.data_dir, secret) == []
        assert secret not in json.dumps(agent.status())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"registry_auth": None}, "refuses access, and `registry_auth` in agent.toml has no login for it"),
        ({"hosts": ["registry.example.com"]}, "has no login for it"),
        ({"login": "c29tZW9uZTp3cm9uZw=="}, "refuses the login in"),
        ({"login": "not base64"}, "is not a file of logins"),
        ({"login": "ü"}, "is not a file of logins"),
        ({"mode": 0o644}, "chmod o="),
        ({"missing": True}, "cannot be read"),
    ],
)
def test_registry_without_a_usable_login_is_refused(
    start_serving, basic_registry, pushed, old_bundle, tmp_path, change, reason
):
    place = pushed(basic_registry.host)
    file = write_logins(
        tmp_path / "logins.json",
        *change.get("hosts", [basic_registry.host]),
        login=change.get("login", LOGIN),
        mode=change.get("mode", 0o600),
    )
    if change.get("missing"):
        file.unlink()
    agent = start_serving(
        fetch_from=[f"oci://{basic_registry.host}/models/"],
        registry_auth=change.get("registry_auth", str(file)),
        **RETRIES,
    )
    done = end(agent, place)
    assert done["state"] == "FAILED"
    assert reason in done["reason"]
    assert LOGIN not in done["reason"]
    agent.serves(old_bundle)


def test_token_is_fetched_with_the_login_of_the_token_server(
    start_serving, make_registry, token_server, pushed, new_bundle, tmp_path
):
    registry = make_registry(token_server.access)
    place = pushed(registry.host)
    logins = write_logins(tmp_path / "logins.json", registry.host)
    agent = start_serving(fetch_from=[f"oci://{registry.host}/models/"], registry_auth=str(logins), **RETRIES)
    token_server.logins.clear()
    token_server.scopes.clear()
    done = end(agent, place)
    assert f"asks for a token of '{token_server.host}', for which" in done["reason"], done
    assert token_server.logins == [], "it is another host than that of the entry"
    write_logins(logins, registry.host, token_server.host)
    done = end(agent, place)
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(new_bundle)
    assert token_server.logins == [f"Basic {LOGIN}"], "one token for all files"
    assert token_server.scopes == ["repository:models/private:pull"]
    assert files_with(agent.data_dir, "eyJ") == []


@pytest.fixture
def serve():
    """Starts servers that answer requests by a function of path and Authorization, and record both."""
    with contextlib.ExitStack() as stack:

        def serve(answer):
            requests = []

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self):
                    requests.append((self.path.partition("?")[0], self.headers.get("Authorization")))
                    status, headers, body = answer(*requests[-1])
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(body)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_):
                    """Says nothing."""

            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.daemon_threads = True
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            return f"127.0.0.1:{server.server_address[1]}", requests

        yield serve


def content_of(host, login, path="/v2/a"):
    body = open_body(
        f"http://{host}{path}",
        0,
        "",
        [f"http://{host}/", *login.prefixes],
        60.0,
        Link(),
        RegistryRequest(login.at),
    )
    with contextlib.closing(body):
        return body.read()


class AtHost:
    """A login at a host, and the prefixes of other places that may be fetched from."""

    def __init__(self, host, file, *others):
        self.at = RegistryLogin(read_url(f"http://{host}/v2/"), file)
        self.prefixes = [f"http://{other}/" for other in others]


def test_login_is_not_sent_where_the_registry_redirects(serve, tmp_path):
    storage, stored = serve(lambda _path, _login: (200, {}, b"content"))

    def answer(_path, login):
        if login is None:
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        return 307, {"Location": f"http://{storage}/blob"}, b""

    host, requests = serve(answer)
    login = AtHost(host, write_logins(tmp_path / "logins", host, storage), storage)
    assert content_of(host, login) == b"content"
    assert requests == [("/v2/a", None), ("/v2/a", f"Basic {LOGIN}")]
    assert stored == [("/blob", None)]


def test_host_that_is_redirected_to_gets_no_login_although_it_asks(serve, tmp_path):
    storage, stored = serve(lambda _path, _login: (401, {"WWW-Authenticate": 'Basic realm="x"'}, b""))
    host, _ = serve(lambda _path, _login: (307, {"Location": f"http://{storage}/blob"}, b""))
    login = AtHost(host, write_logins(tmp_path / "logins", host, storage), storage)
    with pytest.raises(StepError, match="answers 401"):
        content_of(host, login)
    assert stored == [("/blob", None)]


def test_expired_token_is_renewed(serve, tmp_path):
    tokens = iter(("first", "second"))
    valid = []

    def answer(path, login):
        if path == "/token":
            valid[:] = [f"Bearer {next(tokens)}"]
            return 200, {}, json.dumps({"access_token": valid[0].partition(" ")[2]}).encode()
        challenge = f'Bearer realm="http://{host}/token",service="s",scope="repository:a:pull"'
        if login in valid:
            valid.clear()
            return 200, {}, b"content"
        return 401, {"WWW-Authenticate": challenge}, b""

    host, requests = serve(answer)
    login = AtHost(host, write_logins(tmp_path / "logins", host))
    assert [content_of(host, login), content_of(host, login)] == [b"content", b"content"]
    assert [path for path, _ in requests].count("/token") == 2
    assert ("/v2/a", "Bearer second") in requests


@pytest.mark.parametrize(
    "realm", ["http://registry.example.com/token", "https://registry.example.com/token", "x", ""]
)
def test_realm_elsewhere_gets_nothing(serve, tmp_path, realm):
    host, requests = serve(lambda _path, _login: (401, {"WWW-Authenticate": f'Bearer realm="{realm}"'}, b""))
    with pytest.raises(StepError, match="asks for a token"):
        content_of(host, AtHost(host, write_logins(tmp_path / "logins", host)))
    assert requests == [("/v2/a", None)]


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "a" * 40_000])
def test_token_that_no_header_can_have_is_refused(serve, tmp_path, token):
    def answer(path, _login):
        if path == "/token":
            return 200, {}, json.dumps({"token": token}).encode()
        return 401, {"WWW-Authenticate": f'Bearer realm="http://{host}/token"'}, b""

    host, _ = serve(answer)
    with pytest.raises(StepError, match="gives no token") as raised:
        content_of(host, AtHost(host, write_logins(tmp_path / "logins", host)))
    assert not token or token not in raised.value.message


@pytest.mark.parametrize("entry", ["HOST", "http://HOST", "https://HOST/v1/"])
def test_entry_may_have_the_form_of_docker(serve, tmp_path, entry):
    def answer(_path, login):
        return (200, {}, b"content") if login else (401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")

    host, _ = serve(answer)
    logins = write_logins(tmp_path / "logins", entry.replace("HOST", host))
    assert content_of(host, AtHost(host, logins)) == b"content"
