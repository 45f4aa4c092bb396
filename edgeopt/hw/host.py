"""`Host`: the only way a probe sees a machine, the real one or a recorded one. Reading never raises."""

import importlib
import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from edgeopt.hw.child import plain
from edgeopt.hw.device import Unavailable
from edgeopt.platform.user_folders import user_cache_folder

CALLS = "calls.json"
_IN_METADATA = ""
"""The version where the folder's name does not tell it."""
READ_LIMIT_BYTES = 4 * 1024 * 1024
# Not blocking, so that a pipe cannot hold the probe up; Windows has no such flag.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)


class Host(Protocol):
    """A machine. What it cannot tell is None, an empty tuple, or `Unavailable` where the reason matters."""

    @property
    def cache_folder(self) -> Path | None:
        """Returns the folder that caches answers that are slow to get; None: no cache."""

    def read(self, path: str) -> str | None:
        """The text of a file."""

    def list(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted."""

    def run(self, command: tuple[str, ...], timeout_s: float = 5.0) -> str | None:
        """Returns the output of a command that succeeds."""

    def call(self, library: str, function: str, *arguments: int | str | bool) -> object:
        """Returns the result of a library's function, or the value if it is not a function, as plain data."""

    def call_in_child(self, library: str, function: str, timeout_s: float = 30.0) -> object:
        """The same from a process of its own, for libraries that load slowly or crash; or `Unavailable`."""

    def version(self, distribution: str) -> str | None:
        """The version of an installed Python distribution, without importing it."""


def call_key(library: str, function: str, *arguments: int | str | bool) -> str:
    """Returns the name of a call in a recording: `os.sched_getaffinity(0)`."""
    return f"{library}.{function}({', '.join(json.dumps(a) for a in arguments)})"


@dataclass(frozen=True, slots=True)
class LocalHost:
    """The machine that this process runs on."""

    cache_folder: Path | None = field(default_factory=user_cache_folder)
    _installed: dict[tuple[str, ...], dict[str, str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The distributions by the search path that they were found on."""

    def read(self, path: str) -> str | None:
        return _read(path)

    def list(self, path: str) -> tuple[str, ...]:
        return _list(path)

    def run(self, command: tuple[str, ...], timeout_s: float = 5.0) -> str | None:
        import subprocess

        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=True,
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return done.stdout

    def call(self, library: str, function: str, *arguments: int | str | bool) -> object:
        try:
            member = getattr(importlib.import_module(library), function)
            return plain(member(*arguments) if callable(member) else member)
        except Exception:  # noqa: BLE001 - the machine's edge: whatever a library raises here means "unknown"
            return None

    def call_in_child(self, library: str, function: str, timeout_s: float = 30.0) -> object:
        from edgeopt.hw.child import call_in_child

        return call_in_child(library, function, timeout_s)

    def version(self, distribution: str) -> str | None:
        searched = tuple(sys.path)
        if searched not in self._installed:
            self._installed[searched] = _distributions(searched)
        version = self._installed[searched].get(_normalized(distribution))
        if version == _IN_METADATA:
            answer = self.call("importlib.metadata", "version", distribution)
            return answer if isinstance(answer, str) else None
        return version


@dataclass(frozen=True, slots=True)
class RecordedHost:
    """A machine recorded in a folder: its /proc, /sys and /dev files, and `calls.json` for the rest.

    `calls.json` has up to four tables: `calls` (see `call_key`), `run` (command line to output), `versions`,
    and `lists` (the names in a folder that was recorded in part).
    """

    root: Path
    cache_folder: Path | None = None
    _tables: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The contents of `calls.json`, once read."""

    def read(self, path: str) -> str | None:
        inside = self._inside(path)
        return None if inside is None else _read(inside)

    def list(self, path: str) -> tuple[str, ...]:
        names = self._recorded("lists").get(path)
        if isinstance(names, list):
            return tuple(sorted(name for name in names if isinstance(name, str)))
        inside = self._inside(path)
        return () if inside is None else _list(inside)

    def run(self, command: tuple[str, ...], timeout_s: float = 5.0) -> str | None:  # noqa: ARG002 - contract
        answer = self._recorded("run").get(" ".join(command))
        return answer if isinstance(answer, str) else None

    def call(self, library: str, function: str, *arguments: int | str | bool) -> object:
        return self._recorded("calls").get(call_key(library, function, *arguments))

    def call_in_child(self, library: str, function: str, timeout_s: float = 30.0) -> object:  # noqa: ARG002 - contract
        key = call_key(library, function)
        answer = self._recorded("calls").get(key)
        if isinstance(answer, dict) and answer.keys() == {"unavailable"}:
            return Unavailable(str(answer["unavailable"]))
        return Unavailable(f"{key} was not recorded") if answer is None else answer

    def version(self, distribution: str) -> str | None:
        answer = self._recorded("versions").get(distribution)
        return answer if isinstance(answer, str) else None

    def _inside(self, path: str) -> str | None:
        """The file in the recording; a link that leads out of it is not followed."""
        root = os.path.realpath(self.root)
        try:
            inside = os.path.realpath(os.path.join(root, path.lstrip("/")))  # noqa: PTH118 - hundreds of calls
        except (OSError, ValueError):
            return None
        return inside if inside == root or inside.startswith(root + os.sep) else None

    def _recorded(self, table: str) -> dict[str, object]:
        if not self._tables:
            text = self.read(CALLS)
            try:
                tables = json.loads(text) if text else {}
            except (ValueError, RecursionError):
                tables = {}
            self._tables.update(tables if isinstance(tables, dict) else {}, read=True)
        found = self._tables.get(table)
        return found if isinstance(found, dict) else {}


def _read(path: str) -> str | None:
    # os.open and not pathlib: a probe of a large server reads hundreds of small files.
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except (OSError, ValueError):
        return None
    try:
        chunks = []
        left = READ_LIMIT_BYTES
        while left > 0 and (chunk := os.read(descriptor, min(left, 65536))):
            chunks.append(chunk)
            left -= len(chunk)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(chunks).decode("utf-8", "replace")


def _list(path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(path)))  # noqa: PTH208 - names are what is wanted
    except (OSError, ValueError):
        return ()


def _distributions(searched: tuple[str, ...]) -> dict[str, str]:
    """The installed distributions with their versions, the first of two as an import would have it."""
    # importlib.metadata reads the same folder names, but importing it costs 20 to 40 ms.
    found: dict[str, str] = {}
    for folder in searched:
        for entry in _list(folder or "."):
            if entry.endswith(".dist-info"):
                name, _, version = entry[: -len(".dist-info")].partition("-")
                found.setdefault(_normalized(name), version or _IN_METADATA)
            elif entry.endswith(".egg-info"):
                found.setdefault(_normalized(entry[: -len(".egg-info")].partition("-")[0]), _IN_METADATA)
    return found


def _normalized(distribution: str) -> str:
    """The name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
