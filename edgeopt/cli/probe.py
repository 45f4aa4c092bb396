"""`edgeopt probe`: what this device is, or another one that was recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.events import Emit
    from edgeopt.hw.device import Device


def probe(
    explain: Annotated[bool, typer.Option("--explain", help="Show where each fact comes from.")] = False,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="Also write a recording of this machine there.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="Read a recording, or an unpacked tree of /proc and /sys."),
    ] = None,
    device: Annotated[
        Path | None, typer.Option("--device", metavar="FILE.json", help="Read a record that --json printed.")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also measure peaks (10 s), or show those of an earlier time.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="With --deep: measure anew.")] = False,
    identify: Annotated[
        bool, typer.Option("--identify", help="Add the host name and the machine id to the record.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Shows what this device is, and whether it is in a state worth measuring.

    \b
    Serial numbers, host names and network addresses are neither in the record nor in a recording.

    \b
    Examples:
      edgeopt probe
      edgeopt probe --explain                where each fact comes from
      edgeopt probe --json > device.json     the whole record
      edgeopt probe --device device.json     read it elsewhere
      edgeopt probe --record machine         all that was read, so that it can be probed again
      edgeopt probe --root machine
      edgeopt probe --deep                   what its runtimes and its memory reach, measured
    """

    def work(emit: "Emit") -> "Device":
        if again and not deep:
            raise UsageError("--again says how to do --deep, which is missing.", "Give both: --deep --again")
        if deep and (record or root or device):
            option = "--record" if record else "--root" if root else "--device"
            raise UsageError(f"--deep and {option} exclude each other.", "Run them one after the other.")
        found = find(record, root, device, identify, emit)
        return _measured(found, again, emit) if deep else found

    execute(
        "probe",
        work=work,
        show=_shown(explain),
        json=json,
    )


def find(record: Path | None, root: Path | None, stored: Path | None, identify: bool, emit: "Emit") -> "Device":
    """The device that these options mean."""
    named = {"--record": record, "--root": root, "--device": stored}
    given = [option for option, path in named.items() if path is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other.", "Give one of them.")
    if identify and (root or stored):
        raise UsageError(f"{given[0]} reads a machine without an identity, so --identify has nothing to ask.")
    from edgeopt.hw.probe import probe as probe_device

    if stored is not None:
        from edgeopt.hw.stored import read_device

        return read_device(stored)
    if root is not None:
        from edgeopt.hw.recording import open_recording

        return probe_device(open_recording(root))
    found = probe_device() if record is None else _recorded(record, emit)
    return _identified(found) if identify else found


def _recorded(folder: Path, emit: "Emit") -> "Device":
    from edgeopt.events import Log
    from edgeopt.hw.host import LocalHost
    from edgeopt.hw.probe import probe as probe_device
    from edgeopt.hw.recording import RecordingHost, check_folder

    check_folder(folder)
    # Without the cache, so that what the runtimes answer is in the recording as well.
    machine = RecordingHost(LocalHost(cache_folder=None))
    found = probe_device(machine)
    files = machine.write(folder)
    emit(Log("info", f"Recorded this machine in '{folder}' ({files} files); read it with --root {folder}"))
    return found


def _identified(device: "Device") -> "Device":
    import msgspec

    from edgeopt.hw.host import LocalHost
    from edgeopt.hw.machine_identity import identity

    found, sources, unavailable = identity(LocalHost(cache_folder=None))
    return msgspec.structs.replace(
        device,
        identity=found,
        sources=device.sources | sources,
        unavailable=device.unavailable | unavailable,
    )


def _measured(device: "Device", again: bool, emit: "Emit") -> "Device":
    """The device with its peaks: those of an earlier time, unless there are none or they are wanted anew."""
    from edgeopt.events import Log

    if device.peaks is not None and not again:
        return device
    from edgeopt.bench.peaks.measure import measure
    from edgeopt.hw.cache_folder import user_cache_folder
    from edgeopt.hw.peaks_kept import store, with_peaks

    if device.state and not device.state.worth_measuring:
        emit(Log("warning", "This device is not in a state worth measuring; peaks measured now may be too low."))
    measured = measure(device, emit)
    problem = store(user_cache_folder(), device, measured)
    if problem:
        emit(Log("warning", f"The peaks are not kept: {problem}."))
    return with_peaks(device, measured)


def _shown(explain: bool) -> "Callable[[Device], list[Block]]":
    def show_device(device: "Device") -> "list[Block]":
        from edgeopt.cli.probe_show import show

        return show(device, explain)

    return show_device
