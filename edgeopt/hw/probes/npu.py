"""NPUs: by the kernel's class for them, by the device nodes of older drivers, by the bus where no driver is."""

import re
from typing import NamedTuple

from edgeopt.hw.accelerators import (
    COMPATIBLE,
    PCI_FOLDER,
    Finding,
    PciDevice,
    Sheet,
    blocked,
    compatible,
    devfreq,
    device_ids,
    gather,
    numa_node,
    number,
    pci_devices,
    uevent,
)
from edgeopt.hw.device import Facts, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.probes.gpu.apple import BRAND, chip
from edgeopt.hw.provider_wheels import OPENVINO, QNN


class Maker(NamedTuple):
    vendor: str
    name: str
    """Name for an NPU of unknown model."""
    apis: tuple[str, ...]
    runtimes: tuple[str, ...]
    """Distributions for Python, the usual one first."""
    driver: str
    """The kernel's driver, and what is missing where it is not bound."""
    shares_memory: bool | None
    """Whether it works in the host's memory; None where cards differ."""


INTEL = Maker(
    "Intel",
    "Intel NPU",
    ("openvino",),
    ("openvino", "onnxruntime-openvino", OPENVINO.distribution),
    "intel_vpu",
    True,
)
AMD = Maker("AMD", "AMD XDNA NPU", ("vitisai",), ("onnxruntime-vitisai",), "amdxdna", True)
QUALCOMM = Maker("Qualcomm", "Qualcomm Hexagon NPU", ("qnn",), (QNN.distribution,), "fastrpc", True)
CLOUD_AI = Maker("Qualcomm", "Qualcomm Cloud AI 100", ("qaic",), ("qaic",), "qaic", False)
ROCKCHIP = Maker("Rockchip", "Rockchip NPU", ("rknn",), ("rknn-toolkit-lite2", "rknn-toolkit2"), "rknpu", True)
HAILO = Maker("Hailo", "Hailo NPU", ("hailo",), ("hailort",), "hailo_pci", None)
CORAL = Maker(
    "Google", "Coral Edge TPU", ("edgetpu",), ("pycoral", "ai-edge-litert", "tflite-runtime"), "apex", False
)
HABANA = Maker("Habana", "Habana accelerator", ("habana",), ("habana-torch-plugin",), "habanalabs", False)
ETHOS_U = Maker("Arm", "Arm Ethos-U NPU", ("ethos-u",), ("tflite-runtime", "ai-edge-litert"), "ethosu", True)
ETHOS_N = Maker("Arm", "Arm Ethos-N NPU", ("ethos-n",), ("pyarmnn",), "ethosn", True)

# The ids in the drivers of the kernel (drivers/accel) and of the makers.
PCI_MODELS: dict[tuple[str, str], tuple[Maker, str]] = {
    ("8086", "7d1d"): (INTEL, "Intel NPU (Meteor Lake)"),
    ("8086", "ad1d"): (INTEL, "Intel NPU (Arrow Lake)"),
    ("8086", "643e"): (INTEL, "Intel NPU (Lunar Lake)"),
    ("8086", "b03e"): (INTEL, "Intel NPU (Panther Lake)"),
    ("8086", "fd3e"): (INTEL, "Intel NPU (Wildcat Lake)"),
    ("8086", "d71d"): (INTEL, "Intel NPU (Nova Lake)"),
    ("1022", "1502"): (AMD, "AMD XDNA NPU (Phoenix or Hawk Point)"),
    ("1022", "17f0"): (AMD, "AMD XDNA 2 NPU (Strix, Strix Halo or Krackan)"),
    ("17cb", "a100"): (CLOUD_AI, "Qualcomm Cloud AI 100"),
    ("1ac1", "089a"): (CORAL, "Coral Edge TPU"),
    ("1e60", "2864"): (HAILO, "Hailo-8 or Hailo-8L"),
    ("1e60", "45c4"): (HAILO, "Hailo-10H or Hailo-15H"),
    ("1e60", "43a2"): (HAILO, "Hailo-15L"),
}
# Makers that sell nothing else with these ids.
PCI_MAKERS: dict[str, Maker] = {"1e60": HAILO, "1da3": HABANA}

