"""The device record as a person wants to read it: a headline, facts in groups, what is not here."""

import re

from edgeopt import units
from edgeopt.cli.probe_rows import is_detail, rows
from edgeopt.hw.device import Device
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
    "onnx": "ONNX",
    "onnxscript": "ONNX Script",
    "tensorrt": "TensorRT",
    "coreml": "CoreML",
    "directml": "DirectML",
    "qnn": "QNN",
}
_PIP = re.compile(r"pip install '[^']+'")
_SETS = ("cpu.simd",)


def headline(device: Device) -> tuple[str, str]:
    """What it is, and what it can do, each on one line."""
    cores = units.count(device.limits.usable_cores, "usable core")
    parts = [level_words(device.cpu.simd_level), cores]
    if device.memory.total_bytes:
        parts.append(f"{units.size(device.memory.total_bytes)} of memory")
    return device.cpu.model or f"{device.host.architecture} CPU of an unknown model", " · ".join(parts)


def groups(device: Device) -> tuple[FactGroup, ...]:
    """What `edgeopt probe` prints, in its words; the instruction sets by what they are for."""
    found: dict[str, list[Fact]] = {}
    for row in rows(device):
        facts = found.setdefault(row.group, [])
        if row.facts != _SETS:
            facts.append(Fact(_title(row.title), row.value, _source(device, *row.facts)))
        elif not any(fact.words for fact in facts):
            source = _source(device, *_SETS)
            facts += (Fact(purpose, " ".join(n), source, words=n) for purpose, n in by_purpose(device.cpu.simd))
    if device.state is not None:
        words = "yes" if device.state.worth_measuring else "not now"
        said = " ".join((f"{words}.", *device.state.reasons)) if device.state.reasons else words
        found.setdefault("State", []).append(Fact("Worth measuring", said, _source(device, "state")))
    return tuple(FactGroup(title, tuple(facts)) for title, facts in found.items())


def absent(device: Device) -> FactGroup:
    """What is not here, each with its reason, and with a command to copy where one would bring it."""
    facts = []
    for name, reason in device.unavailable.items():
        if is_detail(name):
            continue
        found = _PIP.search(reason)
        shown = _NAMES.get(name, name)
        facts.append(Fact(shown, _sentence(reason), copy=found.group() if found else ""))
    return FactGroup("", tuple(facts))


def _title(name: str) -> str:
    name = name.strip()
    return _NAMES.get(name, f"{name[:1].upper()}{name[1:]}")


def _source(device: Device, *facts: str) -> str:
    found = (
        source
        for name, source in device.sources.items()
        if any(name == fact or name.startswith(f"{fact}.") for fact in facts)
    )
    return "; ".join(dict.fromkeys(found))


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}." if reason else "No reason was given."
