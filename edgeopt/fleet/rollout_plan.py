"""Selection of the devices of a rollout, and their division into waves."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from edgeopt.errors import InputError, UsageError
from edgeopt.fleet.devices import DeviceReport, known_names
from edgeopt.fleet.mqtt_topics import NAME
from edgeopt.nearest import nearest

_WAVES_HINT = "Write sizes and percentages, and 'rest' at the end: --waves 1,10%,rest"
_SHORT_LIST = 12


def selected(selection: str, devices: Mapping[str, DeviceReport]) -> tuple[str, ...]:
    """The devices of `--to`, in its order: names, patterns, LABEL=VALUE, @FILE, separated by commas."""
    known = tuple(known_names(devices))
    if not known:
        raise InputError(
            "No device has reported to the broker in this fleet.",
            "Check --broker, --fleet and --prefix. `edgeopt fleet devices` lists the devices.",
        )
    found: dict[str, None] = {}
    for word in _words(selection):
        matches = _matches(word, known, devices)
        if not matches:
            shown = nearest(
                word, known, "" if len(known) <= _SHORT_LIST else "`edgeopt fleet devices` lists them."
            )
            raise UsageError(f"No device of the fleet matches '{word}'.", shown)
        found |= dict.fromkeys(matches)
    return tuple(found)


def _words(selection: str) -> list[str]:
    words: list[str] = []
    for each in (part.strip() for part in selection.split(",")):
        if each.startswith("@"):
            words += _in_file(Path(each[1:]))
        elif each:
            words.append(each)
    if not words:
        raise UsageError("--to names no device.", "For instance: --to camera-1,camera-2, or --to 'camera-*'")
    return words


def _in_file(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The list of devices '{file}' cannot be read: {error}.", "Check --to.") from None
    return [line for line in lines if line and not line.startswith("#")]


def _matches(word: str, known: Sequence[str], devices: Mapping[str, DeviceReport]) -> list[str]:
    label, equals, value = word.partition("=")
    if equals:
        return [name for name in known if fnmatchcase(devices[name].labels.get(label, ""), value)]
    if NAME.fullmatch(word):
        return [word] if word in known else []
    return [name for name in known if fnmatchcase(name, word)]


def in_waves(text: str, names: Sequence[str], devices: Mapping[str, DeviceReport]) -> tuple[tuple[str, ...], ...]:
    """The devices in the waves of `--waves`: those that are online first, so that the first waves tell something.

    A percentage is of all devices, rounded up.
    """
    left = sorted(names, key=lambda name: not devices[name].online)
    waves: list[tuple[str, ...]] = []
    for word in (part.strip() for part in text.split(",")):
        size = _size(word, len(names), len(left))
        waves.append(tuple(left[:size]))
        left = left[size:]
    if left:
        reached = len(names) - len(left)
        raise UsageError(f"The waves reach {reached} of {len(names)} devices.", _WAVES_HINT)
    return tuple(wave for wave in waves if wave)


def _size(word: str, all_: int, left: int) -> int:
    if word == "rest":
        return left
    number = word.removesuffix("%")
    if not (number.isascii() and number.isdecimal()) or not int(number):
        raise UsageError(f"'{word}' is not the size of a wave.", _WAVES_HINT)
    return math.ceil(all_ * int(number) / 100) if word.endswith("%") else int(number)


def read_share(text: str, flag: str) -> float:
    """`2%` or `0.02` as a share from 0 to 1."""
    try:
        share = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise UsageError(f"'{text}' is not a share.", f"Write a percentage: {flag} 2%")
    return share
