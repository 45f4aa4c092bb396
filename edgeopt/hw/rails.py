"""Power meters on boards: INA chips, as hwmon shows them; Jetson boards measure several rails with one or two."""

import re
from typing import NamedTuple

from edgeopt.hw import kernel_text, sensors
from edgeopt.hw.host import Host

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
    for chip in host.list(sensors.CHIPS):
        folder = f"{sensors.CHIPS}/{chip}"
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
    """What flows through it now; None where it cannot be read."""
    microwatts = kernel_text.whole(host.read(f"{rail.folder}/power{rail.channel}_input"))
    if microwatts is not None:
        return microwatts / 1e6
    volts, amperes = (
        kernel_text.whole(host.read(f"{rail.folder}/{kind}{rail.channel}_input")) for kind in ("in", "curr")
    )
    return None if volts is None or amperes is None else volts * amperes / 1e6  # millis of both
