"""Cache of the probes in the user's folder: answers of runtimes, which take a second, and measured peaks."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.hw.device import Device, Peaks, fingerprint
from edgeopt.platform.user_folders import put


class Answer(msgspec.Struct, frozen=True):
    """Providers and devices that a runtime reports."""

    providers: tuple[str, ...] = ()
    devices: dict[str, str] = {}
    capabilities: dict[str, tuple[str, ...]] = {}


Answers = dict[str, Answer]


def answers_path(folder: Path | None, circumstances: list[object]) -> Path | None:
    """The file for these circumstances, or None where nothing can be kept."""
    if folder is None:
        return None
    digest = hashlib.sha256(msgspec.json.encode(circumstances)).hexdigest()[:32]
    return folder / f"runtimes-{digest}.json"


def load_answers(file: Path | None) -> Answers:
    """The cached facts; a missing or damaged file counts as empty and is written again."""
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=thread_safe(Answers))
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}


def store_answers(file: Path, answers: Answers) -> str | None:
    """Replaces the file in one step; why it could not, or None."""
    problem = put(file, msgspec.json.encode(answers))
    return None if problem is None else f"{problem}, so each probe asks the runtimes again"


METHOD = 1
"""Goes up when the way of measuring changes: figures of two ways are not comparable."""
_PARTS = ("host", "cpu", "limits", "memory", "runtimes")
"""Parts of the fingerprint that peaks depend on: they are the CPU's, so a new GPU driver does not matter."""


class CachedFacts(msgspec.Struct, frozen=True):
    peaks: Peaks
    unavailable: dict[str, str] = {}
    """Unmeasured facts, each with its reason: `{"peaks.openvino": "..."}`."""


def peaks_path(folder: Path, device: Device) -> Path:
    """The file for this device."""
    parts = fingerprint(device)
    digest = hashlib.sha256("".join(parts[name] for name in _PARTS).encode()).hexdigest()[:32]
    return folder / f"peaks-{METHOD}-{digest}.json"


def load_peaks(folder: Path | None, device: Device) -> CachedFacts | None:
    """Returns the peaks measured earlier on this device; None if the file is missing or damaged."""
    if folder is None:
        return None
    try:
        found = msgspec.json.decode(peaks_path(folder, device).read_bytes(), type=thread_safe(CachedFacts))
        age_s(found.peaks)
    except (OSError, ValueError, RecursionError):
        return None
    return found


def store_peaks(folder: Path | None, device: Device, measured: CachedFacts) -> str | None:
    """Replaces the file in one step; why it could not, or None."""
    if folder is None:
        return "there is no cache folder"
    return put(peaks_path(folder, device), msgspec.json.encode(measured))


def with_peaks(device: Device, measured: CachedFacts | None) -> Device:
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
    """Returns the age of the peaks in s; less than zero if a clock was wrong."""
    measured = datetime.fromisoformat(peaks.measured_at)
    return (datetime.now(UTC) - measured.astimezone(UTC)).total_seconds()
