"""Whom the agent trusts: public keys in `trust/`, each a file of its own."""

import ipaddress
import os
import time
from pathlib import Path
from typing import Literal

from edgeopt.errors import EdgeoptError, UsageError
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.settings import on_data_dir
from edgeopt_agent.tokens import token_files

SUFFIX = ".pub"
# Two changes within one tick of the disk's clock leave the same time on the folder.
SETTLED_NS = 1_000_000_000
Trust = Literal["unsigned", "signed"]


def trusted_files(folder: Path) -> list[Path]:
    """Returns the files of trusted keys; raises OSError if the folder is unreadable, which is not "no keys"."""
    return sorted(file for file in folder.iterdir() if file.suffix == SUFFIX) if folder.exists() else []


def trust_of(folder: Path) -> Trust:
    return "signed" if trusted_files(folder) else "unsigned"


class TrustWatch:
    """The trust that every answer names: whether only signed bundles are taken; read again when keys change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = str(folder)
        self._changed_ns = -1
        self._found: Trust = "unsigned"

    def __call__(self) -> Trust:
        try:
            changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - half the time, at each answer
            if changed_ns != self._changed_ns or time.time_ns() - changed_ns < SETTLED_NS:
                self._found = trust_of(self._folder)
                self._changed_ns = changed_ns
        except OSError:
            pass  # the folder was taken away: no reason not to answer
        return self._found


def check_signature(bundle: Path, folder: Path) -> str:
    """Returns the id of the trusted key that signed the bundle; empty if no key is trusted; raises BundleError."""
    files = trusted_files(folder)
    if not files:
        return ""
    from edgeopt.bundle.sign import load_public_key, verify_signature

    return verify_signature(bundle, [load_public_key(file) for file in files])


def untrusted(release: Path, name: str, folder: Path) -> str:
    """Returns a warning about a serving release that no key in the folder vouches for; empty for any other."""
    from edgeopt.bundle.manifest import SIGNATURE

    try:
        check_signature(release, folder)
    except (EdgeoptError, OSError):
        how = "without a trusted signature" if (release / SIGNATURE).exists() else "unsigned"
        return f"Release {release.name} serves model {name} {how}: deploy a signed copy."
    return ""


def check_host(host: str, data: DataDir) -> None:
    """Raises UsageError for an address that others reach, unless both a token and a signature are asked for."""
    if is_loopback(host):
        return
    from edgeopt_agent.pairing import is_waiting  # which gives it its first token

    needs = (
        (
            token_files(data.tokens) or is_waiting(data.root),
            "has no access token yet",
            "edgeopt-agent token add NAME --role deploy",
        ),
        (trusted_files(data.trust), "trusts no key yet", "edgeopt-agent trust add KEY.pub"),
    )
    missing = [(what, on_data_dir(command, data.root)) for there, what, command in needs if not there]
    if missing:
        what = " and ".join(reason for reason, _ in missing)
        commands = "; then: ".join(command for _, command in missing)
        raise UsageError(
            f"The agent {what}, so it does not listen on '{host}', where others could reach it.",
            f"First: {commands}; or leave out --host.",
        )


def check_broker(address: str, loopback: bool, data: DataDir) -> None:
    """Raises UsageError for orders from a broker that others reach, unless bundles and orders must be signed."""
    if loopback or trusted_files(data.trust):
        return
    raise UsageError(
        f"The agent trusts no key yet, so it takes no orders from {address}, where others could give them.",
        f"First: {on_data_dir('edgeopt-agent trust add KEY.pub', data.root)}; or remove [mqtt].",
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
