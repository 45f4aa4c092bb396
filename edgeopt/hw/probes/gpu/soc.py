"""GPUs inside Arm and RISC-V chips that a driver of the kernel's own drives: named by the device tree."""

import re

from edgeopt.hw import kernel_text
from edgeopt.hw.accelerators import Sheet, number
from edgeopt.hw.host import Host

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


def fill(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:
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
    place = f"{folder}/devfreq/{names[0]}"
    sheet.put("clock_max_hz", number(host.read(f"{place}/max_freq")), f"{place}/max_freq", "the file is empty")
    sheet.put("clock_hz", number(host.read(f"{place}/cur_freq")), f"{place}/cur_freq", "the file is empty")
