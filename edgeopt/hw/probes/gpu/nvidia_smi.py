"""What `nvidia-smi` tells of NVIDIA GPUs, for machines without NVML's Python binding."""

import csv

from edgeopt.hw.accelerators import Sheet
from edgeopt.hw.host import Host
from edgeopt.hw.nvml import normal_slot

_MIB = 2**20
# The tool's field, the record's field, and what one of its units is.
_FIELDS: tuple[tuple[str, str, float], ...] = (
    ("pci.bus_id", "", 0),
    ("name", "name", 0),
    ("driver_version", "driver", 0),
    ("memory.total", "memory_total_bytes", _MIB),
    ("memory.free", "memory_free_bytes", _MIB),
    ("clocks.max.sm", "clock_max_hz", 1e6),
    ("clocks.sm", "clock_hz", 1e6),
    ("power.limit", "power_limit_w", 0.0),
    ("power.draw", "power_w", 0.0),
    ("temperature.gpu", "temperature_c", 0.0),
    ("utilization.gpu", "utilization_percent", 0.0),
    ("compute_cap", "compute_capability", 0),
)
_TEXTS = frozenset({"name", "driver", "compute_capability"})

# The newest CUDA that a branch of the driver runs, from the table of drivers in CUDA's release notes.
_CUDA_OF_BRANCH = {
    450: "11.0", 455: "11.1", 460: "11.2", 465: "11.3", 470: "11.4", 495: "11.5", 510: "11.6", 515: "11.7",
    520: "11.8", 525: "12.0", 530: "12.1", 535: "12.2", 545: "12.3", 550: "12.4", 555: "12.5", 560: "12.6",
    565: "12.7", 570: "12.8", 575: "12.9", 580: "13.0", 590: "13.1",
}  # fmt: skip


def command(fields: tuple[str, ...]) -> tuple[str, ...]:
    return ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def sheets(host: Host) -> tuple[Sheet, ...]:
    """One a GPU; empty where the tool is not there or fails."""
    fields = tuple(field for field, _, _ in _FIELDS)
    answer = host.run(command(fields))
    if answer is None:  # drivers before 510 lack compute_cap and reject the whole query
        fields = fields[:-1]
        answer = host.run(command(fields))
    lines = list(csv.reader((answer or "").splitlines(), skipinitialspace=True))
    return tuple(_sheet(fields, line) for line in lines if len(line) == len(fields))


def cuda_of_branch(sheet: Sheet) -> None:
    """Only NVML tells the newest CUDA; NVIDIA's table by the driver's branch does as well."""
    branch = str(sheet.values.get("driver", "")).partition(".")[0]
    version = _CUDA_OF_BRANCH.get(int(branch)) if branch.isdecimal() else None
    sheet.put(
        "cuda_version", version, "the driver's branch, by CUDA's release notes", "not available without NVML"
    )


def _sheet(fields: tuple[str, ...], line: list[str]) -> Sheet:
    sheet = Sheet("gpu", slot=normal_slot(line[0]))
    for (field, name, unit), text in zip(_FIELDS, line, strict=False):
        if not name:
            continue
        source = f"nvidia-smi {field}"
        value = _value(text, unit, is_text=name in _TEXTS)
        sheet.put(name, value, source, f"nvidia-smi says {text.strip('[] ') or 'nothing'}")
    if len(fields) < len(_FIELDS):
        sheet.absent["compute_capability"] = "this driver's nvidia-smi does not report it"
    return sheet


def _value(text: str, unit: float, is_text: bool) -> object:
    if text.startswith("["):  # [N/A], [Not Supported], [Insufficient Permissions]
        return None
    if is_text:
        return text
    try:
        return int(float(text) * unit) if unit else float(text)
    except (ValueError, OverflowError):
        return None
