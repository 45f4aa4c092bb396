"""The record of a device that is not here: what the probe found, its peaks, and its operator table."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.commands.ops.case import Report
from edgeopt.errors import InputError
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.hw.recording import open_recording
from edgeopt.hw.stored import read_device, result_line


class _Event(msgspec.Struct, frozen=True):
    data: Report


@dataclass(frozen=True, slots=True)
class Record:
    device: Device
    table: Report | None = None
    """What `edgeopt ops --json` printed there, where the file holds that too."""

    @property
    def title(self) -> str:
        """What people call the device."""
        host, cpu = self.device.host, self.device.cpu
        return host.board or f"{cpu.model or host.architecture}, {cpu.physical_cores or cpu.logical_cores} cores"


def read_record(path: Path) -> Record:
    """A file that `edgeopt probe --json` wrote (`edgeopt ops --json` may follow in it), or a recorded machine."""
    if path.is_dir():
        return Record(probe(open_recording(path)))
    device = read_device(path)
    return Record(device, _table(path))


def _table(path: Path) -> Report | None:
    line = result_line(path.read_bytes(), "ops")
    if line is None:
        return None
    try:
        return msgspec.json.decode(line, type=_Event).data
    except msgspec.MsgspecError as error:
        raise InputError(
            f"The operator table in '{path}' cannot be read: {error}.",
            "Create it again on the device: edgeopt ops --json >> device.json",
        ) from error
