"""The record of a device that is not here (facts, peaks, operator table), and the backends that it has."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.backends import NAMES, PROCESSOR, backend_named
from edgeopt.backends.base import Available
from edgeopt.commands.ops.case import Report
from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.hw.recording import open_recording, read_device, result_line
from edgeopt.profiles import TargetProfile


class _Event(msgspec.Struct, frozen=True):
    data: Report


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    device: Device
    table: Report | None = None
    """Operator table that `edgeopt ops --json` printed on the device, if the file contains it."""

    @property
    def title(self) -> str:
        host, cpu = self.device.host, self.device.cpu
        return host.board or f"{cpu.model or host.architecture}, {cpu.physical_cores or cpu.logical_cores} cores"


def read_record(path: Path) -> DeviceRecord:
    """Reads a file of `edgeopt probe --json` (`edgeopt ops --json` may follow in it), or a recorded machine."""
    if path.is_dir():
        return DeviceRecord(probe(open_recording(path)))
    device = read_device(path)
    return DeviceRecord(device, _table(path))


def _table(path: Path) -> Report | None:
    line = result_line(path.read_bytes(), "ops")
    if line is None:
        return None
    try:
        return msgspec.json.decode(line, type=thread_safe(_Event)).data
    except msgspec.MsgspecError as error:
        raise InputError(
            f"The operator table in '{path}' cannot be read: {error}.",
            "Create it again on the device: edgeopt ops --json >> device.json",
        ) from error


@dataclass(frozen=True, slots=True)
class OnDevice:
    order: tuple[str, ...]
    """Backends of the profile that the record has, in the profile's order."""
    absent: dict[str, str]
    """Backends of the profile that the record lacks, with the reason."""
    assumed: bool = False
    """Whether the record names no runtime; the first backend of the processor is then taken as installable."""


def on_device(profile: TargetProfile, device: Device) -> OnDevice:
    known = tuple(name for name in profile.backends.order if name in NAMES)
    absent = {name: why for name in known if (why := _why_absent(name, device))}
    order = tuple(name for name in known if name not in absent)
    if order:
        return OnDevice(order, absent)
    first = next((name for name in known if name in PROCESSOR), PROCESSOR[0])
    return OnDevice((first,), {name: why for name, why in absent.items() if name != first}, assumed=True)


def stand_in(backend: str) -> str:
    """Returns the backend that computes a model's answers here: the same, or ONNX Runtime on the processor."""
    here = isinstance(backend_named(backend).available(), Available)
    return backend if here and backend in PROCESSOR else PROCESSOR[0]


def _why_absent(backend: str, device: Device) -> str:
    """Returns why the record lacks a backend, as the end of a sentence; empty if it has the backend."""
    family = backend.partition("-")[0]
    found = [one for one in device.runtimes if one.name == family or one.name.startswith(f"{family}-")]
    if not found:
        return f"the record has no {family}"
    needed = "" if backend in PROCESSOR else backend_named(backend).device
    if needed in {"", "CPU"}:
        return ""
    if needed.endswith("Provider"):
        has_it = any(needed in one.providers for one in found)
        return "" if has_it else f"the record's {found[0].name} is without {needed}"
    sees_it = any(name.partition(".")[0] == needed for one in found for name in one.devices)
    return "" if sees_it else f"the record's {found[0].name} sees no {needed}"
