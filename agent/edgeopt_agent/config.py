"""The configuration file: TOML with the names of `Settings`, below the command line and above the defaults."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.bundle.toml import read_toml
from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError
from edgeopt.fleet.address import is_this_device
from edgeopt.nearest import nearest
from edgeopt.platform.user_folders import expanded, home_folder
from edgeopt_agent.bundle_urls import read_prefix
from edgeopt_agent.drift.settings import DriftSettings, wrong_drift
from edgeopt_agent.mqtt.settings import MqttSettings, wrong_mqtt
from edgeopt_agent.settings import (
    MAX_SOAK_S,
    Settings,
    administered_data_dir,
    administers_service,
    default_data_dir,
)

NAME = "agent.toml"
SYSTEM_FILE = Path("/etc/edgeopt") / NAME
_MAX: Mapping[str, float] = {
    "port": 65_535,
    "grpc_port": 65_535,
    "soak_s": MAX_SOAK_S,
    "batch_max_size": 1024,
    "batch_max_delay_us": 1_000_000,
}
_LARGEST = 1e15
_PATHS = ("data_dir", "tls_cert", "tls_key", "watch_dir", "registry_auth")

NEEDS_RESTART = frozenset({
    "data_dir", "watch_dir", "host", "port", "grpc_port", "announce", "tls", "tls_cert", "tls_key",
    "max_body_bytes", "max_tensor_elements", "queue_length", "request_timeout_s", "body_timeout_s",
    "generation_queue_length", "generation_timeout_s",
    "silent_call_s", "stream_idle_s", "drain_s", "ready_timeout_s", "crashes_allowed", "mqtt", "drift",
})  # fmt: skip
"""Settings that are fixed once the agent serves; all others follow a SIGHUP."""


class ConfigError(InputError):
    """A configuration file that cannot be used, with the line that is wrong."""

    code = "bad-config"


@dataclass(frozen=True, slots=True)
class Configured:
    settings: Settings
    sources: Mapping[str, str]
    """The origin of each value: `default`, the file with its line, or the command line.

    A key of a table has an entry of its own, such as `mqtt.url`, if the file sets it.
    """
    file: Path | None


def default_file() -> Path | None:
    """Returns the default configuration file; None if it does not exist."""
    if os.environ.get("INVOCATION_ID") and os.environ.get("STATE_DIRECTORY"):  # systemd's
        file = SYSTEM_FILE
    elif named := os.environ.get("XDG_CONFIG_HOME"):
        file = Path(named) / "edgeopt" / NAME
    elif (home := home_folder()) is not None:
        file = home / ".config" / "edgeopt" / NAME
    else:
        return None
    return file if file.is_file() else None


def administered(file: Path | None, options: Mapping[str, object]) -> Configured:
    """Returns the settings of the agent that a command beside it acts on: for root, the service's if any."""
    if administers_service():
        file = file or (SYSTEM_FILE if SYSTEM_FILE.is_file() else None)
        return configured(file, options, administered_data_dir())
    return configured(file, options)


def configured(file: Path | None, options: Mapping[str, object], data_dir: Path | None = None) -> Configured:
    """Returns the settings from the command line (if not None), the file and the defaults; raises ConfigError."""
    file = file or default_file()
    own = {name: value for name, value in options.items() if value is not None}
    read, lines = _read(file) if file is not None else ({}, {})
    values = {**read, **own}
    values["data_dir"] = expanded(Path(str(values.get("data_dir") or data_dir or default_data_dir()))).absolute()
    sources = dict.fromkeys(Settings.__struct_fields__, "default")
    sources |= {name: f"{file}:{line}" for name, line in lines.items()} | dict.fromkeys(own, "command line")
    return Configured(_settings(values), sources, file)


def _settings(values: Mapping[str, object]) -> Settings:
    def converted(kind: type, value: object) -> object:
        return expanded(Path(value)) if kind is Path and isinstance(value, str) else value

    return msgspec.convert(values, thread_safe(Settings), dec_hook=converted)


