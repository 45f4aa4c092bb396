"""GPUs with a driver in the kernel's DRM: by their render nodes in sysfs."""

from collections.abc import Callable

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Finding, Sheet, blocked
from edgeopt.hw.host import Host
from edgeopt.hw.probes.gpu import amd, intel, soc

FOLDER = "/sys/class/drm"
VENDORS = {"8086": "Intel", "1002": "AMD", "10de": "NVIDIA"}

# Displays and NPUs that have a render node too.
_NO_GPUS = frozenset({"rockchip-drm", "RKNPU", "rknpu", "tegra-host1x", "drm", "imx-drm", "vgem", "vkms"})

Fill = Callable[[Host, Sheet, str, dict[str, str]], None]
_FILL: dict[str, Fill] = {"AMD": amd.fill, "Intel": intel.fill}


def find(host: Host, *, skip_nvidia: bool) -> Finding:
    """Without displays of virtual machines and of servers' management chips, on which nothing computes.

    Those of NVIDIA, and on a Jetson that of the chip itself, are left out where they were found in another way.
    """
    sheets = []
    for node in host.list(FOLDER):
        if not node.startswith("renderD"):
            continue
        folder = f"{FOLDER}/{node}/device"
        lines = accelerators.uevent(host, folder)
        ids = _ids(host, folder, lines)
        vendor = VENDORS.get(ids[0]) if ids else None
        if ids and not vendor:
            continue
        if not ids and lines.get("DRIVER", "drm") in _NO_GPUS:
            continue
        if skip_nvidia and (vendor == "NVIDIA" or lines.get("DRIVER", "").startswith(("nvidia", "tegra"))):
            continue
        sheet = Sheet("gpu", slot=lines.get("PCI_SLOT_NAME"))
        sheet.put("driver", lines.get("DRIVER"), f"{folder}/uevent", "nothing is bound to it")
        if ids and vendor:
            sheet.put("vendor", vendor, f"{folder}/uevent")
            _FILL.get(vendor, _foreign)(host, sheet, folder, lines)
            known = accelerators.pci_name(host, *ids)
            if known:
                sheet.put("name", f"{vendor} {known[0].removeprefix(vendor).strip()}", known[1])
            sheet.put("name", f"{vendor} GPU 0x{ids[1]}", f"{folder}/uevent")
        else:
            soc.fill(host, sheet, folder, lines)
        if why := blocked(host, f"/dev/dri/{node}", "the GPU"):
            sheet.notes.append(why)
        sheets.append(sheet)
    return Finding(tuple(sheets), {}, (FOLDER,) if sheets else ())


def _ids(host: Host, folder: str, lines: dict[str, str]) -> tuple[str, str] | None:
    device = accelerators.parse_pci("", lines)
    if device:
        return device.vendor, device.device
    vendor, model = ((host.read(f"{folder}/{part}") or "").strip() for part in ("vendor", "device"))
    return (vendor.removeprefix("0x").lower(), model.removeprefix("0x").lower()) if vendor else None


def _foreign(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:  # noqa: ARG001 - the same for all
    sheet.driven_by(host, (), ())
    sheet.notes.append(f"The driver {lines.get('DRIVER', 'in use')} runs no CUDA: install NVIDIA's own.")
