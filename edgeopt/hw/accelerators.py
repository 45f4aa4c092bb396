"""Shared parts of the GPU and NPU probes: each fact has its source, or the reason for its absence."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.hw.device import Accelerator, Facts, Unavailable
from edgeopt.hw.host import Host

TABLE = "edgeopt's own table"
INSTALLED = "installed Python distributions"
_READ_AND_WRITE = 6
_LONGEST_NAME = 120

_TEXTS = frozenset({"name", "vendor", "driver", "compute_capability", "cuda_version", "runtime"})
_WHOLE = frozenset({"memory_total_bytes", "memory_free_bytes", "clock_max_hz", "clock_hz", "numa_node"})

# What lies outside is a counter that is switched off, broken or of another unit.
PLAUSIBLE: dict[str, tuple[float, float]] = {
    "memory_total_bytes": (2**20, 2**46),
    "memory_free_bytes": (0, 2**46),
    "clock_max_hz": (10**6, 10**10),
    "clock_hz": (10**6, 10**10),
    "power_limit_w": (0.1, 10_000),
    "power_w": (0.001, 10_000),
    "temperature_c": (-50, 200),
    "utilization_percent": (0, 100),
    "numa_node": (0, 4095),
}


@dataclass(slots=True)
class Sheet:
    """The facts of one accelerator while they are gathered."""

    kind: Literal["gpu", "npu"]
    slot: str | None = None
    """Place on the PCI bus; None if the accelerator has none."""
    values: dict[str, object] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, name: str, value: object, source: str, otherwise: str = "") -> None:
        """Keeps a fact that is known and plausible, else the reason, where one is given; the first fact counts."""
        if name in self.values:
            return
        if value is None or value == "":
            if otherwise:
                self.absent[name] = otherwise
        elif not _plausible(name, value):
            self.absent[name] = f"{source} reports {str(value)[:40]!r}, which is impossible"
        else:
            self.values[name] = _clean(value) if isinstance(value, str) else value
            self.sources[name] = source
            self.absent.pop(name, None)

    def driven_by(self, host: Host, apis: tuple[str, ...], runtimes: Sequence[str]) -> None:
        """Records the APIs and the runtime of the accelerator: the first installed runtime, or else the first."""
        if apis:
            self.put("apis", apis, TABLE)
        if runtimes:
            installed = next((name for name in runtimes if host.version(name)), None)
            self.put("runtime", installed or runtimes[0], TABLE)
            # A plain tree of files says nothing about Python.
            known = installed is not None or host.call("platform", "python_version") is not None
            unknown = "this recording does not list the Python packages"
            self.put("runtime_installed", installed is not None if known else None, INSTALLED, unknown)
        else:
            self.absent.setdefault("runtime", "edgeopt does not support a runtime for it")

    def record(self, index: int) -> Accelerator | None:
        """Returns the record of the accelerator, or None if not even its name is known."""
        if "name" not in self.values:
            return None
        total, free = self.values.get("memory_total_bytes"), self.values.get("memory_free_bytes")
        if isinstance(total, int) and isinstance(free, int) and free > total:
            del self.values["memory_free_bytes"]
            self.absent["memory_free_bytes"] = (
                f"{self.sources.pop('memory_free_bytes')} reports more than there is"
            )
        facts = {
            **self.values,
            "kind": self.kind,
            "index": index,
            "note": _text(" ".join(dict.fromkeys(self.notes))),
        }
        return msgspec.convert(facts, thread_safe(Accelerator))


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one source of accelerators; `unavailable` gives the reason for each absent part by name."""

    sheets: tuple[Sheet, ...] = ()
    unavailable: dict[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    """Sources of the list as a whole."""


def gather(kind: Literal["gpu", "npu"], findings: Iterable[Finding], nothing: str) -> Facts | Unavailable:
    """One section from all findings, numbered in order; `nothing` is the reason if there are none."""
    found: list[Accelerator] = []
    sources: dict[str, str] = {}
    unavailable: dict[str, str] = {}
    places: list[str] = []
    for finding in findings:
        places.extend(finding.places)
        unavailable |= finding.unavailable
        for sheet in finding.sheets:
            index = len(found)
            record = sheet.record(index)
            if record is None:
                continue
            found.append(record)
            sources |= {f"accelerators.{kind}.{index}.{name}": source for name, source in sheet.sources.items()}
            unavailable |= {f"{kind}.{index}.{name}": reason for name, reason in sheet.absent.items()}
    if not found:
        return Unavailable("; ".join(dict.fromkeys((*_encodable(unavailable).values(), nothing))))
    summary = {f"accelerators.{kind}": ", ".join(dict.fromkeys(places))}
    return Facts(tuple(found), _encodable(summary | sources), _encodable(unavailable))


def blocked(host: Host, node: str, what: str) -> str:
    """Returns why a device node cannot be used, as a sentence; empty if it can be used, or if that is unknown."""
    folder, _, name = node.rpartition("/")
    names = host.list(folder)
    # A recording of /proc and /sys alone has no /dev: that says nothing about the machine.
    if name not in names and (names or host.list("/dev")):
        return f"There is no {node}: in a container, pass {what} with --device {node}."
    if name in names and host.call("os", "access", node, _READ_AND_WRITE) is False:
        usual = ", usually `render`" if folder in {"/dev/dri", "/dev/accel"} else ""
        return f"No permission to open {node}: add the user to the group that owns it (ls -l {node}){usual}."
    return ""


def scaled(value: object, unit: float) -> int | float | None:
    """A number of a library's answer, whole where its unit is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63:
        return None
    return value if unit == 1 else int(value * unit) if unit > 1 else value * unit


def number(text: str | None, scale: float = 1.0) -> int | float | None:
    """A number of a file; whole where the scale is whole."""
    try:
        value = int(text.strip(), 10) if text else None
    except ValueError:
        return None
    if value is None or abs(value) > 2**63:
        return None
    return value * int(scale) if scale == int(scale) else value * scale


def json_of(text: str | None) -> object:
    """Returns the JSON value that a command printed, or None."""
    try:
        answer: object = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return answer


def rows(answer: object) -> tuple[dict[str, object], ...]:
    """The objects in a JSON list; PowerShell leaves the list out where it has one object."""
    entries = answer if isinstance(answer, list) else [answer]
    return tuple(entry for entry in entries if isinstance(entry, dict))


def _plausible(name: str, value: object) -> bool:
    if name in _TEXTS:
        text = _clean(value) if isinstance(value, str) else ""
        return bool(text) and "\ufffd" not in text and text.isprintable()
    if name not in PLAUSIBLE:
        return True
    low, high = PLAUSIBLE[name]
    kinds = (int,) if name in _WHOLE else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high


def _encodable(texts: dict[str, str]) -> dict[str, str]:
    return {_text(name): _text(text) for name, text in texts.items()}


def _text(text: str) -> str:
    """A file's name need not be UTF-8; a record must."""
    return text.encode("utf-8", "replace").decode()


def _clean(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_NAME]


PCI_FOLDER = "/sys/bus/pci/devices"
NAME_FILES = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")
_LINE = re.compile(r"^([A-Z0-9_]+)=(.*)$", re.MULTILINE)
_ID = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{4})")


