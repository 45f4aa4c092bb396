"""Recordings of machines: made of exactly what the probes read and asked, read again with `open_recording`."""

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath

from edgeopt.errors import InputError, UsageError, writing_to
from edgeopt.hw.child import plain
from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import CALLS, Host, RecordedHost, call_key
from edgeopt.hw.scrub import is_private, scrubbed, scrubbed_data, scrubbed_names

_UNAVAILABLE = "unavailable"


class RecordingHost:
    """Asks another host once for each thing and remembers: one look is one consistent picture.

    What probes read several times costs one read, and a recording of it gives the same record again.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._files: dict[str, str | None] = {}
        self._lists: dict[str, tuple[str, ...]] = {}
        self._runs: dict[tuple[str, ...], str | None] = {}
        self._calls: dict[str, object] = {}
        self._versions: dict[str, str | None] = {}

    @property
    def cache_folder(self) -> Path | None:
        return self._host.cache_folder

    def read(self, path: str) -> str | None:
        if path not in self._files:
            self._files[path] = self._host.read(path)
        return self._files[path]

    def list(self, path: str) -> tuple[str, ...]:
        if path not in self._lists:
            self._lists[path] = self._host.list(path)
        return self._lists[path]

    def run(self, command: tuple[str, ...], timeout_s: float = 5.0) -> str | None:
        if command not in self._runs:
            self._runs[command] = self._host.run(command, timeout_s)
        return self._runs[command]

    def call(self, library: str, function: str, *arguments: int | str | bool) -> object:
        key = call_key(library, function, *arguments)
        if key not in self._calls:
            self._calls[key] = self._host.call(library, function, *arguments)
        return self._calls[key]

    def call_in_child(self, library: str, function: str, timeout_s: float = 30.0) -> object:
        key = call_key(library, function)
        if key not in self._calls:
            self._calls[key] = self._host.call_in_child(library, function, timeout_s)
        return self._calls[key]

    def version(self, distribution: str) -> str | None:
        if distribution not in self._versions:
            self._versions[distribution] = self._host.version(distribution)
        return self._versions[distribution]

    def write(self, folder: Path) -> int:
        """Writes what was read and asked into a new folder; how many files that are.

        Serial numbers, identifiers and the user's own folder are left out (`edgeopt.hw.scrub`).
        """
        check_folder(folder)
        texts = {path: text for path, text in self._files.items() if text is not None and not is_private(path)}
        host_name = self._host.call("platform", "node")
        tables = {
            "calls": {key: scrubbed_data(_kept(value)) for key, value in self._calls.items() if value is not None},
            "run": {
                " ".join(command): scrubbed("", text) for command, text in self._runs.items() if text is not None
            },
            "versions": {name: version for name, version in self._versions.items() if version is not None},
            "lists": {
                path: list(scrubbed_names(names, host_name)) for path, names in self._lists.items() if names
            },
        }
        written = {_inside(folder, path): scrubbed(path, text) for path, text in texts.items()}
        written[folder / CALLS] = json.dumps(tables, indent=1, sort_keys=True) + "\n"
        made = not folder.exists()
        try:
            with writing_to(folder):
                for file, text in written.items():
                    _write(file, text)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if not made:
                folder.mkdir(exist_ok=True)
            raise
        return len(written)


def check_folder(folder: Path) -> None:
    """Refuses a place where a recording would mix with something else."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"'{folder}' exists and is not an empty folder.", "Name a new folder for the recording.")


def open_recording(root: Path) -> RecordedHost:
    """The machine recorded in this folder: by `edgeopt probe --record`, or an unpacked tree of /proc and /sys."""
    if not root.is_dir():
        raise InputError(f"There is no folder '{root}' .", "Give the folder of a recording.")
    marks = (CALLS, "proc", "sys")
    if any((root / mark).exists() for mark in marks):
        return RecordedHost(root)
    below = [entry.name for entry in sorted(root.iterdir()) if any((entry / mark).exists() for mark in marks)]
    raise InputError(
        f"The folder '{root}' contains no recorded machine: no proc, sys or {CALLS}.",
        f"Its folder '{below[0]}' does: --root {root / below[0]}"
        if below
        else "Make one: edgeopt probe --record DIR",
    )


def _kept(value: object) -> object:
    return {_UNAVAILABLE: value.reason} if isinstance(value, Unavailable) else plain(value)


def _inside(folder: Path, path: str) -> Path:
    # Joined as text: what was asked for with `..` must not be written outside either.
    return folder / str(PurePosixPath(os.path.normpath("/" + re.sub(r"^[A-Za-z]:", "", path)))).lstrip("/")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
