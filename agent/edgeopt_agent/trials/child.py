"""The program that an agent starts for one session: the one that runs over SSH, held to what clients may do."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeopt import units
from edgeopt.hw.child import python_command
from edgeopt.remote import far
from edgeopt.remote.address import PROBE_ONLY
from edgeopt.version import __version__
from edgeopt_agent.trials.allowed import checked
from edgeopt_agent.trials.confined import MODULE

NICENESS = 10
"""Niceness of the measurement: the serving model comes first."""
_KILLED_FIRST = b"800"
DEPLOYING = "A deployment began on the device, so the measurement was ended."
_OF_THE_AGENT = (
    "EDGEOPT_TOKEN",
    "EDGEOPT_FINGERPRINT",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "WATCHDOG_USEC",
)
_LOOK_S = 0.1
_LOOKS_AT_FREE_SPACE = 10
"""Between two looks at the sizes of all files."""
_KILLED_S, _AGAIN_S = 5.0, 0.01
_LITTLE_BYTES = 1 << 20
"""The bytes that may be written to a full disk where only the facts of the device are read."""
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER


class AgentSession(far.Session):
    def __init__(
        self,
        channel: far.Channel,
        folder: Path,
        max_bytes: int,
        reserve_bytes: int,
        session_bytes: int,
        probes: bool,
    ) -> None:
        super().__init__(channel, folder)
        self.work = folder / "work"
        self._probes = probes
        self._max_bytes = max_bytes
        self._reserve_bytes = reserve_bytes
        self._session_bytes = session_bytes
        self._sent_bytes = 0
        """The size of the files that came in this session."""
        self._cache_bytes = 0
        """The size of the search cache before the session."""
        self._full: tuple[str, str] | None = None
        """The reason why the command was ended, and what to do."""

    def begin(self, message: far.Message) -> None:
        super().begin(message)
        older = self.folder / "cache"  # of agents that had everything in one folder
        if older.is_dir() and not (self.work / "cache").exists():
            older.rename(self.work / "cache")
        self._cache_bytes = _size_bytes(self.work / "cache")

    def unfit(self, size: int) -> str | None:
        if not isinstance(size, int) or size < 0:
            raise far.GoneError
        if size > self._max_bytes:
            return f"a file has {units.size(size)}, and at most {units.size(self._max_bytes)} are taken"
        full = self._why_full(size)
        return None if full is None else full[0]

    def put(self, message: far.Message) -> None:
        super().put(message)
        self._sent_bytes += message["bytes"]

    def _why_full(self, more: int = 0) -> tuple[str, str] | None:
        """Returns why no more may be written, and what to do; None as long as it may."""
        written = self._sent_bytes + _size_bytes(self.work / "runs") + more
        written += max(0, _size_bytes(self.work / "cache") - self._cache_bytes)
        if written > self._session_bytes:
            maximum = units.size(self._session_bytes)
            return (
                f"a session may write {maximum} there, with the files that are sent",
                "Search for a shorter time (--time-limit), or raise trials_bytes in the agent's configuration.",
            )
        little = self._probes and written < _LITTLE_BYTES
        if not little and self._disk_is_full(more):
            return "its disk is full", "Free some space on the device."
        return None

    def install(self, message: dict[str, Any]) -> None:
        """Installs nothing: the agent's own edgeopt runs, which must have the same version."""
        if message.get("version") != __version__:
            raise far.RefusedError(
                "version",
                words=f"The agent has edgeopt {__version__}, and this one is {message.get('version')}.",
                hint="Use the same version on both, or measure over SSH: --on ssh://[USER@]HOST",
            )
        self.channel.send({"installed": "", "python": "", "made": []})

    def start(self, message: far.Message) -> None:
        if full := self.unfit(0):
            raise far.RefusedError("system", words=full)
        super().start(message)
        threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def command(self, message: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        places = [str(place) for _, place in message["files"]]
        words = [str(word) for word in message["arguments"]]
        if self._probes and (words[:1] != ["probe"] or "--deep" in words):
            raise far.RefusedError(
                "not-taken",
                words="This session only reads the facts of the device.",
                hint=f"Begin one without {PROBE_ONLY}=1.",
            )
        words = checked(words, str(self.run), places)
        (self.work / "cache").mkdir(exist_ok=True)
        # Nothing is imported from the folder that it runs in.
        confined = python_command("-P", "-m", MODULE, str(self.work), str(self._session_bytes))
        return [*confined, *words], {"PYTHONSAFEPATH": "1"}

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Ends the command when it has written too much, or the disk is full."""
        looks = 0
        while process.poll() is None:
            looks += 1
            with contextlib.suppress(OSError):
                # All files are looked at less often: it would disturb the measurement.
                if looks % _LOOKS_AT_FREE_SPACE == 0 or self._disk_is_full():
                    self._full = self._why_full()
            if self._full is not None:
                _end_descendants()
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)

    def _disk_is_full(self, more: int = 0) -> bool:
        return shutil.disk_usage(self.folder).free - more < self._reserve_bytes

    def ended(self, code: int, words: str) -> far.Message:
        with contextlib.suppress(OSError):
            self._full = self._full or self._why_full()
        if self._full is None:
            return super().ended(code, words)
        why, hint = self._full
        return {"refused": "ended", "words": f"The measurement was ended on the device: {why}.", "hint": hint}

    def error_text(self, error: Exception) -> str:
        """Returns the error without the path of a file on the device."""
        system = isinstance(error, OSError)
        return (error.strerror if system else None) or type(error).__name__  # type: ignore[attr-defined]

    def shown(self, line: bytes) -> bytes:
        """Hides the paths of the data folder, except those of sent files, which the client replaces."""
        folder = re.escape(json.dumps(str(self.folder))[1:-1].encode())
        run = re.escape(b"" if self.run is None else self.run.name.encode())
        return re.sub(rb"%b(?!/work/runs/%b/in/)" % (folder, run), b"DATA_DIR/trials", line)

    def end_command(self) -> None:
        super().end_command()
        _end_descendants()


def _size_bytes(folder: Path) -> int:
    """Returns the size on the disk of the files in a folder."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found += os.lstat(Path(place) / name).st_blocks * 512
    return found


def adopt_orphans() -> None:
    """Lets what loses its parent become a child of this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)


def _end_descendants() -> None:
    """Kills what the command has started, in whatever session or group."""
    deadline = time.monotonic() + _KILLED_S
    while (found := _descendants()) and time.monotonic() < deadline:
        for number in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        time.sleep(_AGAIN_S)


def _descendants() -> list[int]:
    """Returns the processes below this one that have not ended."""
    parents, living = {}, set()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = place.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
            parents[int(place.parent.name)] = int(parent)
            if state not in "ZX":
                living.add(int(place.parent.name))
    return [number for number in living if os.getpid() in _above(number, parents)]


def _above(number: int, parents: Mapping[int, int]) -> list[int]:
    found: list[int] = []
    while (number := parents.get(number, 0)) and number not in found:
        found.append(number)
    return found


def main() -> None:
    folder, max_bytes, reserve_bytes, session_bytes, only = sys.argv[1:]
    os.nice(NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(_KILLED_FIRST)
    adopt_orphans()
    for name in _OF_THE_AGENT:
        os.environ.pop(name, None)
    limits = int(max_bytes), int(reserve_bytes), int(session_bytes)
    far.serve(
        lambda channel, _: AgentSession(channel, Path(folder), *limits, only == PROBE_ONLY),
        {signal.SIGUSR1: DEPLOYING},
    )


if __name__ == "__main__":
    main()
