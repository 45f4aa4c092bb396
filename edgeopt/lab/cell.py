"""The commands of one cell, as processes of the command line; `run_cell` runs on the worker of the device."""

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import msgspec

from edgeopt.errors import printable
from edgeopt.events import Error, Event, Progress, Result, decode
from edgeopt.hw.child import python_command
from edgeopt.platform.child_job import ChildJob
from edgeopt.platform.processes import can_pin, end_group, group_options, pin_thread, usable_cores

PROGRAM = ("-m", "edgeopt.cli.attached")
_POLL_S = 0.25
_PROGRESS_S = 0.5
_PATIENCE_S = 5.0
_LAST_WORDS_BYTES = 2000
STOPPED = "stopped"
"""Code of the ending of a command that was stopped with the lab."""


class CellTask(msgspec.Struct, frozen=True):
    """Commands that run one after the other on a device; one that fails ends the cell."""

    key: str
    device: str
    commands: tuple[tuple[str, ...], ...]
    """Arguments of each command."""
    cores: tuple[int, ...] = ()
    environment: dict[str, str] = {}
    program: tuple[str, ...] = PROGRAM
    """Arguments of Python before those of the command."""


class CommandEnding(msgspec.Struct, frozen=True):
    begin_s: float
    """Time of the start, in seconds since 1970."""
    end_s: float
    exit_code: int | None
    data: dict[str, Any] | None = None
    """Data of the result; None if the command had none."""
    code: str = ""
    message: str = ""
    hint: str = ""


class CellRun(msgspec.Struct, frozen=True):
    endings: tuple[CommandEnding, ...]


def run_cell(task: CellTask, is_stopped: Callable[[], bool], report: Callable[[Progress], None]) -> CellRun:
    """Runs the commands until one fails; `is_stopped` is asked several times a second."""
    endings: list[CommandEnding] = []
    for command in task.commands:
        endings.append(_run(task, command, is_stopped, report))
        if endings[-1].data is None:
            break
    return CellRun(tuple(endings))


def _run(
    task: CellTask, command: tuple[str, ...], is_stopped: Callable[[], bool], report: Callable[[Progress], None]
) -> CommandEnding:
    begin = time.time()
    if is_stopped():
        return CommandEnding(begin, begin, None, code=STOPPED, message="Stopped before it began.")
    last: list[Event] = []
    with tempfile.TemporaryFile() as errors:
        with _pinned(task.cores):
            process = subprocess.Popen(
                python_command(*task.program, *command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **task.environment},
                **group_options(),
            )
        job = ChildJob(process.pid)
        assert process.stdout is not None  # noqa: S101 - a pipe, as asked for
        reader = threading.Thread(target=_read, args=(process.stdout, last, report), daemon=True)
        reader.start()
        stopped = False
        while reader.is_alive() and not stopped:
            reader.join(_POLL_S)
            stopped = is_stopped()
        if stopped:
            _end(process)
        with process:
            reader.join(_PATIENCE_S)
        job.close()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
        words = errors.read().decode(errors="replace").strip().splitlines()
    return _ending(begin, process.returncode, last, printable(words[-1]) if words else "", stopped)


def _ending(begin: float, exit_code: int, last: list[Event], words: str, stopped: bool) -> CommandEnding:
    end = time.time()
    match last[-1] if last else None:
        case Result(data=data):
            return CommandEnding(begin, end, exit_code, data)
        case Error(code=code, message=message, hint=hint):
            return CommandEnding(begin, end, exit_code, None, STOPPED if stopped else code, message, hint)
    if stopped:
        return CommandEnding(begin, end, exit_code, None, STOPPED, "Stopped with the lab.")
    message = f"The command ended with exit code {exit_code}{f' ({words})' if words else ''}."
    return CommandEnding(begin, end, exit_code, None, "ended", message, "Run it again.")


def _read(lines: IO[bytes], last: list[Event], report: Callable[[Progress], None]) -> None:
    phase, at = "", 0.0
    for line in lines:
        try:
            event = decode(line)
        except msgspec.DecodeError:
            continue  # a library wrote to stdout
        if isinstance(event, Result | Error):
            last.append(event)
        elif isinstance(event, Progress) and (event.phase != phase or time.monotonic() - at > _PROGRESS_S):
            phase, at = event.phase, time.monotonic()
            report(event)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        end_group(process.pid)


@contextlib.contextmanager
def _pinned(cores: tuple[int, ...]) -> Iterator[None]:
    """Keeps this thread to the cores while it starts a process, which inherits them."""
    before = usable_cores()
    if not cores or not can_pin() or before is None:
        yield
        return
    pin_thread(cores)
    try:
        yield
    finally:
        pin_thread(before)