USB_MODELS: dict[tuple[str, str], tuple[Maker, str]] = {
    ("1a6e", "089a"): (CORAL, "Coral USB Accelerator"),
    ("18d1", "9302"): (CORAL, "Coral USB Accelerator"),
}

# The driver that is bound, for devices of the kernel's class that have no PCI id.
DRIVERS: dict[str, Maker] = {
    "intel_vpu": INTEL,
    "amdxdna": AMD,
    "qaic": CLOUD_AI,
    "rocket": ROCKCHIP._replace(driver="rocket"),
    "ethosu": ETHOS_U,
    "habanalabs": HABANA,
}


def of_pci(vendor: str, device: str) -> tuple[Maker, str] | None:
    known = PCI_MODELS.get((vendor, device))
    maker = PCI_MAKERS.get(vendor)
    return known or ((maker, maker.name) if maker else None)


CLASS_FOLDER = "/sys/class/accel"


def _find_in_class(host: Host) -> Finding:
    found = tuple(
        (f"{CLASS_FOLDER}/{node}", _class_sheet(host, node))
        for node in host.list(CLASS_FOLDER)
        if re.fullmatch(r"accel\d{1,4}", node)
    )
    return Finding(tuple(sheet for _, sheet in found), {}, tuple(place for place, _ in found))


def _class_sheet(host: Host, node: str) -> Sheet:
    folder = f"{CLASS_FOLDER}/{node}/device"
    lines = uevent(host, folder)
    driver = lines.get("DRIVER")
    sheet = Sheet("npu", slot=lines.get("PCI_SLOT_NAME"))
    sheet.put("driver", driver, f"{folder}/uevent", "the kernel does not report it")
    ids = device_ids(host, folder, lines)
    known = of_pci(*ids) if ids else None
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
    numa_node(host, sheet, folder)
    if why := blocked(host, f"/dev/accel/{node}", "the NPU"):
        sheet.notes.append(why)
    return sheet


def describe(host: Host, sheet: Sheet, maker: Maker, source: str) -> None:
    """Adds the facts that hold for every NPU of a maker."""
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


def _find_nodes(host: Host, drivers: frozenset[str]) -> Finding:
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
            sheets.append(_node_sheet(host, kind, name))
            places.append(f"/dev/{name}")
            makers.add(kind.maker.vendor)
    if "Rockchip" not in makers and not drivers & {"rocket"} and (sheet := _rockchip(host)):
        sheets.append(sheet)
        places.append(_RKNPU)
    return Finding(tuple(sheets), {}, tuple(places))


def _node_sheet(host: Host, kind: _Kind, name: str) -> Sheet:
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
        return f"Rockchip NPU ({chip.upper()})", COMPATIBLE
    if kind.maker is QUALCOMM and (soc := (host.read(_SOC) or "").strip()):
        return f"Qualcomm Hexagon NPU ({soc})", _SOC
    return None, ""


def _chip(host: Host) -> str | None:
    parts = {part.partition(",")[2] for part in compatible(host) if part.startswith("rockchip,")}
    return next((chip for chip in _ROCKCHIPS if chip in parts), None)


def _rockchip(host: Host) -> Sheet | None:
    """Rockchip's own kernels have no node for it but a render node; its platform driver shows it."""
    bound = [name for name in host.list(_RKNPU) if name.endswith(".npu")]
    if not bound:
        return None
    chip = _chip(host)
    sheet = Sheet("npu")
    sheet.put("driver", "rknpu", _RKNPU)
    sheet.put("name", f"Rockchip NPU ({chip.upper()})" if chip else None, COMPATIBLE)
    sheet.put("name", ROCKCHIP.name, _RKNPU)
    describe(host, sheet, ROCKCHIP, _RKNPU)
    _rockchip_clock(host, sheet)
    return sheet


def _rockchip_clock(host: Host, sheet: Sheet) -> None:
    names = [name for name in host.list(_DEVFREQ) if name.endswith(".npu")]
    if not names:
        sheet.absent["clock_max_hz"] = f"no NPU in {_DEVFREQ}"
        return
    devfreq(host, sheet, f"{_DEVFREQ}/{names[0]}")


