"""The kernel's class for compute accelerators (drivers/accel): Intel, AMD, Qualcomm's cards, Rockchip, Ethos-U."""

import re

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Finding, Sheet, blocked, number
from edgeopt.hw.host import Host
from edgeopt.hw.probes.npu.makers import DRIVERS, Maker, of_pci

FOLDER = "/sys/class/accel"


def find(host: Host) -> Finding:
    found = tuple(
        (f"{FOLDER}/{node}", _sheet(host, node))
        for node in host.list(FOLDER)
        if re.fullmatch(r"accel\d{1,4}", node)
    )
    return Finding(tuple(sheet for _, sheet in found), {}, tuple(place for place, _ in found))


def _sheet(host: Host, node: str) -> Sheet:
    folder = f"{FOLDER}/{node}/device"
    lines = accelerators.uevent(host, folder)
    driver = lines.get("DRIVER")
    sheet = Sheet("npu", slot=lines.get("PCI_SLOT_NAME"))
    sheet.put("driver", driver, f"{folder}/uevent", "the kernel does not report it")
    vendor, device = _ids(host, folder, lines)
    known = of_pci(vendor, device)
    maker = known[0] if known else DRIVERS.get(driver or "")
    # AMD's driver knows its models better than their PCI ids do.
    board = (host.read(f"{folder}/vbnv") or "").strip() if driver == "amdxdna" else ""
    sheet.put("name", f"AMD XDNA NPU ({board.removeprefix('NPU ')})" if board else None, f"{folder}/vbnv")
    sheet.put("name", known[1] if known else maker and maker.name, f"{folder}/uevent")
    sheet.put("name", f"{driver or 'unnamed'} NPU", f"{folder}/uevent")
    if maker:
        describe(host, sheet, maker, f"{folder}/uevent")
    else:
        sheet.driven_by(host, (), ())
    if driver == "intel_vpu":
        _intel(host, sheet, folder)
    accelerators.numa_node(host, sheet, folder)
    if why := blocked(host, f"/dev/accel/{node}", "the NPU"):
        sheet.notes.append(why)
    return sheet


def describe(host: Host, sheet: Sheet, maker: Maker, source: str) -> None:
    """What holds for every NPU of a maker."""
    sheet.put("vendor", maker.vendor, source)
    sheet.put("memory_shared", maker.shares_memory, source)
    sheet.driven_by(host, maker.apis, maker.runtimes)


def _intel(host: Host, sheet: Sheet, folder: str) -> None:
    for name, file in (("clock_max_hz", "npu_max_frequency_mhz"), ("clock_hz", "npu_current_frequency_mhz")):
        value = number(host.read(f"{folder}/{file}"), 1e6)
        sheet.put(
            name,
            value or None,
            f"{folder}/{file}",
            "this kernel's intel_vpu does not report it, or the NPU sleeps",
        )


def _ids(host: Host, folder: str, lines: dict[str, str]) -> tuple[str, str]:
    device = accelerators.parse_pci("", lines)
    if device:
        return device.vendor, device.device
    vendor, model = ((host.read(f"{folder}/{part}") or "").strip() for part in ("vendor", "device"))
    return vendor.removeprefix("0x").lower(), model.removeprefix("0x").lower()