class PciDevice(NamedTuple):
    slot: str
    vendor: str
    """Four hexadecimal digits in lower case: `10de`."""
    device: str
    kind: int
    """The class code: 0x03.... is a display controller, 0x12.... a processing accelerator."""
    driver: str | None


def uevent(host: Host, folder: str) -> dict[str, str]:
    """The lines of a device's `uevent`: DRIVER, PCI_ID, OF_COMPATIBLE_0, ..."""
    return dict(_LINE.findall(host.read(f"{folder}/uevent") or ""))


def pci_devices(host: Host) -> tuple[PciDevice, ...]:
    return tuple(
        found for slot in host.list(PCI_FOLDER) if (found := parse_pci(slot, uevent(host, f"{PCI_FOLDER}/{slot}")))
    )


def parse_pci(slot: str, lines: dict[str, str]) -> PciDevice | None:
    ids = _ID.fullmatch(lines.get("PCI_ID", ""))
    try:
        kind = int(lines.get("PCI_CLASS", ""), 16)
    except ValueError:
        kind = 0
    if not ids:
        return None
    vendor, device = (part.lower() for part in ids.groups())
    return PciDevice(lines.get("PCI_SLOT_NAME", slot), vendor, device, kind, lines.get("DRIVER"))


def pci_name(host: Host, vendor: str, device: str) -> tuple[str, str] | None:
    """A device's name and the file that has it; the part in brackets is the product name."""
    for file in NAME_FILES:
        text = host.read(file)
        start = re.search(rf"^{vendor}  ", text, re.MULTILINE) if text else None
        if not text or not start:
            continue
        end = re.compile(r"^[0-9a-f]{4}  ", re.MULTILINE).search(text, start.end())
        line = re.compile(rf"^\t{device}  (.+)$", re.MULTILINE).search(
            text, start.end(), end.start() if end else len(text)
        )
        if line:
            marketed = re.search(r"\[([^\[\]]+)\]\s*$", line[1])
            return (marketed[1] if marketed else line[1]).strip(), file
    return None


