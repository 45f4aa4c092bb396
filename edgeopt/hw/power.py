"""The device's power source, and how much it draws if that is reported."""

import re
from typing import NamedTuple

from edgeopt.hw import kernel_text, sensors
from edgeopt.hw.host import Host, LocalHost

SUPPLIES = "/sys/class/power_supply"
RAPL = "/sys/class/powercap"
_MODULE = "edgeopt.hw.power"
_MAX_W = 100_000.0
_LOOK_S = 0.005


class Supply(NamedTuple):
    source: str | None
    """`mains` or `battery`."""
    battery_percent: float | None
    file: str


class Draw(NamedTuple):
    power_w: float
    source: str


def supply(host: Host) -> Supply | None:
    """Returns the power supply, or None if it is unknown, as on most boards and servers without a battery."""
    online = False
    batteries: list[tuple[str, str]] = []
    for name in host.list(SUPPLIES)[:64]:
        folder = f"{SUPPLIES}/{name}"
        kind = _word(host, f"{folder}/type")
        if kind in {"Mains", "USB", "Wireless"}:
            online = online or _word(host, f"{folder}/online") == "1"
        elif kind == "Battery" and _word(host, f"{folder}/scope") != "Device":  # that of a mouse
            batteries.append((folder, _word(host, f"{folder}/status")))
    if batteries:
        folder, status = next((b for b in batteries if b[1] == "Discharging"), batteries[0])
        capacity = kernel_text.whole(host.read(f"{folder}/capacity"))
        percent = float(capacity) if capacity is not None and 0 <= capacity <= 100 else None
        if status == "Discharging" and not online:
            return Supply("battery", percent, folder)
        on_mains = online or status in {"Charging", "Full", "Not charging"}
        return Supply("mains" if on_mains else None, percent, folder)
    if online:
        return Supply("mains", None, SUPPLIES)
    if str(host.call("platform", "system")) in {"Darwin", "Windows"}:
        return _from_psutil(host)
    return None


def draw(host: Host) -> Draw | None:
    """Returns the present power of the whole device, its board or its CPU; the source says which of these."""
    return of_battery(host) or _of_board(host) or _of_packages(host)


def package_power_w() -> float | None:
    """Returns the power of this machine's CPU packages in W, from two readings of the kernel's RAPL counters."""
    import time

    host = LocalHost(cache_folder=None)
    folders = _packages(host)
    before, start_s = _energies(host, folders), time.monotonic()
    if not before:
        return None
    time.sleep(_LOOK_S)
    after, end_s = _energies(host, folders), time.monotonic()
    used = sum(after[f] - energy for f, energy in before.items() if f in after and after[f] >= energy)
    return used / 1e6 / (end_s - start_s)


def of_battery(host: Host) -> Draw | None:
    """Returns the power that the whole device draws from a discharging battery."""
    for name in host.list(SUPPLIES)[:64]:
        folder = f"{SUPPLIES}/{name}"
        if _word(host, f"{folder}/type") != "Battery" or _word(host, f"{folder}/status") != "Discharging":
            continue
        if _word(host, f"{folder}/scope") == "Device":
            continue
        microwatts = kernel_text.whole(host.read(f"{folder}/power_now"))
        if microwatts is None:
            current, voltage = (kernel_text.whole(host.read(f"{folder}/{f}_now")) for f in ("current", "voltage"))
            microwatts = None if current is None or voltage is None else abs(current) * voltage // 10**6
        if (drawn := _plausible(microwatts, 1e6)) is not None:
            return Draw(drawn, f"{folder} (the whole device, from its battery)")
    return None


def _of_board(host: Host) -> Draw | None:
    """The board's own meter: an INA chip at the input, as Jetson boards have."""
    measured = sensors.board_rails(host)
    watts = [watts for rail in measured if (watts := sensors.rail_w(host, rail)) is not None]
    drawn = _plausible(sum(watts), 1)
    if drawn is None:
        return None
    return Draw(drawn, f"{measured[0].folder} (the board: {', '.join(rail.label for rail in measured)})")


def _of_packages(host: Host) -> Draw | None:
    if not _packages(host):
        return None
    measured = host.call(_MODULE, "package_power_w")
    drawn = _plausible(measured, 1) if isinstance(measured, int | float) else None
    return None if drawn is None else Draw(drawn, f"{RAPL}/intel-rapl:* (the CPU packages)")


def _packages(host: Host) -> tuple[str, ...]:
    return tuple(zone for zone, name in rapl_zones(host).items() if name.startswith("package"))


def rapl_zones(host: Host) -> dict[str, str]:
    """The folders of what the kernel counts energy of, with its name: `package-0`, `dram`, `core`, `psys`.

    The zone psys is the whole platform, and core and uncore are parts of a package: all counted again. Memory
    (dram) stands below its package and is not part of it.
    """
    names = (name for name in host.list(RAPL) if re.fullmatch(r"intel-rapl(:\d+){1,2}", name))
    return {f"{RAPL}/{name}": _word(host, f"{RAPL}/{name}/name") for name in names}


def _energies(host: Host, folders: tuple[str, ...]) -> dict[str, int]:
    read = {folder: kernel_text.whole(host.read(f"{folder}/energy_uj")) for folder in folders}
    return {folder: energy for folder, energy in read.items() if energy is not None}


def _from_psutil(host: Host) -> Supply | None:
    answer = host.call("psutil", "sensors_battery")
    if not isinstance(answer, dict):
        return None
    percent, plugged = answer.get("percent"), answer.get("power_plugged")
    known = float(percent) if isinstance(percent, int | float) and 0 <= percent <= 100 else None
    source = ("mains" if plugged else "battery") if isinstance(plugged, bool) else None
    return Supply(source, known, "psutil.sensors_battery()")


def _plausible(value: float | None, scale: float) -> float | None:
    """Rounded to milliwatts; None where it can be no power of a device, or a meter that stands still."""
    if value is None or not 0 < value <= _MAX_W * scale:
        return None
    return round(value / scale, 3) or None


def _word(host: Host, path: str) -> str:
    word = (host.read(path) or "").strip()[:40]
    return word if word.isprintable() else ""