USB_FOLDER = "/sys/bus/usb/devices"


def _find_on_buses(host: Host, slots: frozenset[str], vendors: frozenset[str]) -> Finding:
    """Beside those at `slots`, and of makers whose NPU was found without its slot."""
    sheets: list[Sheet] = []
    places: list[str] = []
    for device in pci_devices(host):
        known = of_pci(device.vendor, device.device)
        if known and device.slot not in slots and known[0].vendor not in vendors:
            sheets.append(_on_pci(host, device, *known))
            places.append(f"{PCI_FOLDER}/{device.slot}")
    for name in host.list(USB_FOLDER):
        if not re.fullmatch(r"\d+-[\d.]+", name):
            continue  # hubs at the root and the interfaces of devices
        folder = f"{USB_FOLDER}/{name}"
        vendor = (host.read(f"{folder}/idVendor") or "").strip().lower()
        if vendor not in {key[0] for key in USB_MODELS}:
            continue
        found = USB_MODELS.get((vendor, (host.read(f"{folder}/idProduct") or "").strip().lower()))
        if found:
            sheets.append(_on_usb(host, folder, *found))
            places.append(folder)
    return Finding(tuple(sheets), {}, tuple(places))


def _on_pci(host: Host, device: PciDevice, maker: Maker, name: str) -> Sheet:
    source = f"{PCI_FOLDER}/{device.slot}/uevent"
    sheet = Sheet("npu", slot=device.slot)
    sheet.put("name", name, source)
    sheet.put("driver", device.driver, source, f"no driver is bound to it; {maker.driver} would be")
    describe(host, sheet, maker, source)
    sheet.notes.append(
        f"Its driver {device.driver} shows no device node: dmesg says why, or a container hides it."
        if device.driver
        else f"No driver is bound to it: install and load {maker.driver}."
    )
    return sheet


def _on_usb(host: Host, folder: str, maker: Maker, name: str) -> Sheet:
    """Driven from user space (libedgetpu), through USB's own nodes."""
    sheet = Sheet("npu")
    sheet.put("name", name, f"{folder}/idVendor, idProduct")
    sheet.put("driver", "usbfs", f"{folder}/idVendor, idProduct")
    describe(host, sheet, maker, f"{folder}/idVendor, idProduct")
    bus, place = (number(host.read(f"{folder}/{part}")) for part in ("busnum", "devnum"))
    if bus is not None and place is not None:
        why = blocked(host, f"/dev/bus/usb/{bus:03}/{place:03}", "the USB device")
        sheet.notes.extend([why] if why else [])
    return sheet


def _find_apple(host: Host) -> Finding:
    silicon = chip(host)
    if not silicon:
        return Finding()
    sheet = Sheet("npu")
    sheet.put("name", f"Apple Neural Engine ({silicon})", BRAND)
    sheet.put("vendor", "Apple", BRAND)
    sheet.put("memory_shared", True, "Apple silicon has one memory")
    sheet.driven_by(host, ("coreml",), ("onnxruntime", "coremltools"))
    return Finding((sheet,), {}, (BRAND,))


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


def _find_windows(host: Host) -> Finding:
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


def probe(host: Host) -> Facts | Unavailable:
    match host.call("platform", "system"):
        case "Darwin":
            return gather("npu", (_find_apple(host),), "only Apple silicon has a Neural Engine")
        case "Windows":
            return gather("npu", (_find_windows(host),), "Windows lists no device of the class ComputeAccelerator")
        case _:
            return _linux(host)


def _linux(host: Host) -> Facts | Unavailable:
    by_class = _find_in_class(host)
    by_node = _find_nodes(host, frozenset(str(sheet.values.get("driver")) for sheet in by_class.sheets))
    driven = (*by_class.sheets, *by_node.sheets)
    seen = frozenset(sheet.slot for sheet in driven if sheet.slot)
    by_bus = _find_on_buses(
        host, seen, frozenset(str(sheet.values.get("vendor")) for sheet in driven if not sheet.slot)
    )
    nothing = f"no compute accelerator ({CLASS_FOLDER}), no device node and no PCI or USB device of a known NPU"
    return gather("npu", (by_class, by_node, by_bus), nothing)
