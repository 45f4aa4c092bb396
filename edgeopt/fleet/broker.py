"""The address of an MQTT broker, and what it takes to connect: TLS and the password."""

import ipaddress
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from edgeopt.errors import printable

_DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}
_URL = re.compile(r"mqtts?://[^\s/?#@]+/?")
_LONGEST_PASSWORD_BYTES = 4096
_NO_ENTRY = (134, 135)
"""Reason codes of MQTT 5: bad user name or password, and not authorized, which Mosquitto gives for both."""


@dataclass(frozen=True, slots=True)
class Broker:
    host: str
    port: int
    tls: bool

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"


def read_broker(url: str) -> Broker:
    """Raises ValueError for what is not mqtts://HOST:PORT or mqtt://HOST:PORT."""
    parts = urlsplit(url)
    if _URL.fullmatch(url) is None or not parts.hostname:
        raise ValueError(f"'{url}' is not the address of a broker")
    return Broker(parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], parts.scheme == "mqtts")


def tls_context(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """Raises OSError or ValueError for files that are no use."""
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file, password=lambda: "")
    return context


def read_password(file: Path | None) -> str | None:
    if file is None:
        return None
    with file.open("rb") as opened:
        return opened.read(_LONGEST_PASSWORD_BYTES).decode().rstrip("\r\n")


def connect_problem(error: BaseException) -> str:
    """Returns the reason that a connection failed, in words."""
    code = getattr(error, "rc", None)
    if getattr(code, "value", code) in _NO_ENTRY:
        return "the broker refuses this user name, password or certificate"
    return printable(str(error))
