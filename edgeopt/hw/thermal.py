"""Temperature of the device, and throttling because of heat or lack of power."""

import re
from typing import NamedTuple

from edgeopt.hw import kernel_text, sensors
from edgeopt.hw.host import Host

# drivers/firmware/raspberrypi.c shows what the firmware's "get throttled" answers, in hexadecimal.
_RASPBERRY_PI = "/sys/devices/platform/soc/soc:firmware/get_throttled"
_RASPBERRY_PI_BITS = (
    (0, "the supply voltage is too low"),
    (1, "the firmware caps the clock"),
    (2, "the firmware throttles the clock"),
    (3, "the soft temperature limit is reached"),
)
_SINCE_BOOT_SHIFT = 16
_X86_FOLDER = "/sys/devices/system/cpu/cpu0/thermal_throttle"
_COOLING = re.compile(r"cpufreq|cpuidle|processor", re.IGNORECASE)
_NEAR_C = 3.0
_MAX_ZONES = 32
_MAX_COUNT = 1 << 40


class Throttling(NamedTuple):
    now: tuple[str, ...]
    before: tuple[str, ...]
    """Since the boot, but not (or not known to be) now."""
    source: str


class Hot(NamedTuple):
    zone: str
    temperature_c: float
    limit_c: float


class Limit(NamedTuple):
    zone: str
    file: str
    """File with the zone's temperature."""
    limit_c: float


def temperatures(host: Host) -> tuple[dict[str, float], tuple[str, ...]]:
    """Returns temperatures by the sensor's name, and their files; without zones, of the CPU's hwmon sensors."""
    found: dict[str, float] = {}
    files = []
    paths = [f"{sensors.ZONES}/{zone}/temp" for zone in _zones(host)] or sensors.temperature_files(host)
    for path in paths:
        degrees = sensors.temperature_c(host, path)
        if degrees is None:
            continue
        name = base = _name(host, path)
        while name in found:
            name = f"{base} ({sum(key.startswith(base) for key in found) + 1})"
        found[name] = round(degrees, 1)
        files.append(path)
    return found, tuple(files)


def hot(host: Host, known: tuple[Limit, ...] | None = None) -> tuple[Hot, ...]:
    """The zones that are at, or within 3 degrees of, the point from which on the device is slowed down.

    `known`: the answer of `limits`, for who asks often.
    """
    found = []
    for zone, path, limit_c in limits(host) if known is None else known:
        degrees = sensors.temperature_c(host, path)
        if degrees is not None and degrees >= limit_c - _NEAR_C:
            found.append(Hot(zone, degrees, limit_c))
    return tuple(found)


def limits(host: Host) -> tuple[Limit, ...]:
    """Returns the temperature above which each zone slows the device down."""
    found = []
    for zone in _zones(host):
        folder = f"{sensors.ZONES}/{zone}"
        points = [
            limit
            for name in host.list(folder)
            if re.fullmatch(r"trip_point_\d+_type", name)
            and (host.read(f"{folder}/{name}") or "").strip() in {"passive", "hot", "critical"}
            and (limit := sensors.temperature_c(host, f"{folder}/{name[:-5]}_temp")) is not None
            and limit > 0
        ]
        if points:
            found.append(Limit(_name(host, f"{folder}/temp"), f"{folder}/temp", min(points)))
    return tuple(found)


def throttling(host: Host, cooling: dict[str, str] | None = None) -> Throttling | None:
    """Returns what slows the device down now or has done so since boot; None: the device does not report it.

    `cooling`: the result of `cooling_files`, for callers that ask often.
    """
    now: list[str] = []
    before: list[str] = []
    sources = []
    flags = kernel_text.whole(
        "0x" + text.strip().removeprefix("0x") if (text := host.read(_RASPBERRY_PI)) else None
    )
    if flags is not None and 0 <= flags < 1 << 32:
        sources.append(_RASPBERRY_PI)
        now += [words for bit, words in _RASPBERRY_PI_BITS if flags >> bit & 1]
        before += [words for bit, words in _RASPBERRY_PI_BITS if flags >> (bit + _SINCE_BOOT_SHIFT) & 1]
    counts = x86_counts(host)
    if counts:
        sources.append(_X86_FOLDER)
        before += [f"the {part} was throttled {count} times" for part, count in counts.items() if count]
    active = _active(host, cooling_files(host) if cooling is None else cooling)
    if active:
        sources.append(f"{sensors.ZONES}/cooling_device*")
        now += [f"the kernel's thermal governor limits the clock ({name})" for name, on in active.items() if on]
    if not sources:
        return None
    return Throttling(tuple(now), tuple(words for words in before if words not in now), ", ".join(sources))


def cooling_files(host: Host) -> dict[str, str]:
    """The files that say how much each device that cools by slowing the CPU down does so, with its kind."""
    found = {}
    for name in host.list(sensors.ZONES)[: 4 * _MAX_ZONES]:
        folder = f"{sensors.ZONES}/{name}"
        kind = (host.read(f"{folder}/type") or "").strip() if name.startswith("cooling_device") else ""
        if _COOLING.search(kind):
            found[f"{folder}/cur_state"] = kind
    return found


def x86_counts(host: Host) -> dict[str, int]:
    """Both are counted since the boot, and by the hardware of the first core for its whole package."""
    read = {
        part: kernel_text.whole(host.read(f"{_X86_FOLDER}/{part}_throttle_count")) for part in ("core", "package")
    }
    return {part: count for part, count in read.items() if count is not None and 0 <= count < _MAX_COUNT}


def _active(host: Host, files: dict[str, str]) -> dict[str, bool]:
    """Returns, for each kind of cooling device, whether one slows the CPU down now."""
    found: dict[str, bool] = {}
    for path, kind in files.items():
        level = kernel_text.whole(host.read(path))
        if level is not None and level >= 0:
            found[kind] = found.get(kind, False) or level > 0
    return found


def _zones(host: Host) -> tuple[str, ...]:
    return tuple(name for name in host.list(sensors.ZONES) if name.startswith("thermal_zone"))[:_MAX_ZONES]


def _name(host: Host, path: str) -> str:
    """`cpu-thermal` of a zone's type; `coretemp Package id 0` of a chip's name and label."""
    folder, _, file = path.rpartition("/")
    if file == "temp":
        return _word(host.read(f"{folder}/type")) or folder.rpartition("/")[2]
    label = _word(host.read(f"{folder}/{file.removesuffix('_input')}_label"))
    return f"{_word(host.read(f'{folder}/name'))} {label or file.removesuffix('_input')}"


def _word(text: str | None) -> str:
    word = (text or "").strip().partition("\n")[0][:40]
    return word if word.isprintable() else ""
