"""TLS, certificates of devices, passwords, and what the broker does not allow."""

import datetime as dt
import re
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from edgeopt.fleet.mqtt_topics import Topics
from tests.broker import Broker

PAGE = Path(__file__).parents[3] / "docs" / "fleet.md"
DOCUMENTED = re.search(r"^# mosquitto.conf.*?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
NOW = dt.datetime.now(dt.UTC)


def write_pair(folder, name, issuer=None):
    """A key and a certificate in PEM files; the certificate with its key, for issuing others."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    ca_certificate, ca_key = issuer or (None, key)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if ca_certificate is None else ca_certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - dt.timedelta(days=1))
        .not_valid_after(NOW + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    (folder / f"{name}.crt").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return built, key


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    issuer = write_pair(folder, "ca")
    for name in ("broker", "device-1", "client"):
        write_pair(folder, name, issuer)
    write_pair(folder, "foreign")
    return folder


@pytest.fixture(scope="module")
def secure_broker(mosquitto, pairs, tmp_path_factory):
    """Takes clients with a certificate only, with the rules of the documentation."""
    folder = tmp_path_factory.mktemp("secure")
    rules = folder / "acl"
    rules.write_text(DOCUMENTED[1].replace("user operator", "user client"))
    rules.chmod(0o600)  # else Mosquitto warns
    running = Broker(
        folder,
        f"cafile {pairs}/ca.crt\ncertfile {pairs}/broker.crt\nkeyfile {pairs}/broker.key\n"
        "require_certificate true\nuse_identity_as_username true",
        f"allow_anonymous false\nacl_file {rules}",
    )
    yield running
    running.stop()


def table(pairs, name, device):
    return {
        "ca_file": str(pairs / "ca.crt"), "cert_file": str(pairs / f"{name}.crt"),
        "key_file": str(pairs / f"{name}.key"), "device": device,
    }  # fmt: skip


def context_of(pairs, name):
    context = ssl.create_default_context(cafile=pairs / "ca.crt")
    context.check_hostname = False
    context.load_cert_chain(pairs / f"{name}.crt", pairs / f"{name}.key")
    return context


@pytest.fixture
def topics():
    """The broker knows this device by its name."""
    return Topics("default", "device-1")


def test_device_is_known_by_its_certificate(secure_broker, pairs, start_device, make_client, topics):
    client = make_client(secure_broker, topics, tls=context_of(pairs, "client"))
    start_device(f"mqtts://localhost:{secure_broker.port}", mqtt=table(pairs, "device-1", "device-1"))
    client.presence("online")
    assert client.ask("view", {"command": "status"})["status"] == 200


def test_agent_serves_on_without_a_broker_that_takes_it(secure_broker, pairs, start_device, make_client):
    """The device does not know the authority of the broker's certificate."""
    topics = Topics("default", "device-2")
    client = make_client(secure_broker, topics, tls=context_of(pairs, "client"))
    url = f"mqtts://localhost:{secure_broker.port}"
    unknown = {**table(pairs, "device-1", "device-2"), "ca_file": str(pairs / "foreign.crt")}
    agent = start_device(url, mqtt=unknown, log_level="info")
    assert agent.status()["state"] == "empty"
    agent.stop()
    assert client.of(topics.status) == []
