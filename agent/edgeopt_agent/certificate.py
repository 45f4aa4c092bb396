"""The certificate of the agent: one of its own in `tls/`, made at the first start, or files that someone gave."""

import contextlib
import ipaddress
import logging
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError, UsageError, error_text
from edgeopt.fleet.transport import fingerprint_of
from edgeopt_agent.data_dir import DataDir, make_private, write_whole
from edgeopt_agent.settings import Settings, on_data_dir
from edgeopt_agent.trust import is_loopback

YEARS = 10
_PEM_END = "-----END CERTIFICATE-----"
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1"}  # noqa: S104 - a name for all addresses
log = logging.getLogger(__name__)


class Certificate(msgspec.Struct, frozen=True):
    file: str
    fingerprint: str


class Listening(msgspec.Struct, frozen=True):
    """The address of a running agent, for the commands on its own device."""

    port: int
    certificate: str = ""
    """The file; empty where it speaks plain HTTP."""
    host: str = "127.0.0.1"
    """Address at which this device reaches it."""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


def uses_tls(settings: Settings) -> bool:
    if settings.tls == "auto":
        return settings.tls_cert is not None or not is_loopback(settings.host)
    return settings.tls == "on"


class LiveCertificate:
    """The TLS context of the server, which takes a replaced certificate without closing connections."""

    def __init__(self, settings: Settings, data: DataDir) -> None:
        """Makes a certificate if there is none yet; raises InputError if the existing one cannot be used."""
        self._own = settings.tls_cert is None
        if settings.tls_cert is None:
            if not data.certificate.exists():
                renew(data.root)
            self.file, self._key = data.certificate, data.certificate
        else:
            self.file, self._key = settings.tls_cert, settings.tls_key or settings.tls_cert
        self._changed_ns = self._stamp()
        self._context = _context(self.file, self._key, data.root)
        self._pem = self._key.read_bytes(), self.file.read_bytes()

    @property
    def fingerprint(self) -> str:
        return read(self.file).fingerprint

    def context(self) -> ssl.SSLContext:
        """Returns the context for a new connection; reads the agent's own certificate again if it was renewed."""
        if self._own and self._stamp() != self._changed_ns:
            self.reload()
        return self._context

    def pem(self) -> tuple[bytes, bytes]:
        """Returns key and certificates of the context, for libraries with TLS of their own."""
        self.context()
        return self._pem

    def reload(self) -> None:
        """Reads the files again; if they cannot be used, keeps the present certificate."""
        self._changed_ns = self._stamp()
        try:
            # Tried on a context of its own first: a pair that does not fit would spoil the live one.
            _context(self.file, self._key, self.file.parent)
            self._context.load_cert_chain(self.file, self._key)
            self._pem = self._key.read_bytes(), self.file.read_bytes()
        except (OSError, InputError) as error:
            log.error("Keeping the present certificate: %s", error)
            return
        log.info("The certificate was read again: %s", self.fingerprint)

    def _stamp(self) -> int:
        try:
            return self.file.stat().st_mtime_ns
        except OSError:
            return 0


def read(file: Path, data_dir: Path | None = None) -> Certificate:
    """Returns the first certificate in a PEM file; raises InputError if it has none."""
    renewing = "edgeopt-agent renew-certificate"
    if data_dir is not None:
        renewing = on_data_dir(renewing, data_dir)
    try:
        first, end, _ = file.read_text(encoding="ascii", errors="replace").partition(_PEM_END)
        der = ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN CERTIFICATE") :] + end)
    except (OSError, ValueError) as error:
        raise InputError(
            f"The certificate '{file}' cannot be read: {error_text(error)}.",
            f"Check --tls-cert; to renew the agent's own: {renewing}",
        ) from None
    return Certificate(str(file), fingerprint_of(der))


def present(data_dir: Path) -> Certificate:
    """Returns the certificate that the agent on this data folder uses, or will use."""
    found = listening(data_dir)
    own = DataDir(data_dir).certificate
    if found is not None and found.certificate:
        return read(Path(found.certificate), data_dir)
    if not own.exists():
        raise InputError(
            f"There is no certificate in {data_dir} yet.",
            f"The agent makes one when it first speaks TLS: {on_data_dir('edgeopt-agent run --tls on', data_dir)}",
        )
    return read(own, data_dir)


def renew(data_dir: Path) -> Certificate:
    """Makes a new key and certificate; a running agent uses them for the next connection."""
    data = DataDir(data_dir)
    found = listening(data_dir)
    if found is not None and found.certificate and Path(found.certificate) != data.certificate:
        raise UsageError(
            f"The agent uses the certificate '{found.certificate}', which it did not make.",
            "Replace the files, then send the agent SIGHUP.",
        )
    for folder in (data.root, data.certificate.parent):
        make_private(folder)
    write_whole(data.certificate, _make())
    return read(data.certificate)


def listening(data_dir: Path) -> Listening | None:
    """Returns the address of the agent that runs on this data folder, or ran last; None if it cannot be read."""
    try:
        return msgspec.json.decode((data_dir / "listening.json").read_bytes(), type=thread_safe(Listening))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _make() -> str:
    """Returns key and certificate in one text, so that they are replaced in one step."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname() or "edgeopt-agent"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.IPAddress(each) for each in _addresses()]
    for each in dict.fromkeys((host, "localhost")):
        with contextlib.suppress(ValueError):  # a name that is not ASCII cannot be in a certificate
            names.append(x509.DNSName(each))
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * YEARS + YEARS // 4))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret.decode() + certificate.public_bytes(serialization.Encoding.PEM).decode()


def _addresses() -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    import psutil

    found = dict.fromkeys(("127.0.0.1", "::1"))
    for interface in psutil.net_if_addrs().values():
        for each in interface:
            if each.family in {socket.AF_INET, socket.AF_INET6}:
                found[each.address.partition("%")[0]] = None
    return [ipaddress.ip_address(each) for each in found]


def _context(certificate: Path, key: Path, data_dir: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    read(certificate, data_dir)
    try:
        # Nobody is there to type a password.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except OSError as error:
        renewing = on_data_dir("edgeopt-agent renew-certificate", data_dir)
        raise InputError(
            f"The certificate '{certificate}' and the key '{key}' cannot be used: {error_text(error)}.",
            f"Check --tls-cert and --tls-key; to renew the agent's own: {renewing}",
        ) from None
    return context


def write_listening(data: DataDir, host: str, port: int, certificate: Path | None) -> None:
    """Lets the commands on this device know how to reach the agent."""
    reached = _ANY.get(host, host.strip("[]"))
    report = Listening(port, "" if certificate is None else str(certificate.absolute()), reached)
    try:
        write_whole(data.root / "listening.json", msgspec.json.encode(report).decode())
    except Exception as error:  # noqa: BLE001 - a disk that takes nothing is no reason not to serve
        log.warning("Commands on this device may need --url and --fingerprint: %s", error)
