"""Pairing with a real agent: a code, a token, and what someone in between gets."""

import asyncio
import json
import socket
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from edgeopt.errors import ConstraintError, InputError, UsageError, VerificationError
from edgeopt.fleet.client import Agent
from edgeopt.fleet.pairing import address_of, key_of, known_pairings, pair, proof_of
from edgeopt.fleet.request import PairRequest
from edgeopt_agent import certificate, pairing, tokens
from edgeopt_agent.certificate import LiveCertificate
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.http.pairing import PairingRoute
from edgeopt_agent.settings import Settings


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def agent(start_agent):
    agent = start_agent(tls="on")
    agent.fingerprint = certificate.present(agent.data_dir).fingerprint
    return agent


def url(agent):
    return f"https://127.0.0.1:{agent.port}"


def code(agent, name="laptop"):
    return pairing.new_code(agent.data_dir, name, "deploy").code


def test_a_code_gives_a_token_and_the_fingerprint_once(agent, config):
    shown = code(agent)
    assert shown not in (agent.data_dir / "pairing.json").read_text()
    assert (agent.data_dir / "pairing.json").stat().st_mode & 0o777 == 0o600
    paired = pair(PairRequest(url(agent), shown.lower().replace("-", " ")))
    assert (paired.name, paired.role, paired.fingerprint) == ("laptop", "deploy", agent.fingerprint)
    assert (config / "edgeopt" / "agents.json").stat().st_mode & 0o777 == 0o600
    assert Agent(address_of(url(agent))).status().state == "empty"
    assert Agent(address_of(f"127.0.0.1:{agent.port}")).address.token == "", "another address, another agent"
    other = address_of(url(agent), "another", "ab" * 32)
    assert (other.token, other.fingerprint) == ("another", "SHA256:" + "ab" * 32), "what is given wins"
    with pytest.raises(ConstraintError, match="No pairing code is pending"):
        pair(PairRequest(url(agent), shown))
    assert agent.ask("GET", "/api/v1/status")[0] == 401


def test_five_wrong_tries_end_the_code(agent):
    shown = code(agent)
    wrong = "AAAA-AAAA-AAAA"
    for left in (4, 3, 2, 1):
        with pytest.raises(VerificationError, match=f"{left} more tries"):
            pair(PairRequest(url(agent), wrong))
    with pytest.raises(VerificationError, match="has expired"):
        pair(PairRequest(url(agent), wrong))
    with pytest.raises(ConstraintError):
        pair(PairRequest(url(agent), shown))
    assert tokens.tokens_of(agent.data_dir).tokens == ()
    assert known_pairings() == {}


def test_a_code_ends_with_its_time(agent, monkeypatch):
    monkeypatch.setattr(pairing, "VALID_S", -1.0)
    shown = code(agent)
    with pytest.raises(ConstraintError):
        pair(PairRequest(url(agent), shown))


def between(agent, answer):
    """Someone with a certificate of their own who passes on what a client sends, and answers as they like."""
    folder = agent.data_dir.parent / "between"
    context = LiveCertificate(Settings(data_dir=folder), DataDir(folder)).context()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        for _ in range(2):  # the look at the certificate, and the proof
            with (
                closing(listener.accept()[0]) as raw,
                closing(context.wrap_socket(raw, server_side=True)) as opened,
            ):
                sent = b""
                while piece := opened.recv(65536):
                    sent += piece
                    if b"proof" in sent:
                        status, document = answer(sent.partition(b"\r\n\r\n")[2])
                        body = json.dumps(document).encode()
                        opened.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
                        break

    thread = threading.Thread(target=serve)
    thread.start()
    return listener, thread


def chunks_joined(body):
    return body[body.index(b"{") : body.rindex(b"}") + 1]


def test_someone_in_between_gets_no_token(agent):
    shown, answers = code(agent), []

    def pass_on(body):
        status, _, document = agent.ask("POST", "/api/v1/pair", chunks_joined(body))
        answers.append((status, document))
        return status, document

    listener, thread = between(agent, pass_on)
    with listener, pytest.raises(VerificationError, match="someone intercepts the connection"):
        pair(PairRequest(f"https://127.0.0.1:{listener.getsockname()[1]}", shown))
    thread.join(60)
    assert [status for status, _ in answers] == [403]
    assert "token" not in answers[0][1]
    assert tokens.tokens_of(agent.data_dir).tokens == ()
    assert pair(PairRequest(url(agent), shown)).name == "laptop"


def test_a_pretended_agent_is_not_kept(agent):
    def pretend(body):
        nonce = json.loads(chunks_joined(body))["nonce"]
        proof = proof_of("agent", key_of("AAAA-AAAA-AAAA"), agent.fingerprint, nonce)
        return 200, {"proof": proof, "name": "laptop", "role": "deploy", "token": "bait"}

    listener, thread = between(agent, pretend)
    with listener, pytest.raises(InputError, match="does not know the code"):
        pair(PairRequest(f"https://127.0.0.1:{listener.getsockname()[1]}", code(agent)))
    thread.join(60)
    assert known_pairings() == {}


@pytest.mark.parametrize("text", ["", "AAAA-AAAA", "AAAA-AAAA-AAA0", "AAAA-AAAA-AAAA-AAAA"])
def test_what_is_no_code_is_told_before_it_is_sent(text):
    with pytest.raises(UsageError, match="not a pairing code"):
        key_of(text)


@pytest.mark.parametrize("body", [b"", b"{}", b"x" * 5000, b'{"nonce": 1, "proof": 2}'])
def test_what_is_no_proof_is_refused_and_counts_for_nothing(agent, body):
    code(agent)
    status, _, answer = agent.ask("POST", "/api/v1/pair", body)
    assert (status, answer["error"]["code"]) == (400, "bad-proof")


def test_an_agent_for_others_starts_with_a_code_in_place_of_a_token(start_agent, tmp_path):
    from edgeopt.bundle.sign import new_key
    from edgeopt_agent import trusted_keys

    folder = tmp_path / "reached"
    new_key(tmp_path / "key")
    trusted_keys.add(folder, tmp_path / "key.pub")
    shown = pairing.new_code(folder, "laptop", "deploy").code
    running = start_agent(folder, host="0.0.0.0")  # noqa: S104 - that is the point
    assert pair(PairRequest(url(running), shown)).role == "deploy"
    assert Agent(address_of(url(running))).status().state == "empty"


def test_without_tls_nobody_pairs_with_an_agent_for_others(start_agent, tmp_path):
    from edgeopt.bundle.sign import new_key
    from edgeopt_agent import trusted_keys

    folder = tmp_path / "reached"
    new_key(tmp_path / "key")
    trusted_keys.add(folder, tmp_path / "key.pub")
    shown = pairing.new_code(folder, "laptop", "deploy").code
    running = start_agent(folder, host="0.0.0.0", tls="off")  # noqa: S104 - that is the point
    with pytest.raises(ConstraintError, match="Pairing needs TLS"):
        pair(PairRequest(f"http://127.0.0.1:{running.port}", shown))


async def never():
    await asyncio.Event().wait()


async def gone():
    return {"type": "http.disconnect"}


@pytest.mark.parametrize(("receive", "status", "says"), [(never, 408, "in time"), (gone, 400, "connection ended")])
def test_a_request_that_does_not_come_whole_is_refused(tmp_path, receive, status, says):
    site = SimpleNamespace(settings=Settings(data_dir=tmp_path, body_timeout_s=0.01))
    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(RefusedError, match=says) as caught:
        asyncio.run(PairingRoute(site, lambda: "SHA256:x")(request))
    assert caught.value.status == status
