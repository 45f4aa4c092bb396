"""The device record as a person wants to read it: a headline, facts in groups, what is not here."""

import re

from edgeopt.hw.device import Device
from edgeopt_gui import units
from edgeopt_gui.pages.device.instruction_sets import by_purpose, level_words
from edgeopt_gui.widgets.fact import Fact, FactGroup

_NAMES = {
    "gpu": "GPU",
    "npu": "NPU",
    "host": "System",
    "cpu": "CPU",
    "limits": "Limits",
    "memory": "Memory",
    "accelerators": "Accelerators",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "nncf": "NNCF",
    "onnx": "ONNX",
    "onnxscript": "ONNX Script",
}
_PIP = re.compile(r"pip install '[^']+'")
_UNKNOWN = "unknown"


def headline(device: Device) -> tuple[str, str]:
    """What it is, and what it can do, each on one line."""
    cores = units.count(device.limits.usable_cores, "usable core")
    parts = [level_words(device.cpu.simd_level), cores]
    if device.memory.total_bytes:
        parts.append(f"{units.size(device.memory.total_bytes)} of memory")
    return device.cpu.model or f"{device.host.architecture} CPU of an unknown model", " · ".join(parts)


def groups(device: Device) -> tuple[FactGroup, ...]:
    found = (_system(device), _cpu(device), _memory(device), _limits(device))
    return (*found, _accelerators(device), _runtimes(device))


def absent(device: Device) -> FactGroup:
    """What is not here, each with its reason, and with a command to copy where one would bring it."""
    facts = []
    for name, reason in device.unavailable.items():
        found = _PIP.search(reason)
        shown = _NAMES.get(name, name)
        facts.append(Fact(shown, _sentence(reason), copy=found.group() if found else ""))
    return FactGroup("", tuple(facts))


def _system(device: Device) -> FactGroup:
    host = device.host
    return FactGroup(
        "Operating system",
        (
            Fact("System", f"{host.os} {host.kernel}", _source(device, "host.os", "host.kernel")),
            Fact("Architecture", host.architecture, _source(device, "host.architecture")),
            Fact("Python", host.python, _source(device, "host.python")),
        ),
    )


def _cpu(device: Device) -> FactGroup:
    cpu = device.cpu
    physical = _UNKNOWN if cpu.physical_cores is None else str(cpu.physical_cores)
    sets = _source(device, "cpu.simd")
    return FactGroup(
        "CPU",
        (
            Fact("Model", cpu.model or _UNKNOWN, _source(device, "cpu.model")),
            Fact("Vendor", cpu.vendor or _UNKNOWN, _source(device, "cpu.vendor")),
            Fact(
                "Cores",
                f"{physical} physical, {cpu.logical_cores} logical",
                _source(device, "cpu.physical_cores", "cpu.logical_cores"),
            ),
            Fact("Level", f"{cpu.simd_level}: {level_words(cpu.simd_level)}", _source(device, "cpu.simd_level")),
            *(Fact(title, " ".join(names), sets, words=names) for title, names in by_purpose(cpu.simd)),
        ),
    )


def _memory(device: Device) -> FactGroup:
    memory = device.memory
    if not memory.total_bytes:
        return FactGroup("Memory", (Fact("Total", _UNKNOWN),))
    rows = (
        ("Total", "total_bytes", memory.total_bytes),
        ("Available", "available_bytes", memory.available_bytes),
        ("Usable", "usable_bytes", memory.usable_bytes),
    )
    return FactGroup(
        "Memory", tuple(Fact(title, units.size(n), _source(device, f"memory.{key}")) for title, key, n in rows)
    )


def _limits(device: Device) -> FactGroup:
    limits = device.limits
    quota = "none" if limits.cgroup_cores is None else units.count(1, "core")
    if limits.cgroup_cores is not None:
        quota = f"{limits.cgroup_cores:g} cores"
    memory = "none" if limits.cgroup_memory_bytes is None else units.size(limits.cgroup_memory_bytes)
    return FactGroup(
        "Limits",
        (
            Fact("Usable cores", str(limits.usable_cores), _source(device, "limits.usable_cores")),
            Fact(
                "Allowed cores",
                f"{limits.affinity_cores} of {device.cpu.logical_cores}",
                _source(device, "limits.affinity_cores"),
            ),
            Fact("CPU quota", quota, _source(device, "limits.cgroup_cores")),
            Fact("Memory limit", memory, _source(device, "limits.cgroup_memory_bytes")),
        ),
    )


def _accelerators(device: Device) -> FactGroup:
    facts = []
    for each in device.accelerators:
        parts = [each.name]
        if each.memory_total_bytes:
            parts.append(units.size(each.memory_total_bytes))
        if each.driver:
            parts.append(f"driver {each.driver}")
        facts.append(Fact(each.kind.upper(), ", ".join(parts), _source(device, f"accelerators.{each.kind}")))
    return FactGroup("Accelerators", tuple(facts) or (Fact("None found", "the reasons stand under “Not here”"),))


def _runtimes(device: Device) -> FactGroup:
    facts = []
    for each in device.runtimes:
        providers = f", runs on {', '.join(each.providers)}" if each.providers else ""
        source = _source(device, f"runtimes.{each.name}")
        facts.append(Fact(_NAMES.get(each.name, each.name), f"{each.version}{providers}", source))
    nothing = Fact("None installed", "what would bring one stands under “Not here”")
    return FactGroup("Runtimes", tuple(facts) or (nothing,))


def _source(device: Device, *facts: str) -> str:
    found = (
        source
        for name, source in device.sources.items()
        if any(name == fact or name.startswith(f"{fact}.") for fact in facts)
    )
    return "; ".join(dict.fromkeys(found))


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}." if reason else "No reason was given."
