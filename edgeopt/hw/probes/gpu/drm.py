"""GPUs by their render nodes in the kernel's DRM, else by the device node of their maker's own driver."""

import re
from collections.abc import Callable

from edgeopt.hw import kernel_text
from edgeopt.hw.accelerators import (
    Finding,
    Sheet,
    asleep,
    blocked,
    devfreq,
    device_ids,
    hwmon,
    numa_node,
    number,
    pci_name,
    uevent,
)
from edgeopt.hw.host import Host
from edgeopt.hw.provider_wheels import OPENVINO

_NAMES = "/usr/share/libdrm/amdgpu.ids"
_KFD = "/dev/kfd"
_INSIDE_A_CPU = {"\x01": False, "\x02": True, "\x03": True}
"""Whether a GPU is inside a CPU, by the first number of the format of `gpu_metrics`."""


def _fill_amd(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:
    _name(host, sheet, folder, lines)
    numa_node(host, sheet, folder)
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
    if not asleep(host, sheet, folder):  # else reading would wake it, for a second and some watts
        current = next((int(mhz[:6]) * 10**6 for mhz, star in clocks if star), None)
        sheet.put("clock_hz", current or None, source, "amdgpu does not report it")
        busy = f"{folder}/gpu_busy_percent"
        sheet.put(
            "utilization_percent", number(host.read(busy)), busy, "amdgpu does not report it (no gpu_busy_percent)"
        )
        hwmon(host, sheet, folder)
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


_INTEGRATED = "0000:00:02.0"
"""PCI slot of every GPU inside an Intel CPU; cards are on other buses."""


def _fill_intel(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:
    slot = lines.get("PCI_SLOT_NAME")
    if slot:
        sheet.put("memory_shared", slot == _INTEGRATED, f"{folder}/uevent: PCI_SLOT_NAME")
    if slot != _INTEGRATED:
        sheet.absent["memory_total_bytes"] = f"{lines.get('DRIVER', 'the driver')} does not report it in sysfs"
    numa_node(host, sheet, folder)
    largest, current = _clock_files(host, folder)
    sheet.put("clock_max_hz", number(host.read(largest), 1e6), largest, f"no {largest}")
    if not asleep(host, sheet, folder):
        # 0 while it idles in RC6, which is no clock.
        sheet.put("clock_hz", number(host.read(current), 1e6) or None, current, "it idles with its clock off")
        if slot != _INTEGRATED:
            hwmon(host, sheet, folder)
        sheet.absent.setdefault("utilization_percent", "the driver reports it only through perf")
    sheet.driven_by(host, ("openvino",), ("openvino", "onnxruntime-openvino", OPENVINO.distribution))


def _clock_files(host: Host, folder: str) -> tuple[str, str]:
    """The highest clock of the hardware and the one of now; the first tile speaks for all."""
    if "tile0" in host.list(folder):
        clocks = f"{folder}/tile0/gt0/freq0"
        return f"{clocks}/rp0_freq", f"{clocks}/act_freq"
    cards = [name for name in host.list(f"{folder}/drm") if name.startswith("card")]
    card = f"{folder}/drm/{cards[0] if cards else 'card0'}"
    return f"{card}/gt_RP0_freq_mhz", f"{card}/gt_act_freq_mhz"


# The driver of the kernel, the maker and what is said where the device tree tells no more.
_DRIVERS = {
    "v3d": ("Broadcom", "VideoCore"),
    "panfrost": ("Arm", "Mali"),
    "panthor": ("Arm", "Mali"),
    "lima": ("Arm", "Mali"),
    "msm": ("Qualcomm", "Adreno"),
    "msm_dpu": ("Qualcomm", "Adreno"),
    "adreno": ("Qualcomm", "Adreno"),
    "etnaviv": ("VeriSilicon", "Vivante"),
    "etnaviv-gpu": ("VeriSilicon", "Vivante"),
    "powervr": ("Imagination", "PowerVR"),
    "asahi": ("Apple", "AGX"),
}

_WITH_VULKAN = frozenset({"v3d", "panfrost", "panthor", "msm", "msm_dpu", "adreno", "powervr", "asahi"})

# What a `compatible` string of the device tree means.
_MODELS = (
    (r"brcm,2711-v3d", "VideoCore VI"),
    (r"brcm,2712-v3d", "VideoCore VII"),
    (r"rockchip,rk3588-mali", "Mali-G610"),
    (r"mediatek,mt8195-mali", "Mali-G57"),
    (r"mediatek,mt8192-mali", "Mali-G57"),
    (r"mediatek,mt8183-mali|mediatek,mt8186-mali", "Mali-Bifrost"),
    (r"arm,mali-valhall-csf|arm,mali-valhall-jm", "Mali (Valhall)"),
    (r"arm,mali-bifrost", "Mali (Bifrost)"),
    (r"arm,mali-(t\d{3}|\d{3})", "Mali-{0}"),
    (r"qcom,adreno-(\d{3})\.\d+", "Adreno {0}"),
)


def _fill_soc(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:
    driver = kernel_text.name(lines.get("DRIVER")) or "unnamed"
    maker, family = _DRIVERS.get(driver, ("", f"{driver} GPU"))
    compatible = [value for key, value in sorted(lines.items()) if re.fullmatch(r"OF_COMPATIBLE_\d+", key)]
    model = next((name for value in compatible if (name := _model(value))), family)
    source = f"{folder}/uevent"
    sheet.put("name", f"{maker} {model}".strip(), source)
    sheet.put("vendor", maker, source, f"the driver {driver} is not in edgeopt's list")
    sheet.put("memory_shared", True, f"{source}: an on-chip GPU")
    _clock(host, sheet, folder)
    sheet.driven_by(host, ("vulkan",) if driver in _WITH_VULKAN else (), ())
    sheet.notes.append("No ONNX runtime that edgeopt supports can use it.")


def _model(compatible: str) -> str | None:
    for pattern, name in _MODELS:
        if match := re.fullmatch(pattern, compatible):
            return name.format(*(part.upper() for part in match.groups()))
    return None


def _clock(host: Host, sheet: Sheet, folder: str) -> None:
    names = host.list(f"{folder}/devfreq")
    if not names:
        sheet.absent["clock_max_hz"] = "its driver has no devfreq"
        return
    devfreq(host, sheet, f"{folder}/devfreq/{names[0]}")


FOLDER = "/sys/class/drm"
VENDORS = {"8086": "Intel", "1002": "AMD", "10de": "NVIDIA"}

# Displays and NPUs that have a render node too.
_NO_GPUS = frozenset({"rockchip-drm", "RKNPU", "rknpu", "tegra-host1x", "drm", "imx-drm", "vgem", "vkms"})

Fill = Callable[[Host, Sheet, str, dict[str, str]], None]
_FILL: dict[str, Fill] = {"AMD": _fill_amd, "Intel": _fill_intel}


def find(host: Host, *, skip_nvidia: bool) -> Finding:
    """Finds the GPUs of the kernel's DRM, except displays of virtual machines and of servers' management chips.

    Those of NVIDIA, and on a Jetson that of the chip itself, are left out where they were found in another way.
    """
    sheets = []
    for node in host.list(FOLDER):
        if not node.startswith("renderD"):
            continue
        folder = f"{FOLDER}/{node}/device"
        lines = uevent(host, folder)
        ids = device_ids(host, folder, lines)
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
            known = pci_name(host, *ids)
            if known:
                sheet.put("name", f"{vendor} {known[0].removeprefix(vendor).strip()}", known[1])
            sheet.put("name", f"{vendor} GPU 0x{ids[1]}", f"{folder}/uevent")
        else:
            _fill_soc(host, sheet, folder, lines)
        if why := blocked(host, f"/dev/dri/{node}", "the GPU"):
            sheet.notes.append(why)
        sheets.append(sheet)
    return Finding(tuple(sheets), {}, (FOLDER,) if sheets else ())


def _foreign(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:  # noqa: ARG001 - the same for all
    sheet.driven_by(host, (), ())
    sheet.notes.append(f"The driver {lines.get('DRIVER', 'in use')} runs no CUDA: install NVIDIA's own.")


_MALI = "/sys/class/misc/mali0/device"
_KGSL = "/sys/class/kgsl/kgsl-3d0"


def find_vendor_nodes(host: Host) -> Finding:
    sheets = tuple(sheet for look in (_mali, _adreno) if (sheet := look(host)))
    return Finding(sheets, {}, tuple(_MALI if "Mali" in str(s.values["name"]) else _KGSL for s in sheets))


def _mali(host: Host) -> Sheet | None:
    if "mali0" not in host.list("/sys/class/misc"):
        return None
    sheet = _sheet(host, "Arm", _MALI, "/dev/mali0")
    match = re.match(r"(Mali-\w+)(?: (\d+) cores)?", host.read(f"{_MALI}/gpuinfo") or "")
    cores = f" ({match[2]} cores)" if match and match[2] else ""
    sheet.put("name", f"Arm {match[1]}{cores}" if match else "Arm Mali", f"{_MALI}/gpuinfo")
    names = host.list(f"{_MALI}/devfreq")
    devfreq(host, sheet, f"{_MALI}/devfreq/{names[0] if names else 'gpu'}", "no devfreq")
    busy = f"{_MALI}/utilisation"
    sheet.put("utilization_percent", number(host.read(busy)), busy, "the driver does not report it")
    return sheet


def _adreno(host: Host) -> Sheet | None:
    if "kgsl-3d0" not in host.list("/sys/class/kgsl"):
        return None
    sheet = _sheet(host, "Qualcomm", _KGSL, "/dev/kgsl-3d0")
    match = re.match(r"Adreno\s?(\d{3})", host.read(f"{_KGSL}/gpu_model") or "")
    sheet.put("name", f"Qualcomm Adreno {match[1]}" if match else "Qualcomm Adreno", f"{_KGSL}/gpu_model")
    for name, file, scale in (
        ("clock_max_hz", "max_gpuclk", 1.0),
        ("clock_hz", "gpuclk", 1.0),
        ("temperature_c", "temp", 0.001),
    ):
        sheet.put(
            name, number(host.read(f"{_KGSL}/{file}"), scale), f"{_KGSL}/{file}", "the driver does not report it"
        )
    busy = (host.read(f"{_KGSL}/gpu_busy_percentage") or "").replace("%", "")
    sheet.put("utilization_percent", number(busy), f"{_KGSL}/gpu_busy_percentage", "the driver does not report it")
    return sheet


def _sheet(host: Host, vendor: str, folder: str, node: str) -> Sheet:
    sheet = Sheet("gpu")
    sheet.put("vendor", vendor, folder)
    sheet.put("driver", {"Arm": "mali", "Qualcomm": "kgsl"}[vendor], folder)
    sheet.put("memory_shared", True, f"{folder}: an on-chip GPU")
    if vendor == "Qualcomm":
        sheet.driven_by(host, ("qnn", "opencl"), ("onnxruntime-qnn",))
    else:
        sheet.driven_by(host, ("opencl",), ())
        sheet.notes.append("No ONNX runtime that edgeopt supports can use it.")
    if why := blocked(host, node, "the GPU"):
        sheet.notes.append(why)
    return sheet
