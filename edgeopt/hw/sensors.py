"""Files in which the kernel shows clocks, temperatures, load and power, and functions that read them."""

import re
from typing import NamedTuple

from edgeopt.hw import kernel_text
from edgeopt.hw.host import Host

ZONES = "/sys/class/thermal"
CHIPS = "/sys/class/hwmon"
_CPUS = "/sys/devices/system/cpu"
# Boards and vendors name the zone of the CPU or of the whole chip in their own ways.
_CPU_ZONE = re.compile(r"cpu|soc|pkg|package|core|cluster|tsens", re.IGNORECASE)
_CPU_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal", "scpi_sensors"})
# Some zones answer with an absurd number while their part of the chip is switched off.
_COLDEST_C, _HOTTEST_C = -50.0, 200.0
_FASTEST_KHZ = 100_000_000
# On a server with hundreds of cores these speak for all: each file costs the kernel some microseconds.
_MAX_FILES = 16


class Ticks(NamedTuple):
    """Since the boot, all cores together, in ticks of the kernel's clock."""

    total: int
    idle: int
    stolen: int


def cpu_ticks(host: Host) -> Ticks | None:
    first = (host.read("/proc/stat") or "").partition("\n")[0].split()
    if first[:1] != ["cpu"] or len(first) < 5 or not all(is_count(word) for word in first[1:]):
        return None
    # user nice system idle iowait irq softirq steal; guests are counted under user already.
    ticks = [int(word) for word in first[1:9]]
    return Ticks(sum(ticks), sum(ticks[3:5]), ticks[7] if len(ticks) > 7 else 0)


def clock_files(host: Host) -> tuple[str, ...]:
    """Returns the files with the present clock of each core; of very many cores, some."""
    cpus = (name for name in host.list(_CPUS) if name.startswith("cpu") and is_count(name[3:]))
    folders = (f"{_CPUS}/{name}/cpufreq" for name in sorted(cpus, key=lambda n: int(n[3:])))
    return _spread([f"{folder}/scaling_cur_freq" for folder in folders if "scaling_cur_freq" in host.list(folder)])


def mean_clock_hz(host: Host, files: tuple[str, ...]) -> float | None:
    read = (kernel_text.whole(host.read(path)) for path in files)
    clocks = [kilohertz * 1e3 for kilohertz in read if kilohertz and 0 < kilohertz < _FASTEST_KHZ]
    return sum(clocks) / len(clocks) if clocks else None


def temperature_files(host: Host) -> tuple[str, ...]:
    """The sensors of the CPU or of the whole chip."""
    found = []
    for name in host.list(ZONES):
        kind = host.read(f"{ZONES}/{name}/type") if name.startswith("thermal_zone") else None
        if kind and _CPU_ZONE.search(kind):
            found.append(f"{ZONES}/{name}/temp")
    for name in host.list(CHIPS):
        if (host.read(f"{CHIPS}/{name}/name") or "").strip() in _CPU_CHIPS:
            inputs = [f for f in host.list(f"{CHIPS}/{name}") if re.fullmatch(r"temp\d+_input", f)]
            # The first one is that of the whole package.
            found += [f"{CHIPS}/{name}/{f}" for f in sorted(inputs, key=lambda f: (len(f), f))]
    return _spread(found)


def temperature_c(host: Host, path: str) -> float | None:
    """Returns the temperature, or None if the number cannot be one."""
    milli = kernel_text.whole(host.read(path))
    if milli is None or not _COLDEST_C < milli / 1000 < _HOTTEST_C:
        return None
    return milli / 1000


def is_count(word: str) -> bool:
    """Whether it is a whole number that can be a counter of the kernel."""
    # isdigit() alone accepts digits that int() rejects, and a number this long is not a count.
    return word.isascii() and word.isdigit() and len(word) < 20


def _spread(files: list[str]) -> tuple[str, ...]:
    """Returns at most `_MAX_FILES` of the files: the first, and others evenly spread."""
    step = max(1, -(-len(files) // _MAX_FILES))
    return tuple(files[::step])


# By the names in NVIDIA's device trees: what goes into the module as a whole.
_INPUT = re.compile(r"VDD_IN|POM_5V_IN|VIN", re.IGNORECASE)
_UNUSED = re.compile(r"NC|sum of shunt voltages", re.IGNORECASE)


class Rail(NamedTuple):
    label: str
    folder: str
    channel: int


def board_rails(host: Host) -> tuple[Rail, ...]:
    """The rail that feeds the whole board where one is named so, else all that are measured."""
    found = []
    for chip in host.list(CHIPS):
        folder = f"{CHIPS}/{chip}"
        if not re.fullmatch(r"ina\d\w*", (host.read(f"{folder}/name") or "").strip()):
            continue
        names = host.list(folder)
        channels = {int(name[4:-6]) for name in names if re.fullmatch(r"curr\d{1,2}_input", name)}
        channels |= {int(name[5:-6]) for name in names if re.fullmatch(r"power\d{1,2}_input", name)}
        for channel in sorted(channels):
            label = kernel_text.name(host.read(f"{folder}/in{channel}_label")) or f"channel {channel}"
            rail = Rail(label[:40], folder, channel)
            if not _UNUSED.fullmatch(label) and rail_w(host, rail) is not None:
                found.append(rail)
    whole = [rail for rail in found if _INPUT.fullmatch(rail.label)]
    return tuple(whole[:1] or found)


def rail_w(host: Host, rail: Rail) -> float | None:
    """Returns the present power of a rail, or None if it cannot be read."""
    microwatts = kernel_text.whole(host.read(f"{rail.folder}/power{rail.channel}_input"))
    if microwatts is not None:
        return microwatts / 1e6
    volts, amperes = (
        kernel_text.whole(host.read(f"{rail.folder}/{kind}{rail.channel}_input")) for kind in ("in", "curr")
    )
    return None if volts is None or amperes is None else volts * amperes / 1e6  # millis of both
