"""`edgeopt probe`: the device that is asked about."""

from pathlib import Path

import msgspec

from edgeopt.commands.probe.request import Request, check
from edgeopt.events import Emit, Log
from edgeopt.hw.device import Device
from edgeopt.hw.host import LocalHost
from edgeopt.hw.probe import probe as probe_device


def probe(request: Request, emit: Emit) -> Device:
    check(request)
    found = _found(request, emit)
    if request.identify:
        found = _identified(found)
    return _measured(found, request.again, emit) if request.deep else found


def _found(request: Request, emit: Emit) -> Device:
    if request.device is not None:
        from edgeopt.hw.recording import read_device

        return read_device(request.device)
    if request.root is not None:
        from edgeopt.hw.recording import open_recording

        return probe_device(open_recording(request.root))
    return probe_device() if request.record is None else _recorded(request.record, emit)


def _recorded(folder: Path, emit: Emit) -> Device:
    from edgeopt.hw.recording import RecordingHost, check_folder

    check_folder(folder)
    # Without the cache, so that what the runtimes answer is in the recording as well.
    machine = RecordingHost(LocalHost(cache_folder=None))
    found = probe_device(machine)
    files = machine.write(folder)
    emit(Log("info", f"Recorded this machine in '{folder}' ({files} files); read it with --root {folder}"))
    return found


def _identified(device: Device) -> Device:
    from edgeopt.hw.probe import identity

    found, sources, unavailable = identity(LocalHost(cache_folder=None))
    return msgspec.structs.replace(
        device,
        identity=found,
        sources=device.sources | sources,
        unavailable=device.unavailable | unavailable,
    )


def _measured(device: Device, again: bool, emit: Emit) -> Device:
    """The device with its peaks: cached ones, unless there are none or new ones are requested."""
    if device.peaks is not None and not again:
        return device
    from edgeopt.hw.probe_cache import store_peaks, with_peaks
    from edgeopt.hw.user_folders import user_cache_folder
    from edgeopt.measure.peaks.measure import measure

    if device.state and not device.state.worth_measuring:
        emit(
            Log(
                "warning",
                "The state of this device does not allow reliable measurements; measured peaks may be too low.",
            )
        )
    measured = measure(device, emit)
    problem = store_peaks(user_cache_folder(), device, measured)
    if problem:
        emit(Log("warning", f"The peaks are not cached: {problem}."))
    return with_peaks(device, measured)
