"""`edgeopt probe`: this device or a recorded one, its identity and its peaks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.events import Emit, Log
from edgeopt.options import option

if TYPE_CHECKING:
    from edgeopt.hw.device import Device


class ProbeRequest(msgspec.Struct, frozen=True):
    explain: Annotated[bool, option("Show where each fact comes from.")] = False
    record: Annotated[Path | None, option("Folder to write a recording of this machine to.", metavar="DIR")] = None
    root: Annotated[
        Path | None, option("Recording to read, or an unpacked tree of /proc and /sys.", metavar="DIR")
    ] = None
    device: Annotated[Path | None, option("Record to read, as printed by --json.", metavar="FILE.json")] = None
    deep: Annotated[
        bool, option("Also show the peak speed of runtimes and memory. The first --deep measures it (10 s).")
    ] = False
    again: Annotated[bool, option("Repeat the measurement of --deep.")] = False
    identify: Annotated[bool, option("Include the host name and machine id in the record.")] = False


def check(request: ProbeRequest) -> None:
    """Raises UsageError for what does not go together."""
    named = {"--record": request.record, "--root": request.root, "--device": request.device}
    flags = [flag for flag, path in named.items() if path is not None]
    if request.again and not request.deep:
        raise UsageError("--again needs --deep.", "Give both: --deep --again")
    if request.deep and flags:
        raise UsageError(f"--deep and {flags[0]} exclude each other.", "Run them one after the other.")
    if len(flags) > 1:
        raise UsageError(f"{' and '.join(flags)} exclude each other.", "Give one of them.")
    if request.identify and (request.root or request.device):
        raise UsageError(f"{flags[0]} has no identity of the machine, so --identify cannot be used.")


def probe(request: ProbeRequest, emit: Emit) -> "Device":
    check(request)
    found = _found(request, emit)
    if request.identify:
        found = _identified(found)
    return _measured(found, request.again, emit) if request.deep else found


def _found(request: ProbeRequest, emit: Emit) -> "Device":
    from edgeopt.hw.probe import probe as probe_device

    if request.device is not None:
        from edgeopt.hw.recording import read_device

        return read_device(request.device)
    if request.root is not None:
        from edgeopt.hw.recording import open_recording

        return probe_device(open_recording(request.root))
    return probe_device() if request.record is None else _recorded(request.record, emit)


def _recorded(folder: Path, emit: Emit) -> "Device":
    from edgeopt.bundle.deployment import check_outside_bundles
    from edgeopt.hw.host import LocalHost
    from edgeopt.hw.probe import probe as probe_device
    from edgeopt.hw.recording import RecordingHost, check_folder

    check_folder(folder)
    check_outside_bundles(folder)
    # Without the cache, so that what the runtimes answer is in the recording as well.
    machine = RecordingHost(LocalHost(cache_folder=None))
    found = probe_device(machine)
    files = machine.write(folder)
    emit(Log("info", f"Recorded this machine in '{folder}' ({files} files); read it with --root {folder}"))
    return found


def _identified(device: "Device") -> "Device":
    from edgeopt.hw.host import LocalHost
    from edgeopt.hw.probe import identity

    found, sources, unavailable = identity(LocalHost(cache_folder=None))
    return msgspec.structs.replace(
        device,
        identity=found,
        sources=device.sources | sources,
        unavailable=device.unavailable | unavailable,
    )


def _measured(device: "Device", again: bool, emit: Emit) -> "Device":
    """Returns the device with its peaks: cached ones, unless there are none or new ones are requested."""
    if device.peaks is not None and not again:
        return device
    from edgeopt.hw.probe_cache import store_peaks, with_peaks
    from edgeopt.measure.peaks.measure import measure
    from edgeopt.platform.user_folders import user_cache_folder

    if device.state and not device.state.worth_measuring:
        warning = "The state of this device does not allow reliable measurements; measured peaks may be too low."
        emit(Log("warning", warning))
    measured = measure(device, emit)
    problem = store_peaks(user_cache_folder(), device, measured)
    if problem:
        emit(Log("warning", f"The peaks are not cached: {problem}."))
    return with_peaks(device, measured)
