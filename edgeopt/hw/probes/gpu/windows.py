"""Display adapters of Windows: from WMI, which lists those present, with the registry's sizes of their memory."""

import re

from edgeopt.hw.accelerators import Finding, Sheet, json_of, rows
from edgeopt.hw.host import Host
from edgeopt.hw.probes.gpu import nvidia

# WMI's AdapterRAM has 32 bits and so ends at 4 GiB; drivers write the true size into their class key.
SCRIPT = (
    "$k='HKLM:\\SYSTEM\\CurrentControlSet\\Control\\Class\\{4d36e968-e325-11ce-bfc1-08002be10318}\\0*';"
    "$m=@(Get-ItemProperty $k -EA 0|Select-Object MatchingDeviceId,DriverDesc,"
    "@{n='Bytes';e={$_.'HardwareInformation.qwMemorySize'}});"
    "$a=@(Get-CimInstance Win32_VideoController|Select-Object Name,DriverVersion,PNPDeviceID);"
    "@{adapters=$a;memory=$m}|ConvertTo-Json -Compress -Depth 3"
)
COMMAND = ("powershell", "-NoProfile", "-NonInteractive", "-Command", SCRIPT)
_TIMEOUT_S = 15.0
_WMI = "Win32_VideoController"
_REGISTRY = "registry: display class, HardwareInformation.qwMemorySize"
_VENDORS = {"10de": "NVIDIA", "1002": "AMD", "8086": "Intel", "4d4f": "Qualcomm", "5143": "Qualcomm"}
_DEDICATED_BYTES = 2**30
"""Less than this is what a GPU inside a CPU is given at the start; it uses the host's memory beyond."""


def find(host: Host) -> tuple[Finding, ...]:
    """NVIDIA's by NVML first, which knows more of them, then what else computes through DirectML."""
    answer = json_of(host.run(COMMAND, _TIMEOUT_S))
    if not isinstance(answer, dict):
        return (Finding(unavailable={"gpu.adapters": "PowerShell did not list the display adapters"}),)
    sheets = [
        sheet for row in rows(answer.get("adapters")) if (sheet := _adapter(row, rows(answer.get("memory"))))
    ]
    for sheet in sheets:
        _drive(host, sheet)
    cards = tuple(sheet for sheet in sheets if sheet.values.get("vendor") == "NVIDIA")
    others = tuple(sheet for sheet in sheets if sheet.values.get("vendor") != "NVIDIA")
    found = [Finding(others, {}, (_WMI,) if others else ())]
    if cards:
        finding = nvidia.from_nvml(host, cards)
        found.insert(0, Finding(_joined(finding.sheets, cards), finding.unavailable, (*finding.places, _WMI)))
    return tuple(found)


def _adapter(row: dict[str, object], sizes: tuple[dict[str, object], ...]) -> Sheet | None:
    ids = re.match(
        r"PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})|ACPI\\VEN_(\w{4})", str(row.get("PNPDeviceID", "")).upper()
    )
    acpi = {"QCOM": "5143"}.get(ids[3] or "", "") if ids else ""
    vendor = _VENDORS.get((ids[1] or acpi).lower()) if ids else None
    if not ids or not vendor:
        return None  # Microsoft's basic and remote adapters, and the displays of virtual machines
    sheet = Sheet("gpu")
    sheet.put("name", row.get("Name"), f"{_WMI}: Name")
    sheet.put("name", f"{vendor} GPU", f"{_WMI}: PNPDeviceID")
    sheet.put("vendor", vendor, f"{_WMI}: PNPDeviceID")
    sheet.put("driver", row.get("DriverVersion"), f"{_WMI}: DriverVersion", "Windows does not report it")
    start = f"PCI\\VEN_{ids[1]}&DEV_{ids[2]}"
    size = next(
        (
            entry.get("Bytes")
            for entry in sizes
            if str(entry.get("MatchingDeviceId", "")).upper().startswith(start)
            or entry.get("DriverDesc") == row.get("Name")
        ),
        None,
    )
    sheet.put(
        "memory_total_bytes", size if isinstance(size, int) else None, _REGISTRY, "its driver does not report it"
    )
    if isinstance(size, int) and "memory_total_bytes" in sheet.values:
        sheet.put("memory_shared", size < _DEDICATED_BYTES or vendor == "Qualcomm", _REGISTRY)
    return sheet


def _joined(sheets: tuple[Sheet, ...], cards: tuple[Sheet, ...]) -> tuple[Sheet, ...]:
    """NVML's facts first, then Windows': matched by name, because WMI has no slots."""
    left = list(cards)
    for sheet in sheets:
        card = next((c for c in left if c.values["name"] == sheet.values.get("name")), left[0] if left else None)
        if card is None or card is sheet:
            continue
        left.remove(card)
        for name, value in card.values.items():
            sheet.put(name, value, card.sources[name])
    return sheets


def _drive(host: Host, sheet: Sheet) -> None:
    match sheet.values["vendor"]:
        case "NVIDIA":
            sheet.driven_by(host, ("cuda", "tensorrt", "directml"), (*nvidia.RUNTIMES, "onnxruntime-directml"))
        case "Intel":
            sheet.driven_by(host, ("openvino", "directml"), ("onnxruntime-directml", "openvino"))
        case "Qualcomm":
            sheet.driven_by(host, ("qnn", "directml"), ("onnxruntime-directml", "onnxruntime-qnn"))
        case _:
            sheet.driven_by(host, ("directml",), ("onnxruntime-directml",))
