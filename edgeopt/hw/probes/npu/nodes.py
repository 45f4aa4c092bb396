"""NPUs whose drivers have device nodes of their own: Hailo, Coral, Rockchip, Qualcomm's Hexagon, Arm's Ethos."""

import re
from typing import NamedTuple

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Finding, Sheet, blocked, number
from edgeopt.hw.host import Host
from edgeopt.hw.probes.npu.accel import describe
from edgeopt.hw.probes.npu.makers import CORAL, ETHOS_N, ETHOS_U, HAILO, QUALCOMM, ROCKCHIP, Maker, of_pci

_RKNPU = "/sys/bus/platform/drivers/RKNPU"
_DEVFREQ = "/sys/class/devfreq"
_SOC = "/sys/devices/soc0/machine"


class _Kind(NamedTuple):
    pattern: str
    maker: Maker
    driver: str
    once: bool
    """One NPU with several nodes, not an NPU a node."""
    folder: str | None = None
    """The class in sysfs where the node's device is."""


_KINDS = (
    _Kind(r"hailo\d{1,3}", HAILO, "hailo_pci", False, "/sys/class/hailo_chardev"),
    _Kind(r"apex_\d{1,3}", CORAL, "apex", False, "/sys/class/apex"),
    _Kind(r"rknpu\d{0,3}", ROCKCHIP, "rknpu", True),
    # The compute DSP carries the NPU; nodes of the audio and sensor DSPs beside it do not.
    _Kind(r"fastrpc-cdsp\d?(-secure)?", QUALCOMM, "fastrpc", True),
    _Kind(r"adsprpc-smd(-secure)?", QUALCOMM, "adsprpc", True),
    _Kind(r"ethosu\d{1,3}", ETHOS_U, "ethosu", False),
    _Kind(r"ethosn\d{1,3}", ETHOS_N, "ethosn", False),
)

_ROCKCHIPS = ("rk3588s", "rk3588", "rk3576", "rk3568", "rk3566", "rk3562", "rv1106", "rv1103", "rv1126", "rk1808")


def find(host: Host, drivers: frozenset[str]) -> Finding:
    """Beside those of the kernel's class, whose drivers are named."""
    names = host.list("/dev")
    sheets: list[Sheet] = []
    places: list[str] = []
    makers: set[str] = set()
    for kind in _KINDS:
        matching = [name for name in names if re.fullmatch(kind.pattern, name)]
        if kind.driver in drivers or (kind.once and kind.maker.vendor in makers):
            continue
        for name in matching[:1] if kind.once else matching:
            sheets.append(_sheet(host, kind, name))
            places.append(f"/dev/{name}")
            makers.add(kind.maker.vendor)
    if "Rockchip" not in makers and not drivers & {"rocket"} and (sheet := _rockchip(host)):
        sheets.append(sheet)
        places.append(_RKNPU)
    return Finding(tuple(sheets), {}, tuple(places))


def _sheet(host: Host, kind: _Kind, name: str) -> Sheet:
    node = f"/dev/{name}"
    sheet = Sheet("npu")
    sheet.put("driver", kind.driver, node)
    exact, source = _exact_name(host, kind, name, sheet)
    sheet.put("name", exact, source)
    sheet.put("name", kind.maker.name, node)
    describe(host, sheet, kind.maker, node)
    if kind.maker is ROCKCHIP:
        _rockchip_clock(host, sheet)
    if why := blocked(host, node, "the NPU"):
        sheet.notes.append(why)
    return sheet


def _exact_name(host: Host, kind: _Kind, name: str, sheet: Sheet) -> tuple[str | None, str]:
    if kind.folder:
        place = f"{kind.folder}/{name}"
        for folder in (f"{place}/device", place):
            lines = (host.read(f"{folder}/uevent") or "").splitlines()
            slot = next((line.partition("=")[2] for line in lines if line.startswith("PCI_SLOT_NAME=")), None)
            ids = next((line.partition("=")[2].lower() for line in lines if line.startswith("PCI_ID=")), "")
            known = of_pci(*ids.split(":")) if ids.count(":") == 1 else None
            sheet.slot = sheet.slot or slot
            if known:
                return known[1], f"{folder}/uevent"
    if kind.maker is ROCKCHIP and (chip := _chip(host)):
        return f"Rockchip NPU ({chip.upper()})", accelerators.COMPATIBLE
    if kind.maker is QUALCOMM and (soc := (host.read(_SOC) or "").strip()):
        return f"Qualcomm Hexagon NPU ({soc})", _SOC
    return None, ""


def _chip(host: Host) -> str | None:
    parts = {part.partition(",")[2] for part in accelerators.compatible(host) if part.startswith("rockchip,")}
    return next((chip for chip in _ROCKCHIPS if chip in parts), None)


def _rockchip(host: Host) -> Sheet | None:
    """Rockchip's own kernels have no node for it but a render node; its platform driver shows it."""
    bound = [name for name in host.list(_RKNPU) if name.endswith(".npu")]
    if not bound:
        return None
    chip = _chip(host)
    sheet = Sheet("npu")
    sheet.put("driver", "rknpu", _RKNPU)
    sheet.put("name", f"Rockchip NPU ({chip.upper()})" if chip else None, accelerators.COMPATIBLE)
    sheet.put("name", ROCKCHIP.name, _RKNPU)
    describe(host, sheet, ROCKCHIP, _RKNPU)
    _rockchip_clock(host, sheet)
    return sheet


def _rockchip_clock(host: Host, sheet: Sheet) -> None:
    names = [name for name in host.list(_DEVFREQ) if name.endswith(".npu")]
    if not names:
        sheet.absent["clock_max_hz"] = f"no NPU in {_DEVFREQ}"
        return
    folder = f"{_DEVFREQ}/{names[0]}"
    sheet.put("clock_max_hz", number(host.read(f"{folder}/max_freq")), f"{folder}/max_freq", "the file is empty")
    sheet.put("clock_hz", number(host.read(f"{folder}/cur_freq")), f"{folder}/cur_freq", "the file is empty")
