"""HTTPS on a real agent: its certificate, who is let down by a wrong one, and what a handshake may take."""

import shutil
import signal
import socket
import ssl
import threading
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from edgeopt.errors import InputError, MissingError, UsageError
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent
from edgeopt.fleet.monitor import monitor
from edgeopt.fleet.pairing import address_of
from edgeopt.fleet.request import FleetWatchRequest
from edgeopt.fleet.transport import connect, normal_fingerprint, open_tls, seen_fingerprint
from edgeopt.measure.trials.served import Served
from edgeopt_agent import certificate, tokens
from edgeopt_agent.certificate import LiveCertificate, uses_tls
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.http import tls_listener
from edgeopt_agent.settings import Settings

OTHER = "SHA256:" + "0" * 64


@pytest.fixture
def secured(start_agent):
    """An agent that speaks TLS and asks for tokens."""
    agent = start_agent(tls="on")
    agent.token = tokens.add(agent.data_dir, "one", "deploy").token
    agent.fingerprint = certificate.present(agent.data_dir).fingerprint
    return agent


def test_deployments_telemetry_traffic_and_measurements_go_over_tls(secured, old_bundle, monkeypatch):
    agent = Agent(secured.address)
    assert agent.url.startswith("https://")
    assert agent.deploy(old_bundle, ignore).state == "COMMITTED"
    told = []
    request = FleetWatchRequest(agent.url, 1.0, 20.0, token=secured.token, fingerprint=secured.fingerprint)
    sent = monitor(request, told.append).sent
    assert (sent.failures, sent.requests > 0) == (0, True)
    assert told
    monkeypatch.setenv("EDGEOPT_TOKEN", secured.token)
    monkeypatch.setenv("EDGEOPT_FINGERPRINT", secured.fingerprint)
    served = Served(agent.url)
    assert served.run({"x": np.zeros((1, 4), np.float32)})["y"].shape == (1, 2)
    served.close()
    monkeypatch.setenv("EDGEOPT_TOKEN", "wrong")
    with pytest.raises(InputError, match="unknown to this agent"):
        Served(agent.url)


def test_a_wrong_fingerprint_is_an_error_that_names_both(secured):
    address = address_of(f"https://127.0.0.1:{secured.port}", secured.token, OTHER)
    for ask in (Agent(address).status, lambda: monitor(watch_of(address), ignore)):
        with pytest.raises(InputError) as raised:
            ask()
        assert raised.value.code == "wrong-fingerprint"
        assert OTHER in raised.value.message
        assert secured.fingerprint in raised.value.message


def watch_of(address):
    return FleetWatchRequest(address.url, 5.0, token=address.token, fingerprint=address.fingerprint)


def test_a_certificate_that_nobody_vouches_for_is_shown_with_the_way_to_check_it(secured):
    with pytest.raises(InputError) as raised:
        Agent(f"https://127.0.0.1:{secured.port}").status()
    assert raised.value.code == "unknown-certificate"
    assert secured.fingerprint in raised.value.message
    assert "edgeopt-agent fingerprint" in raised.value.hint
    assert f"--fingerprint {secured.fingerprint}" in raised.value.hint


def test_the_token_goes_to_nobody_with_another_certificate(tmp_path):
    context = LiveCertificate(Settings(data_dir=tmp_path), DataDir(tmp_path)).context()
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            with closing(context.wrap_socket(listener.accept()[0], server_side=True)) as opened:
                heard.append(opened.recv(1000))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(InputError):
            Agent(address_of(f"https://127.0.0.1:{listener.getsockname()[1]}", "secret", OTHER)).status()
        thread.join(60)
    assert heard == [b""]


def test_plain_http_and_tls_that_meet_are_told(secured, idle_agent):
    with pytest.raises(MissingError, match="ended the connection") as raised:
        Agent(f"http://127.0.0.1:{secured.port}").status()
    assert "--url https://" in raised.value.hint
    with pytest.raises(MissingError, match="does not use TLS"):
        Agent(f"https://127.0.0.1:{idle_agent.port}").status()


def test_a_renewed_certificate_serves_new_connections_and_leaves_the_open_ones(secured):
    before = secured.fingerprint
    with closing(connect(secured.address, 30.0)) as opened:
        opened.request("GET", "/api/v1/status", headers=secured.address.headers)
        opened.getresponse().read()
        secured.fingerprint = certificate.renew(secured.data_dir).fingerprint
        assert secured.fingerprint != before
        assert secured.status()["state"] == "empty"
        opened.request("GET", "/api/v1/status", headers=secured.address.headers)
        assert opened.getresponse().status == 200


