"""Recordings of machines: made of exactly what the probes read and asked, read again with `open_recording`."""

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError, UsageError, writing_to
from edgeopt.hw.child import plain
from edgeopt.hw.device import SCHEMA, Device, Unavailable
from edgeopt.hw.host import CALLS, Host, RecordedHost, call_key
from edgeopt.platform.user_folders import home_folder

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

        Serial numbers, identifiers and the user's own folder are left out (`edgeopt.hw.recording`).
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
        raise InputError(f"There is no folder '{root}'.", "Give the folder of a recording.")
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


_PRIVATE_FILE = re.compile(
    r"serial|uuid|machine-id|boot_id|hostname|asset_tag|(^|/)(cmdline|environ)$", re.IGNORECASE
)
_SERIAL_LINE = re.compile(r'(?m)^([^":\n]*serial[^":\n]*:).*$', re.IGNORECASE)
_KEYS = r'[^"\n]*(?:serial|uuid|udid|host_?name|machine_name|user_name)[^"\n]*'
_PRIVATE_KEY = re.compile(_KEYS, re.IGNORECASE)
_JSON_KEY = re.compile(rf'("{_KEYS}"\s*:\s*)"[^"\n]*"', re.IGNORECASE)
_ADDRESS = re.compile(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", re.IGNORECASE)
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_NO_ADDRESS, _NO_UUID = "00:00:00:00:00:00", "00000000-0000-0000-0000-000000000000"


def is_private(path: str) -> bool:
    """Whether the whole file is left out."""
    return _PRIVATE_FILE.search(path) is not None


def scrubbed(path: str, text: str) -> str:
    """The text without what tells one machine, or one person, from another."""
    if path.endswith("/mountinfo"):
        # Only where the control groups are matters; the rest names servers, users and their folders.
        text = "".join(line for line in text.splitlines(keepends=True) if " - cgroup" in line)
    if path.startswith("/proc/") and path.endswith("/status"):
        text = "".join(line for line in text.splitlines(keepends=True) if "_allowed" in line)
    text = _SERIAL_LINE.sub(r"\1", text)
    text = _JSON_KEY.sub(r'\1""', text)
    text = _UUID.sub(_NO_UUID, _ADDRESS.sub(_NO_ADDRESS, text))
    for home in _homes():
        text = text.replace(home, "/home/user")
    return text


def scrubbed_names(names: tuple[str, ...], host_name: object) -> tuple[str, ...]:
    """Returns the names without those that contain the host's name, as volume groups often do."""
    if not isinstance(host_name, str) or len(host_name) < 3:
        return names
    own = re.compile(rf"\b{re.escape(host_name.partition('.')[0])}\b", re.IGNORECASE)
    return tuple(name for name in names if not own.search(name))


def scrubbed_data(value: object) -> object:
    if isinstance(value, str):
        return scrubbed("", value)
    if isinstance(value, list):
        return [scrubbed_data(entry) for entry in value]
    if isinstance(value, dict):
        return {key: "" if _PRIVATE_KEY.fullmatch(key) else scrubbed_data(entry) for key, entry in value.items()}
    return value


def _homes() -> tuple[str, ...]:
    if (folder := home_folder()) is None:
        return ()
    home = str(folder)
    # JSON contains Windows' folders with doubled backslashes.
    return tuple(dict.fromkeys((home, json.dumps(home)[1:-1]))) if len(home) > len("/root") else ()


_HINT = "Make one on the device itself: edgeopt probe --json > device.json"


class _Line(msgspec.Struct, frozen=True):
    """A line of `edgeopt probe --json`, or the record alone."""

    schema: int | None = None
    event: str | None = None
    kind: str | None = None
    data: msgspec.Raw = msgspec.Raw()


def result_line(text: bytes, kind: str) -> bytes | None:
    """Returns the last result of this kind from events in the format of `--json`, one a line."""
    for one in reversed(text.splitlines()):
        if one.startswith(b'{"event"'):
            line = msgspec.json.decode(one, type=thread_safe(_Line))
            if (line.event, line.kind) == ("result", kind):
                return one
    return None


def read_device(path: Path) -> Device:
    """The record, alone or as the result that `edgeopt probe --json` prints; unknown keys are ignored."""
    if path.is_dir():
        raise InputError(f"'{path}' is a folder, not a device record.", "Pass a recorded machine with --root DIR.")
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The device record '{path}' cannot be read: {error.strerror or error}.", _HINT
        ) from error
    try:
        text = result_line(text, "probe") or text
        line = msgspec.json.decode(text, type=thread_safe(_Line))
        if line.event is not None:
            if (line.event, line.kind) != ("result", "probe"):
                what = line.kind or line.event
                raise InputError(f"The file '{path}' contains no device record but the event '{what}'.", _HINT)
            text = bytes(line.data)
            line = msgspec.json.decode(text, type=thread_safe(_Line))
        if line.schema is not None and line.schema > SCHEMA:
            raise InputError(
                f"The device record '{path}' has schema {line.schema}; this edgeopt reads up to {SCHEMA}.",
                "Update edgeopt here, or probe the device with the version installed here.",
            )
        device = msgspec.json.decode(text, type=thread_safe(Device))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"The file '{path}' is not a device record: {error}.", _HINT) from error
    if device.limits.usable_cores < 1 or device.cpu.logical_cores < 1 or device.memory.total_bytes < 0:
        raise InputError(f"The device record '{path}' has no cores or a negative amount of memory.", _HINT)
    return device
