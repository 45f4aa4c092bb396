"""GPUs of phones and boards whose maker's own driver has no DRM node: Arm's `kbase` and Qualcomm's `kgsl`."""

import re

from edgeopt.hw.accelerators import Finding, Sheet, blocked, number
from edgeopt.hw.host import Host

_MALI = "/sys/class/misc/mali0/device"
_KGSL = "/sys/class/kgsl/kgsl-3d0"


def find(host: Host) -> Finding:
    sheets = tuple(sheet for look in (_mali, _adreno) if (sheet := look(host)))
    return Finding(sheets, {}, tuple(_MALI if "Mali" in str(s.values["name"]) else _KGSL for s in sheets))


def _mali(host: Host) -> Sheet | None:
    if "mali0" not in host.list("/sys/class/misc"):
        return None
    sheet = _sheet(host, "Arm", _MALI, "/dev/mali0")
    told = re.match(r"(Mali-\w+)(?: (\d+) cores)?", host.read(f"{_MALI}/gpuinfo") or "")
    cores = f" ({told[2]} cores)" if told and told[2] else ""
    sheet.put("name", f"Arm {told[1]}{cores}" if told else "Arm Mali", f"{_MALI}/gpuinfo")
    names = host.list(f"{_MALI}/devfreq")
    place = f"{_MALI}/devfreq/{names[0] if names else 'gpu'}"
    sheet.put("clock_max_hz", number(host.read(f"{place}/max_freq")), f"{place}/max_freq", "no devfreq")
    sheet.put("clock_hz", number(host.read(f"{place}/cur_freq")), f"{place}/cur_freq", "no devfreq")
    busy = f"{_MALI}/utilisation"
    sheet.put("utilization_percent", number(host.read(busy)), busy, "the driver does not report it")
    return sheet


def _adreno(host: Host) -> Sheet | None:
    if "kgsl-3d0" not in host.list("/sys/class/kgsl"):
        return None
    sheet = _sheet(host, "Qualcomm", _KGSL, "/dev/kgsl-3d0")
    told = re.match(r"Adreno\s?(\d{3})", host.read(f"{_KGSL}/gpu_model") or "")
    sheet.put("name", f"Qualcomm Adreno {told[1]}" if told else "Qualcomm Adreno", f"{_KGSL}/gpu_model")
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
