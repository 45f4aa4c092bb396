"""PCI devices and their names: the kernel's `uevent` files, and the list of names that distributions install."""

import re
from typing import NamedTuple

from edgeopt.hw.host import Host

FOLDER = "/sys/bus/pci/devices"
NAME_FILES = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")
_LINE = re.compile(r"^([A-Z0-9_]+)=(.*)$", re.MULTILINE)
_ID = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{4})")


class PciDevice(NamedTuple):
    slot: str
    vendor: str
    """Four hexadecimal digits in lower case: `10de`."""
    device: str
    kind: int
    """The class code: 0x03.... is a display controller, 0x12.... a processing accelerator."""
    driver: str | None


def uevent(host: Host, folder: str) -> dict[str, str]:
    """The lines of a device's `uevent`: DRIVER, PCI_ID, OF_COMPATIBLE_0, ..."""
    return dict(_LINE.findall(host.read(f"{folder}/uevent") or ""))


def devices(host: Host) -> tuple[PciDevice, ...]:
    return tuple(found for slot in host.list(FOLDER) if (found := parse(slot, uevent(host, f"{FOLDER}/{slot}"))))


def parse(slot: str, lines: dict[str, str]) -> PciDevice | None:
    ids = _ID.fullmatch(lines.get("PCI_ID", ""))
    try:
        kind = int(lines.get("PCI_CLASS", ""), 16)
    except ValueError:
        kind = 0
    if not ids:
        return None
    vendor, device = (part.lower() for part in ids.groups())
    return PciDevice(lines.get("PCI_SLOT_NAME", slot), vendor, device, kind, lines.get("DRIVER"))


def name(host: Host, vendor: str, device: str) -> tuple[str, str] | None:
    """A device's name and the file that has it; the part in brackets is the product name."""
    for file in NAME_FILES:
        text = host.read(file)
        start = re.search(rf"^{vendor}  ", text, re.MULTILINE) if text else None
        if not text or not start:
            continue
        end = re.compile(r"^[0-9a-f]{4}  ", re.MULTILINE).search(text, start.end())
        line = re.compile(rf"^\t{device}  (.+)$", re.MULTILINE).search(
            text, start.end(), end.start() if end else len(text)
        )
        if line:
            marketed = re.search(r"\[([^\[\]]+)\]\s*$", line[1])
            return (marketed[1] if marketed else line[1]).strip(), file
    return None
