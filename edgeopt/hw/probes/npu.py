"""NPUs: the kernel's class for compute accelerators, and the device nodes of drivers that came before it."""

import re

from edgeopt.hw.device import Accelerator, Unavailable
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host

ACCEL_FOLDER = "/sys/class/accel"
_VENDORS = {"0x8086": "Intel NPU", "0x1022": "AMD NPU", "0x1da3": "Habana accelerator"}
_NODES = (
    (r"hailo\d+", "Hailo NPU", "hailo_pci"),
    (r"apex_\d+", "Coral Edge TPU", "apex"),
    (r"rknpu\d*", "Rockchip NPU", "rknpu"),
)


def probe(host: Host) -> Facts | Unavailable:
    found: list[Accelerator] = []
    sources = []
    for node in host.list(ACCEL_FOLDER):
        if not re.fullmatch(r"accel\d+", node):
            continue
        folder = f"{ACCEL_FOLDER}/{node}/device"
        vendor = (host.read(f"{folder}/vendor") or "").strip()
        driver = re.search(r"^DRIVER=(\S+)$", host.read(f"{folder}/uevent") or "", re.MULTILINE)
        named = driver[1] if driver else None
        found.append(Accelerator("npu", _VENDORS.get(vendor, f"{named or 'unnamed'} NPU"), driver=named))
        sources.append(f"{ACCEL_FOLDER}/{node}")
    for entry in host.list("/dev"):
        for pattern, name, driver_name in _NODES:
            if re.fullmatch(pattern, entry):
                found.append(Accelerator("npu", name, driver=driver_name))
                sources.append(f"/dev/{entry}")
    if not found:
        return Unavailable(f"no compute accelerator ({ACCEL_FOLDER}) and no device node of a known NPU")
    return Facts(tuple(found), {"accelerators.npu": ", ".join(sources)})
