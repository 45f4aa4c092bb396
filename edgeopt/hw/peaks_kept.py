"""Keeps measured peaks in the user's cache folder, under the fingerprint of the device that they belong to."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from edgeopt.hw.device import Device, Peaks, fingerprint
from edgeopt.hw.user_folders import put

METHOD = 1
"""Goes up when the way of measuring changes: figures of two ways are not comparable."""
_PARTS = ("host", "cpu", "limits", "memory", "runtimes")
"""Of the fingerprint: the peaks are those of the CPU, and a new GPU driver leaves them as they are."""


class Measured(msgspec.Struct, frozen=True):
    peaks: Peaks
    unavailable: dict[str, str] = {}
    """What was not measured, each with its reason: `{"peaks.openvino": "..."}`."""


def path(folder: Path, device: Device) -> Path:
    """The file for this device."""
    parts = fingerprint(device)
    digest = hashlib.sha256("".join(parts[name] for name in _PARTS).encode()).hexdigest()[:32]
    return folder / f"peaks-{METHOD}-{digest}.json"


def load(folder: Path | None, device: Device) -> Measured | None:
    """What was measured on this device before; a missing or damaged file holds nothing."""
    if folder is None:
        return None
    try:
        found = msgspec.json.decode(path(folder, device).read_bytes(), type=Measured)
        age_s(found.peaks)
    except (OSError, ValueError, RecursionError):
        return None
    return found


def store(folder: Path | None, device: Device, measured: Measured) -> str | None:
    """Replaces the file in one step; why it could not, or None."""
    if folder is None:
        return "there is no cache folder"
    return put(path(folder, device), msgspec.json.encode(measured))


def with_peaks(device: Device, measured: Measured | None) -> Device:
    """The device with its peaks, or as it was."""
    if measured is None:
        return device
    source = {"peaks": f"edgeopt probe --deep, {measured.peaks.measured_at}"}
    return msgspec.structs.replace(
        device,
        peaks=measured.peaks,
        sources=device.sources | source,
        unavailable=device.unavailable | measured.unavailable,
    )


def age_s(peaks: Peaks) -> float:
    """How long ago they were measured; less than zero where a clock was wrong."""
    measured = datetime.fromisoformat(peaks.measured_at)
    return (datetime.now(UTC) - measured.astimezone(UTC)).total_seconds()
