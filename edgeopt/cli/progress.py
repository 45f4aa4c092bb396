"""The two voices of a command: JSON lines for programs, a status line for people."""

import io
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt import events
from edgeopt.cli import signals
from edgeopt.cli.commands import COMMANDS
from edgeopt.errors import legible, writing_to
from edgeopt.platform.command_line import join_words, quote_word
from edgeopt.platform.files import name_of
from edgeopt.platform.pipes import PIECE_BYTES, wait_for_room
from edgeopt.platform.processes import program_name
from edgeopt.units import time_left

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

PATIENCE_S = 3.0
"""The time that the reader of an ending command has to take the rest of a record."""
_LOOK_EVERY_S = 0.1
_PROGRAMS = ("edgeopt", "edgeopt-agent")


def standard_output() -> str:
    """The file that standard output goes into, where the system reports it."""
    try:
        return name_of(sys.stdout.fileno()) or "standard output"
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return "standard output"


class WholeLines:
    """Writes past the buffers of `sys.stdout`, so that nothing waits in one when a signal comes.

    Where the reader takes only part of a record, the rest follows before anything else happens. A reader that
    takes nothing any more while a signal wants the command to end is treated as one that has gone.
    """

    def __init__(self) -> None:
        self._torn = False

    def write(self, line: str) -> None:
        """Raises BrokenPipeError where nobody reads, DiskFullError where it goes into a file with no room."""
        with writing_to(standard_output()):
            sys.stdout.flush()  # what was printed before comes before
        try:
            descriptor = sys.stdout.fileno()
        except io.UnsupportedOperation:  # a caller in this process put something else there
            with signals.deferred():
                sys.stdout.write(f"{line}\n")
            return
        if not signals.is_ending():
            _wait_for_room(descriptor)  # here a signal may still be raised: nothing is out yet
        with signals.deferred(), writing_to(standard_output()):
            self._write(descriptor, memoryview(f"{line}\n".encode()))

    def _write(self, descriptor: int, rest: memoryview) -> None:
        if self._torn:
            raise BrokenPipeError
        whole = len(rest)
        try:
            while rest:
                if len(rest) < whole or signals.is_ending():
                    _wait_for_room(descriptor)
                rest = rest[_written(descriptor, rest) :]
        except OSError:
            self._torn = len(rest) < whole
            raise


def _written(descriptor: int, rest: memoryview) -> int:
    """A signal ends a write that waits for room early, with part of it done; that is where the loop goes on."""
    try:
        return os.write(descriptor, rest[:PIECE_BYTES] if signals.is_ending() else rest)
    except BlockingIOError:  # a pipe that somebody has set not to wait
        _wait_for_room(descriptor)
        return 0


def _wait_for_room(descriptor: int) -> None:
    """Returns when something can be written, or nobody reads; raises BrokenPipeError after the patience."""
    end: float | None = None
    while not wait_for_room(descriptor, _LOOK_EVERY_S):
        if signals.is_ending():
            end = end or time.monotonic() + PATIENCE_S
            if time.monotonic() > end:
                raise BrokenPipeError


def program_called() -> tuple[str, str]:
    """The name of the program, and what to type for it: its name only if PATH finds this very file."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":  # python -m
        return path.parent.name.replace("_", "-"), join_words([sys.executable, "-m", path.parent.name])
    name = program_name(path)
    if name not in _PROGRAMS:  # called from a program of the user's own
        return _PROGRAMS[0], _PROGRAMS[0]
    found = shutil.which(name)
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(path)
    return name, name if is_found else quote_word(sys.argv[0])


def as_called(text: str) -> str:
    """The text with the commands in it as this program was called."""
    if _PROGRAMS[0] not in text:
        return text
    name, typed = program_called()
    return text if name == typed else _commands_of(name).sub(lambda found: f"{found[1]}{typed}", text)


def all_as_called(value: Any) -> Any:  # noqa: ANN401 - blocks of any kind, and what they hold
    """The same for all texts of blocks."""
    return with_texts(value, as_called)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - as above
    """Returns blocks with each of their texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(with_texts(each, change) for each in value)
    if isinstance(value, msgspec.Struct):
        return type(value)(*(with_texts(getattr(value, name), change) for name in value.__struct_fields__))
    return value


def _commands_of(name: str) -> re.Pattern[str]:
    """Returns the pattern of a command in a text: "edgeopt bench" matches, "edgeopt measures" does not."""
    if name != _PROGRAMS[0]:
        return re.compile(rf"(: +|[`(']|^){name}(?= [a-z])", re.MULTILINE)
    following = "|".join((*map(re.escape, COMMANDS), "--help", "COMMAND"))
    return re.compile(rf"(?<![\w./-])(){name}(?= (?:{following})(?!\w))")


class JsonLines:
    """One record a line on stdout, at once: the reader watches live."""

    def __init__(self) -> None:
        self._lines = WholeLines()

    def emit(self, event: events.Event) -> None:
        self._lines.write(events.encode(event))

    def close(self) -> None:
        """Does nothing: no resource is open."""


class People:
    """A moving status line on a terminal, one plain line a phase elsewhere; always on stderr."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self._status: Status | None = None
        self._phase = ""
        self._begin = time.monotonic()

    def emit(self, event: events.Event) -> None:
        if isinstance(event, events.Progress):
            self._progress(event)
        elif isinstance(event, events.Log):
            mark = "warning: " if event.level == "warning" else ""
            self._print(as_called(f"{mark}{legible(event.message, line_ends=True)}"))
        elif isinstance(event, events.Error):
            self.close()
            print(f"edgeopt: {as_called(legible(event.message, line_ends=True))}", file=sys.stderr)
            if event.hint:
                print(f"  {as_called(legible(event.hint, line_ends=True))}", file=sys.stderr)

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _progress(self, event: events.Progress) -> None:
        if not sys.stderr.isatty():
            if event.phase != self._phase:
                self._phase = event.phase
                elapsed = time.monotonic() - self._begin
                print(f"[{elapsed:5.1f} s] {legible(event.phase)}", file=sys.stderr, flush=True)
            return
        if self._console is None:
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False)
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(_StatusLine(event, time.monotonic()))

    def _print(self, text: str) -> None:
        if self._console is not None:
            self._console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


class _StatusLine:
    """The line of an event; each drawing has the remaining time of that moment."""

    def __init__(self, event: events.Progress, received_s: float) -> None:
        self._event, self._received_s = event, received_s

    def __rich__(self) -> str:
        return _line(self._event, time.monotonic() - self._received_s)


def _line(event: events.Progress, passed_s: float = 0.0) -> str:
    from rich.markup import escape

    parts = [f"[bold]{escape(legible(event.phase))}[/bold]"]
    if event.total:
        parts.append(f"{event.done or 0}/{event.total}")
    if event.message:
        parts.append(escape(legible(event.message)))
    if event.best:
        parts.append(f"best so far: {escape(legible(event.best))}")
    if event.time_left_s is not None and (left := time_left(event.time_left_s - passed_s)):
        parts.append(left)
    return " · ".join(parts)
