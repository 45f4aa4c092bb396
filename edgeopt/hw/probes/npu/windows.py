"""NPUs of Windows: the names in the registry's class of compute accelerators."""

import re

from edgeopt.hw.accelerators import Finding, Sheet
from edgeopt.hw.host import Host
from edgeopt.hw.probes.npu.accel import describe
from edgeopt.hw.probes.npu.makers import AMD, INTEL, QUALCOMM, Maker

_CLASS = "HKLM\\SYSTEM\\CurrentControlSet\\Control\\Class\\{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}"
COMMAND = ("reg", "query", _CLASS, "/s", "/f", "Driver", "/t", "REG_SZ")
_SOURCE = "registry: class ComputeAccelerator"
_MAKERS: tuple[tuple[str, Maker], ...] = (
    ("intel", INTEL),
    ("amd", AMD),
    ("npu compute accelerator", AMD),
    ("qualcomm", QUALCOMM),
    ("hexagon", QUALCOMM),
)


def find(host: Host) -> Finding:
    sheets = []
    for key in re.split(r"^HKEY_LOCAL_MACHINE\\", host.run(COMMAND) or "", flags=re.MULTILINE):
        values = dict(re.findall(r"^\s+(DriverDesc|DriverVersion)\s+REG_SZ\s+(.+?)\s*$", key, re.MULTILINE))
        name = values.get("DriverDesc")
        if not name:
            continue
        sheet = Sheet("npu")
        sheet.put("name", name, f"{_SOURCE}, DriverDesc")
        sheet.put(
            "driver", values.get("DriverVersion"), f"{_SOURCE}, DriverVersion", "the registry does not report it"
        )
        maker = next((maker for word, maker in _MAKERS if word in name.lower()), None)
        if maker:
            describe(host, sheet, maker, f"{_SOURCE}, DriverDesc")
        else:
            sheet.driven_by(host, (), ())
        sheets.append(sheet)
    return Finding(tuple(sheets), {}, (_SOURCE,) if sheets else ())
