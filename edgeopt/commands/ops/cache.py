"""Keeps what was measured in the user's cache folder: a file for each backend on this device, by case."""

import hashlib
from pathlib import Path

import msgspec

from edgeopt.commands.ops.result import Measured
from edgeopt.hw.cache_folder import put
from edgeopt.hw.device import Device, fingerprint
from edgeopt.version import __version__

METHOD = 2
"""Goes up when the way of measuring or judging changes: figures of two ways are not comparable."""
_CPU_PARTS = ("host", "cpu", "limits", "memory")
_OTHER_PARTS = (*_CPU_PARTS, "accelerators", "drivers")

Kept = dict[str, Measured]
"""By the digest of the case."""


def path(folder: Path, device: Device, backend: str, version: str) -> Path:
    """The file for a backend on this device: another runtime, edgeopt or driver has another file."""
    parts = fingerprint(device)
    names = _CPU_PARTS if backend.endswith("-cpu") else _OTHER_PARTS
    told = [*(parts[name] for name in names), backend, version, __version__]
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:32]
    return folder / f"ops-{METHOD}-{digest}.json"


def load(file: Path | None) -> Kept:
    """What is kept there; a missing or damaged file holds nothing."""
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=Kept)
    except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}


def store(file: Path, kept: Kept) -> str | None:
    """Replaces the file in one step; why it could not, or None."""
    return put(file, msgspec.json.encode(kept))
