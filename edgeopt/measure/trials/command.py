"""A program of the user's own as a contender, over a pipe: its time counts by the same rules as that of a model.

The program is started with the environment variable EDGEOPT_DATA: the path of an .npz file with one array for each
input, samples along the first axis. When it is ready to run it prints the line `ready`; what it prints before is
ignored. Then it gets lines on its stdin: for each `run N` it runs its model on sample N, whatever that means to
it, and prints the line `done`. It ends when its stdin closes. In Python:

    import os, sys, numpy as np
    data = dict(np.load(os.environ["EDGEOPT_DATA"]))
    model = load_my_model()
    print("ready", flush=True)
    for line in sys.stdin:
        model(data["x"][int(line.split()[1])])
        print("done", flush=True)

(`dict`, because an open .npz reads an array from the disk again whenever it is asked for.)

The time is taken from writing `run N` to reading `done`, the way there and back (some 30 µs) included. The program
must wait for its results before it says `done`; nobody checks what it computes.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from edgeopt import units
from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data.samples import from_feeds, write_archive
from edgeopt.errors import TrialError, UsageError
from edgeopt.hw.child import python_command
from edgeopt.platform.command_line import split_words
from edgeopt.platform.files import replace_path
from edgeopt.platform.pipes import open_reader
from edgeopt.platform.processes import crash_name
from edgeopt.workers.host import last_words, outer_environment

DATA = "EDGEOPT_DATA"
_STDERR = 2
_CHUNK_BYTES = 4096
_HINT = "See `edgeopt bench --help` for the protocol."
_ECHO = "import os\nwhile data := os.read(0, 99): os.write(1, data)"
# A round trip with a smaller share of a run's time is not reported.
_SMALL_SHARE = 0.02
_LONG_S = 0.1
_LOOKED_AT_S = 0.5
_MAX_LOOKS = 50


class Program:
    """A running program; `run` takes the line to send."""

    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()

    def __init__(self, command_line: str, data: Path | None, patience_s: float) -> None:
        """Starts the program and waits for `ready`; raises EdgeoptError if it fails to start, ends, or hangs."""
        arguments = _arguments(command_line)
        try:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=_environment(data)
            )
        except OSError as error:
            raise UsageError(
                f"The program '{arguments[0]}' cannot be started: {error.strerror}.",
                "Check the command; give the path of a program that is not on the PATH.",
            ) from None
        assert self._process.stdin is not None  # noqa: S101 - opened as pipes
        assert self._process.stdout is not None  # noqa: S101
        self._to = self._process.stdin.fileno()
        self._reader = open_reader(self._process.stdout.fileno(), _CHUNK_BYTES)
        self._pending = b""
        self._wait_for(b"ready", time.monotonic() + patience_s, patience_s)

    def run(self, line: bytes) -> None:
        try:
            os.write(self._to, line)
        except BrokenPipeError:
            raise self._ended(b"done") from None
        answer = self._reader.read()
        if answer != b"done\n":
            self._pending += answer
            if not answer:
                raise self._ended(b"done")
            self._wait_for(b"done")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _wait_for(self, word: bytes, deadline: float | None = None, patience_s: float = 0.0) -> None:
        """Waits for a line with this word, and copies other lines to the error output."""
        while True:
            line, found, rest = self._pending.partition(b"\n")
            if found:
                self._pending = rest
                if line.strip() == word:
                    return
                os.write(_STDERR, line + b"\n")
                continue
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._reader.wait(left):
                self.close()
                raise TrialError(f"The program did not print 'ready' within {patience_s:.0f} s.", _HINT)
            chunk = self._reader.read()
            if not chunk:
                raise self._ended(word)
            self._pending = (self._pending + chunk)[-(1 << 20) :]

    def _ended(self, word: bytes) -> TrialError:
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            how = "closed its output"
        else:
            how = f"crashed ({crash})" if (crash := crash_name(code)) else f"ended with exit code {code}"
        output = last_words(_STDERR)
        return TrialError(
            f"The program {how} before it printed '{word.decode()}'{f': {output}' if output else '.'}", _HINT
        )


def lines(count: int) -> list[bytes]:
    """Returns the lines that a program receives in rotation."""
    return [b"run %d\n" % number for number in range(count)]


def write_rotation(folder: Path, rotation: Sequence[dict[str, Array]]) -> Path:
    """Writes the samples for the program beside those of the trial; several trials may write the same file."""
    path = folder / "samples.npz"
    draft = folder / f"samples-{os.getpid()}.npz"
    write_archive(draft, from_feeds(rotation))
    replace_path(draft, path)
    return path


def warnings(program: Program, turns: Sequence[bytes]) -> tuple[str, ...]:
    """Warns if the round trip to the program takes much of a run's time.

    The round trip is timed with a process that answers at once, interleaved with runs, because the time to wake
    a process changes from moment to moment.
    """
    first_s = _lap_s(program.run, turns[0])
    if first_s > _LONG_S:
        return ()
    end = time.perf_counter() + _LOOKED_AT_S
    runs, ways = [], []
    with _echo() as way:
        way()
        for turn in islice(cycle(turns), _MAX_LOOKS):
            runs.append(_lap_s(program.run, turn))
            ways.append(_lap_s(way))
            if time.perf_counter() > end:
                break
    run_s, way_s = median(runs), median(ways)
    if way_s <= _SMALL_SHARE * run_s:
        return ()
    warning = (
        f"A run of the program takes {run_s * 1000.0:.2g} ms, of it about {way_s * 1000000.0:.0f} µs "
        f"({units.percent(way_s / run_s, 0)}) for the pipe."
    )
    return (warning,)


def _lap_s(what: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    what(*arguments)
    return time.perf_counter() - begin


@contextmanager
def _echo() -> Iterator[Callable[[], object]]:
    """Starts a process that answers at once, and yields a function that makes one round trip to it."""
    with subprocess.Popen(
        python_command("-I", "-S", "-c", _ECHO), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as echo:
        assert echo.stdin is not None  # noqa: S101 - opened as pipes
        assert echo.stdout is not None  # noqa: S101
        to, back = echo.stdin.fileno(), echo.stdout.fileno()

        def way() -> None:
            os.write(to, b"run 0\n")
            os.read(back, _CHUNK_BYTES)

        try:
            yield way
        finally:
            echo.kill()


def _arguments(command_line: str) -> list[str]:
    try:
        arguments = split_words(command_line)
    except ValueError as error:
        raise UsageError(
            f"The command {command_line!r} cannot be read: {error}.", "Quote it as for a shell."
        ) from None
    if not arguments:
        raise UsageError("The command is empty.", 'Give a program and its arguments: "python mine.py".')
    return arguments


def _environment(data: Path | None) -> dict[str, str]:
    environment = outer_environment()
    if data is not None:
        environment[DATA] = str(data)
    return environment
