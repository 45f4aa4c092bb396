"""Access tokens on a real agent: what each role may do, and what those without one hear."""

import json
import shutil
import socket
from contextlib import closing
from http.client import HTTPConnection

import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from edgeopt.bundle.sign import new_key
from edgeopt.fleet.address import parse
from edgeopt.fleet.transport import ask
from edgeopt_agent import tokens, trusted_keys
from edgeopt_agent.http.access import MAX_FAILURES, WINDOW_S, Access

VIEWED = (
    ("GET", "/api/v1/status"),
    ("GET", "/api/v1/device"),
    ("GET", "/api/v1/releases"),
    ("GET", "/api/v1/events"),
    ("GET", "/v2"),
    ("GET", "/v2/health/live"),
    ("GET", "/v2/models/null"),
    ("POST", "/v2/repository/index"),
    ("GET", "/metrics"),
    ("GET", "/v1/models"),
    ("GET", "/nowhere"),
)
DEPLOYED = (
    ("POST", "/api/v1/deploy"),
    ("POST", "/api/v1/rollback"),
    ("POST", "/api/v1/cancel"),
    ("POST", "/api/v1/remove"),
    ("POST", "/v2/nowhere"),
    ("DELETE", "/api/v1/status"),
)
ROUTES = (
    *((*route, "view") for route in VIEWED),
    ("POST", "/v2/models/null/infer", "infer"),
    ("POST", "/v1/completions", "infer"),
    ("POST", "/v1/chat/completions", "infer"),
    ("POST", "/v1/audio/transcriptions", "infer"),
    ("POST", "/v1/audio/translations", "infer"),
    *((*route, "deploy") for route in DEPLOYED),
)
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what tokens are for


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def status_of(agent, method, path, headers=None):
    """The status of one answer, whatever its body is."""
    try:
        return agent.ask(method, path, headers=headers)[0]
    except json.JSONDecodeError:  # the figures of /metrics
        return 200


def read_to_the_end(viewer):
    while True:
        viewer.recv(10)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("guarded") / "agent"


@pytest.fixture(scope="module")
def made(data_dir):
    return {role: tokens.add(data_dir, f"for-{role}", role).token for role in tokens.ROLES}


@pytest.fixture(scope="module")
def guarded(data_dir, made, tmp_path_factory):
    """An agent that other devices can reach."""
    from tests.agent.conftest import Running

    key = tmp_path_factory.mktemp("key") / "key"
    new_key(key)
    trusted_keys.add(data_dir, key.with_suffix(".pub"))
    running = Running(data_dir, host=EVERYWHERE, tls="off")
    yield running
    running.close()


@pytest.mark.parametrize(("method", "path", "needed"), ROUTES)
def test_each_route_asks_for_its_role(guarded, made, method, path, needed):
    status, headers, answer = guarded.ask(method, path)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    error = answer["error"]
    said = error if path.startswith("/v2") else f"{error['message']} {error.get('hint', '')}"
    assert "requires an access token" in said
    assert "edgeopt-agent token add" in said
    for role, token in made.items():
        refused = status_of(guarded, method, path, bearer(token)) in {401, 403}
        assert refused == (tokens.ROLES.index(role) < tokens.ROLES.index(needed)), role


def own_address():
    """An address of this machine that is none of loopback."""
    found = [each for all_ in psutil.net_if_addrs().values() for each in all_ if each.family == socket.AF_INET]
    return next((each.address for each in found if not each.address.startswith("127.")), "")


@pytest.mark.skipif(not own_address(), reason="this machine has the loopback interface only")
def test_only_clients_on_the_device_are_told_where_its_folder_is(guarded, made, data_dir):
    def said(host, path, headers):
        with closing(HTTPConnection(host, guarded.port, timeout=30)) as connection:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().read().decode()

    asked = (
        ("/api/v1/status", {}, "token add NAME --role deploy"),
        ("/v2", {}, "token add NAME --role deploy"),
        ("/api/v1/status", bearer("wrong"), "token add NAME --role deploy"),
        ("/api/v1/status?model=none", bearer(made["view"]), "edgeopt-agent status"),
        ("/v2/models/none", bearer(made["view"]), ""),
    )
    for path, headers, hint in asked:
        here, elsewhere = (said(host, path, headers) for host in ("127.0.0.1", own_address()))
        assert str(data_dir) not in elsewhere, path
        assert hint in elsewhere
        assert (f"--data-dir {data_dir}" in here) == ("edgeopt-agent" in elsewhere), path


def test_too_low_a_role_is_told_in_a_sentence(guarded, made):
    status, _, answer = guarded.ask("POST", "/api/v1/rollback", headers=bearer(made["infer"]))
    assert (status, answer["error"]["code"]) == (403, "wrong-role")
    assert "'for-infer' has the role 'infer'; this needs the role 'deploy'" in answer["error"]["message"]
    assert "--role deploy" in answer["error"]["hint"]


def test_telemetry_asks_for_a_token_too(guarded, made):
    url = f"ws://127.0.0.1:{guarded.port}/api/v1/telemetry"
    with pytest.raises(InvalidStatus) as refused, connect(url):
        pass
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body)["error"]["code"] == "no-token"
    with connect(url, additional_headers=bearer(made["view"])) as viewer:
        assert viewer.recv(10)