def test_given_files_are_read_again_at_sighup(start_agent, tmp_path):
    certificate.renew(tmp_path / "one")
    certificate.renew(tmp_path / "two")
    one, two = (DataDir(tmp_path / name).certificate for name in ("one", "two"))
    given = tmp_path / "given.pem"
    shutil.copyfile(one, given)
    agent = start_agent(tls_cert=str(given), tls_key=str(given))
    agent.fingerprint = certificate.read(one).fingerprint
    assert certificate.present(agent.data_dir).fingerprint == agent.fingerprint
    agent.status()
    with pytest.raises(UsageError, match="which it did not make"):
        certificate.renew(agent.data_dir)
    given.write_bytes(b"half a file")
    agent.process.send_signal(signal.SIGHUP)
    agent.status()
    shutil.copyfile(two, given)
    agent.process.send_signal(signal.SIGHUP)
    new = certificate.read(two).fingerprint
    agent.until(lambda: seen_fingerprint(agent.address, 30.0) == new or keep(agent, new), "the new certificate")


def keep(agent, new):
    """Goes on asking with whichever certificate answers."""
    agent.fingerprint = seen_fingerprint(agent.address, 30.0)
    return agent.fingerprint == new


def test_the_agents_own_certificate(tmp_path):
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    made = certificate.renew(tmp_path)
    file = DataDir(tmp_path).certificate
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    found = x509.load_pem_x509_certificate(file.read_bytes()[file.read_bytes().index(b"-----BEGIN CERT") :])
    assert isinstance(found.public_key().curve, ec.SECP256R1)
    assert found.not_valid_after_utc - datetime.now(UTC) > timedelta(days=3649)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {socket.gethostname(), "localhost"} <= set(names.get_values_for_type(x509.DNSName))
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    colons = ":".join(made.fingerprint[7:][k : k + 2].upper() for k in range(0, 64, 2))
    assert normal_fingerprint(f"sha256 Fingerprint={colons}".replace(" Fingerprint", "")) == made.fingerprint


@pytest.mark.parametrize(
    ("host", "tls", "given", "uses"),
    [
        ("127.0.0.1", "auto", False, False),
        ("0.0.0.0", "auto", False, True),  # noqa: S104 - that is the point
        ("0.0.0.0", "off", False, False),  # noqa: S104
        ("localhost", "on", False, True),
        ("::1", "auto", True, True),
    ],
)
def test_tls_is_the_default_where_others_can_reach_the_agent(tmp_path, host, tls, given, uses):
    file = tmp_path / "c.pem" if given else None
    assert uses_tls(Settings(data_dir=tmp_path, host=host, tls=tls, tls_cert=file, tls_key=file)) is uses


@pytest.mark.parametrize("text", ["", "SHA256:", "0" * 63, "g" * 64, "MD5:" + "0" * 32])
def test_what_is_no_fingerprint(text):
    with pytest.raises(UsageError, match="not the fingerprint"):
        normal_fingerprint(text)


@pytest.fixture
def shaking(serving, tmp_path):
    live = LiveCertificate(Settings(data_dir=tmp_path / "own"), DataDir(tmp_path / "own"))
    assert live.context().minimum_version == ssl.TLSVersion.TLSv1_2
    server = serving(tls_context=live.context)
    return address_of(f"https://127.0.0.1:{server.port}", "", live.fingerprint)


def idle(address):
    return socket.create_connection((address.host, address.port), timeout=60)


def live(address):
    with closing(connect(address, 30.0)) as opened:
        opened.request("GET", "/v2/health/live")
        return opened.getresponse().status


def test_a_handshake_that_does_not_come_is_given_up(shaking, monkeypatch):
    monkeypatch.setattr(tls_listener, "HANDSHAKE_TIMEOUT_S", 0.2)
    with idle(shaking) as silent:
        assert silent.recv(1) == b""
    monkeypatch.undo()
    assert live(shaking) == 200


def test_handshakes_that_do_not_come_lock_nobody_out(shaking, monkeypatch):
    monkeypatch.setattr(tls_listener, "MAX_OF_AN_ADDRESS", 2)
    with ExitStack() as opened:
        silent = [opened.enter_context(idle(shaking)) for _ in range(4)]
        for gone in silent[:2]:
            assert gone.recv(1) == b"", "the oldest give way"
        assert live(shaking) == 200


def test_a_head_that_does_not_come_after_the_handshake_is_given_up(shaking, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.http.guard.HEAD_TIMEOUT_S", 0.2)
    with open_tls(shaking, 60.0) as silent:
        assert silent.recv(1) == b""
