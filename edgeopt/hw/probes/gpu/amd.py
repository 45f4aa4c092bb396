"""AMD GPUs: what `amdgpu` writes into sysfs (the kernel's Documentation/gpu/amdgpu)."""

import re

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Sheet, number
from edgeopt.hw.host import Host

_NAMES = "/usr/share/libdrm/amdgpu.ids"
_KFD = "/dev/kfd"
_INSIDE_A_CPU = {"\x01": False, "\x02": True, "\x03": True}
"""By the first number of the format of `gpu_metrics`."""


def fill(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:
    _name(host, sheet, folder, lines)
    accelerators.numa_node(host, sheet, folder)
    memory = f"{folder}/mem_info_vram_total"
    total, used = number(host.read(memory)), number(host.read(f"{folder}/mem_info_vram_used"))
    sheet.put("memory_total_bytes", total, memory, "amdgpu does not report it (no mem_info_vram_total)")
    if total is not None and used is not None:
        sheet.put("memory_free_bytes", total - used, f"{folder}/mem_info_vram_used")
    clocks = re.findall(
        r"^\d+: (\d+)Mhz( \*)?", host.read(f"{folder}/pp_dpm_sclk") or "", re.MULTILINE | re.IGNORECASE
    )
    source = f"{folder}/pp_dpm_sclk"
    sheet.put(
        "clock_max_hz",
        max((int(mhz[:6]) for mhz, _ in clocks), default=0) * 10**6 or None,
        source,
        "no pp_dpm_sclk",
    )
    if accelerators.asleep(host, sheet, folder):
        pass  # the files below would wake it, for a second and some watts
    else:
        current = next((int(mhz[:6]) * 10**6 for mhz, star in clocks if star), None)
        sheet.put("clock_hz", current or None, source, "amdgpu does not report it")
        busy = f"{folder}/gpu_busy_percent"
        sheet.put(
            "utilization_percent", number(host.read(busy)), busy, "amdgpu does not report it (no gpu_busy_percent)"
        )
        accelerators.hwmon(host, sheet, folder)
        header = (host.read(f"{folder}/gpu_metrics") or "")[2:3]
        sheet.put("memory_shared", _INSIDE_A_CPU.get(header), f"{folder}/gpu_metrics")
    _drive(host, sheet)


def _name(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:
    """Cards of servers have it in their own memory; others by device and revision in libdrm's list."""
    sheet.put("name", (host.read(f"{folder}/product_name") or "").strip(), f"{folder}/product_name")
    device = lines.get("PCI_ID", "").partition(":")[2].upper()
    revision = (host.read(f"{folder}/revision") or "").strip().removeprefix("0x").upper()
    if "name" in sheet.values or not device or not revision:
        return
    found = re.search(rf"^{device},\s*{re.escape(revision)},\s*(.+)$", host.read(_NAMES) or "", re.MULTILINE)
    sheet.put("name", found and found[1], _NAMES)


def _drive(host: Host, sheet: Sheet) -> None:
    sheet.driven_by(host, ("rocm", "migraphx"), ("onnxruntime-migraphx", "onnxruntime-rocm"))
    names = host.list("/dev")
    if names and "kfd" not in names:
        sheet.notes.append(
            f"{_KFD} is missing. ROCm needs it: install amdgpu's compute part, or pass it to the container."
        )
