"""NPUs that are plugged in or soldered on, but that no driver shows: by PCI id, USB id and device tree."""

import re

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Finding, Sheet, blocked, number
from edgeopt.hw.host import Host
from edgeopt.hw.probes.npu.accel import describe
from edgeopt.hw.probes.npu.makers import USB_MODELS, Maker, of_pci

USB_FOLDER = "/sys/bus/usb/devices"


def find(host: Host, slots: frozenset[str], vendors: frozenset[str]) -> Finding:
    """Beside those at `slots`, and of makers whose NPU was found without its slot."""
    sheets: list[Sheet] = []
    places: list[str] = []
    for device in accelerators.pci_devices(host):
        known = of_pci(device.vendor, device.device)
        if known and device.slot not in slots and known[0].vendor not in vendors:
            sheets.append(_on_pci(host, device, *known))
            places.append(f"{accelerators.PCI_FOLDER}/{device.slot}")
    for name in host.list(USB_FOLDER):
        if not re.fullmatch(r"\d+-[\d.]+", name):
            continue  # hubs at the root and the interfaces of devices
        folder = f"{USB_FOLDER}/{name}"
        vendor = (host.read(f"{folder}/idVendor") or "").strip().lower()
        if vendor not in {key[0] for key in USB_MODELS}:
            continue
        found = USB_MODELS.get((vendor, (host.read(f"{folder}/idProduct") or "").strip().lower()))
        if found:
            sheets.append(_on_usb(host, folder, *found))
            places.append(folder)
    return Finding(tuple(sheets), {}, tuple(places))


def _on_pci(host: Host, device: accelerators.PciDevice, maker: Maker, name: str) -> Sheet:
    source = f"{accelerators.PCI_FOLDER}/{device.slot}/uevent"
    sheet = Sheet("npu", slot=device.slot)
    sheet.put("name", name, source)
    sheet.put("driver", device.driver, source, f"no driver is bound to it; {maker.driver} would be")
    describe(host, sheet, maker, source)
    sheet.notes.append(
        f"Its driver {device.driver} shows no device node: dmesg says why, or a container hides it."
        if device.driver
        else f"No driver is bound to it: install and load {maker.driver}."
    )
    return sheet


def _on_usb(host: Host, folder: str, maker: Maker, name: str) -> Sheet:
    """Driven from user space (libedgetpu), through USB's own nodes."""
    sheet = Sheet("npu")
    sheet.put("name", name, f"{folder}/idVendor, idProduct")
    sheet.put("driver", "usbfs", f"{folder}/idVendor, idProduct")
    describe(host, sheet, maker, f"{folder}/idVendor, idProduct")
    bus, place = (number(host.read(f"{folder}/{part}")) for part in ("busnum", "devnum"))
    if bus is not None and place is not None:
        why = blocked(host, f"/dev/bus/usb/{bus:03}/{place:03}", "the USB device")
        sheet.notes.extend([why] if why else [])
    return sheet