def test_no_token_stays_a_refusal_when_the_last_one_is_removed(start_agent, tmp_path):
    data_dir = tmp_path / "agent"
    new_key(tmp_path / "key")
    trusted_keys.add(data_dir, tmp_path / "key.pub")
    token = tokens.add(data_dir, "one", "deploy").token
    agent = start_agent(host=EVERYWHERE, tls="off")
    assert agent.ask("GET", "/api/v1/status", headers=bearer(token))[0] == 200
    tokens.remove(data_dir, "one")
    assert agent.ask("GET", "/api/v1/status", headers=bearer(token))[0] == 401
    assert agent.ask("GET", "/api/v1/status")[0] == 401


def test_on_loopback_the_first_token_closes_the_agent_and_the_last_opens_it(start_agent, tmp_path):
    agent = start_agent()
    assert agent.ask("GET", "/api/v1/status")[0] == 200
    token = tokens.add(tmp_path / "agent", "one", "view").token
    assert agent.ask("GET", "/api/v1/status")[0] == 401
    assert agent.ask("GET", "/api/v1/status", headers=bearer(token))[0] == 200
    tokens.remove(tmp_path / "agent", "one")
    assert agent.ask("GET", "/api/v1/status")[0] == 200


def test_tokens_that_cannot_be_read_let_nobody_in(start_agent, tmp_path):
    agent = start_agent()
    folder = tmp_path / "agent" / "tokens"
    token = tokens.add(tmp_path / "agent", "one", "view").token
    assert agent.ask("GET", "/api/v1/status", headers=bearer(token))[0] == 200
    (folder / "one.json").write_text("{")
    (folder / "two.json").write_text("{")
    assert agent.ask("GET", "/api/v1/status", headers=bearer(token))[0] == 401
    shutil.rmtree(folder)
    assert agent.ask("GET", "/api/v1/status")[0] == 401


def test_a_viewer_whose_token_is_removed_is_sent_away(start_agent, tmp_path):
    token = tokens.add(tmp_path / "agent", "one", "view").token
    tokens.add(tmp_path / "agent", "two", "view")
    agent = start_agent()
    url = f"ws://127.0.0.1:{agent.port}/api/v1/telemetry"
    with connect(url, additional_headers=bearer(token)) as viewer:
        assert viewer.recv(10)
        tokens.remove(tmp_path / "agent", "one")
        viewer.send("renew")
        with pytest.raises(ConnectionClosed) as closed:
            read_to_the_end(viewer)
        assert closed.value.rcvd.code == 1008


@pytest.mark.parametrize("wrong", ["Bearer ", "Bearer x", "Basic {}", "Bearer {} {}", "{}", "Bearer \xff"])
def test_what_is_no_token_of_the_agent_is_refused(start_agent, tmp_path, wrong):
    token = tokens.add(tmp_path / "agent", "one", "view").token
    agent = start_agent()
    headers = {"Authorization": wrong.format(token, token).encode("latin-1")}
    status, _, answer = agent.ask("GET", "/api/v1/status", headers=headers)
    assert (status, answer["error"]["code"]) == (401, "wrong-token")


def test_who_guesses_has_to_wait_and_who_was_let_in_before_has_not(start_agent, tmp_path):
    used = tokens.add(tmp_path / "agent", "used", "view").token
    unused = tokens.add(tmp_path / "agent", "unused", "view").token
    agent = start_agent()
    assert agent.ask("GET", "/api/v1/status", headers=bearer(used))[0] == 200
    got = [agent.ask("GET", "/api/v1/status", headers=bearer(f"guess{k}"))[0] for k in range(MAX_FAILURES)]
    assert got == [401] * MAX_FAILURES
    status, headers, answer = agent.ask("GET", "/api/v1/status", headers=bearer("guess"))
    assert (status, answer["error"]["code"]) == (429, "too-many-attempts")
    assert 0 < int(headers["retry-after"]) <= WINDOW_S
    assert agent.ask("GET", "/api/v1/status", headers=bearer(unused))[0] == 429
    assert agent.ask("GET", "/api/v1/status", headers=bearer(used))[0] == 200


def test_the_wait_is_by_address_and_ends(tmp_path):
    token = tokens.add(tmp_path, "one", "view").token
    now = [0.0]
    access = Access(EVERYWHERE, tmp_path / "tokens", lambda: now[0])

    def status(address, sent):
        headers = [(b"authorization", f"Bearer {sent}".encode())]
        client = (address, 1)
        scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": headers, "client": client}
        refused = access.refusal(scope)
        return refused.status if refused else 200

    for _ in range(MAX_FAILURES):
        status("::ffff:192.0.2.1", "guess")
        status("2001:db8::1", "guess")
    assert status("192.0.2.1", token) == 429
    assert status("::ffff:192.0.2.2", token) == 200
    assert status("2001:db8::2", token) == 429
    assert status("2001:db8:0:1::1", token) == 200
    now[0] = WINDOW_S
    assert status("192.0.2.1", token) == 200


def test_a_large_body_without_the_right_token_still_gets_its_answer(guarded):
    address = parse(f"127.0.0.1:{guarded.port}")
    body = (bytes(1 << 20) for _ in range(64))
    length = {"Content-Length": str(64 << 20)}
    reply = ask(address, "POST", "/api/v1/deploy", 30.0, body, length)
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (401, "no-token")