def _read(file: Path) -> tuple[dict[str, object], dict[str, int]]:
    """Returns the values in a file, converted to the types of the settings, and their line numbers."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"The configuration '{file}' cannot be read: {reason}.", "Check --config.") from None
    try:
        plain: dict[str, object] = read_toml(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not TOML: {error}.", "Write lines such as `port = 8080`.") from None
    lines = {name: _line_of(name, text) for name in plain}
    for name, value in plain.items():
        if isinstance(value, dict):
            lines |= {f"{name}.{key}": _line_of(key, text, lines[name]) for key in value}
    for name, value in plain.items():
        wrong, hint = _wrong(name, value)
        if wrong:
            raise ConfigError(f"{file}, line {lines[name]}: {wrong}", hint)
    return plain, lines


def _line_of(name: str, text: str, first: int = 1) -> int:
    """Returns the number of the line that sets a name, from line `first` on; `first` if no line does."""
    key = re.compile(rf"\s*\[?\[?\s*[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    lines = enumerate(text.splitlines()[first - 1 :], first)
    return next((number for number, line in lines if key.match(line)), first)


def _wrong(name: str, value: object) -> tuple[str, str]:
    """Returns what is wrong with one value and what to do; empty if it can be used."""
    if name not in Settings.__struct_fields__:
        return f"there is no setting '{name}'.", nearest(name, Settings.__struct_fields__, "See docs/agent.md.")
    if name in _PATHS:
        return (
            ("", "") if isinstance(value, str) else (f"'{name}' must be a text.", 'For instance "/srv/edgeopt".')
        )
    if name == "fetch_from" and isinstance(value, list) and (reason := _wrong_prefix(value)):
        return f"'{name}' has an entry that is no URL prefix: {reason}.", 'For instance ["https://host/bundles/"].'
    if name == "put_to" and isinstance(value, list) and (reason := _wrong_store(value)):
        return f"'{name}' has an entry that cannot be used: {reason}.", 'For instance ["https://host/bundles/"].'
    if name == "mqtt":
        return _wrong_mqtt(value)
    if name == "drift":
        return _wrong_drift(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        maximum = _MAX.get(name, _LARGEST)
        if not (math.isfinite(value) and 0 <= value <= maximum):
            return f"'{name}' is {value}; it must be from 0 to {maximum:.15g}.", "Correct the value."
    try:
        _settings({"data_dir": Path(), name: value})
    except msgspec.ValidationError as error:
        return f"'{name}' is wrong: {str(error).split(' - at')[0]}.", "docs/agent.md lists the settings."
    return "", ""


def _wrong_mqtt(value: object) -> tuple[str, str]:
    example = 'Write [mqtt] and, below it, url = "mqtts://broker.example.com".'
    wrong = _wrong_table("mqtt", value, MqttSettings, "docs/fleet.md", example)
    found = None if wrong else _settings({"data_dir": Path(), "mqtt": value}).mqtt
    return wrong or (("", "") if found is None else wrong_mqtt(found))


def _wrong_drift(value: object) -> tuple[str, str]:
    wrong = _wrong_table("drift", value, DriftSettings, "docs/agent.md", "Write [drift], with nothing below it.")
    found = None if wrong else _settings({"data_dir": Path(), "drift": value}).drift
    return wrong or (("", "") if found is None else (wrong_drift(found), "Correct the value."))


def _wrong_table(
    name: str, value: object, kind: type[msgspec.Struct], page: str, example: str
) -> tuple[str, str] | None:
    """Returns what is wrong with the keys and types of a table and what to do; None if nothing is."""
    if not isinstance(value, dict):
        return f"'{name}' must be a table.", example
    for each in value:
        if each not in kind.__struct_fields__:
            return f"there is no setting '{name}.{each}'.", nearest(each, kind.__struct_fields__, f"See {page}.")
    try:
        _settings({"data_dir": Path(), name: value})
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        return f"'{place.rstrip('`') or name}' is wrong: {reason}.", f"{page} lists the settings."
    return None


def _wrong_prefix(values: Sequence[object]) -> str:
    """Returns what is wrong with the first entry that cannot be used; empty if all can."""
    for value in values:
        try:
            read_prefix(str(value))
        except ValueError as error:
            return str(error)
    return ""


def _wrong_store(values: Sequence[object]) -> str:
    """Returns the first fault of places for uploads: what is sent over plain HTTP could be changed."""
    if reason := _wrong_prefix(values):
        return f"it is no URL prefix: {reason}"
    places = (read_prefix(str(value)) for value in values)
    plain = (each for each in places if each.scheme != "https" and not is_this_device(each.host))
    return "it must begin with https://, except on loopback" if any(plain) else ""


def reloaded(old: Settings, new: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Returns the settings after a reload, and the names of those that changed but wait for a restart."""
    changed = [name for name in Settings.__struct_fields__ if getattr(old, name) != getattr(new, name)]
    waiting = tuple(name for name in changed if name in NEEDS_RESTART)
    return msgspec.structs.replace(new, **{name: getattr(old, name) for name in NEEDS_RESTART}), waiting