def device_ids(host: Host, folder: str, lines: dict[str, str]) -> tuple[str, str] | None:
    """Vendor and device, from the lines of `uevent` or from files of their own."""
    device = parse_pci("", lines)
    if device:
        return device.vendor, device.device
    vendor, model = ((host.read(f"{folder}/{part}") or "").strip() for part in ("vendor", "device"))
    return (vendor.removeprefix("0x").lower(), model.removeprefix("0x").lower()) if vendor else None


_VOLATILE = ("clock_hz", "utilization_percent", "temperature_c", "power_w")


def asleep(host: Host, sheet: Sheet, folder: str) -> bool:
    """Whether the kernel has switched it off until it is used; says so for what changes while it works."""
    if (host.read(f"{folder}/power/runtime_status") or "").strip() != "suspended":
        return False
    for name in _VOLATILE:
        sheet.absent.setdefault(name, "asleep until it is used")
    return True


def numa_node(host: Host, sheet: Sheet, folder: str) -> None:
    """-1 is the kernel's word for a machine without NUMA."""
    node = number(host.read(f"{folder}/numa_node"))
    sheet.put("numa_node", node if node is not None and node >= 0 else None, f"{folder}/numa_node")


def devfreq(host: Host, sheet: Sheet, folder: str, otherwise: str = "the file is empty") -> None:
    """The highest clock and the present one."""
    for name, file in (("clock_max_hz", "max_freq"), ("clock_hz", "cur_freq")):
        sheet.put(name, number(host.read(f"{folder}/{file}")), f"{folder}/{file}", otherwise)


def hwmon(host: Host, sheet: Sheet, folder: str) -> None:
    """The sensors of its own, in the units of the kernel's hwmon interface."""
    names = host.list(f"{folder}/hwmon")
    sensors = f"{folder}/hwmon/{names[0]}" if names else f"{folder}/hwmon"
    for name, files, scale in (
        ("temperature_c", ("temp1_input", "temp2_input"), 1e-3),
        ("power_w", ("power1_average", "power1_input"), 1e-6),
        ("power_limit_w", ("power1_cap", "power1_max"), 1e-6),
    ):
        answers = ((file, number(host.read(f"{sensors}/{file}"), scale)) for file in files)
        file, value = next(((f, v) for f, v in answers if v is not None), (files[0], None))
        sheet.put(name, value, f"{sensors}/{file}", f"no sensor for it ({sensors}/{files[0]})")


COMPATIBLE = "/proc/device-tree/compatible"


def compatible(host: Host) -> tuple[str, ...]:
    """The board and its chip from the most exact to the least: `("xunlong,orangepi-5", "rockchip,rk3588s")`."""
    return tuple(part for part in (host.read(COMPATIBLE) or "").strip("\n").split("\0") if part)
