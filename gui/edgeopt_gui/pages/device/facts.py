"""The device record for people: a headline, facts in groups, and unavailable facts."""

import re

from edgeopt import units
from edgeopt.hw.device import Device
from edgeopt.views.device import is_detail, rows
from edgeopt_gui.pages.device.instruction_sets import by_purpose, level_words
from edgeopt_gui.plots.ticks import clock_text
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
_PIP = re.compile(r"pip install [\w -]+$")
_SETS = ("cpu.simd",)
_TOTAL = "memory.total_bytes"
_USABLE = "memory.usable_bytes"
# The gauges show the present values of these.
_IN_GAUGES = frozenset({"state.load_1m", "state.clock_hz", "state.temperatures_c"})
_STATE = "State"


def headline(device: Device) -> tuple[str, str]:
    """Returns the CPU model, and a line with its SIMD level, usable cores and memory."""
    cores = units.count(device.limits.usable_cores, "usable core")
    parts = [level_words(device.cpu.simd_level), cores]
    if device.memory.total_bytes:
        parts.append(f"{units.size(device.memory.total_bytes)} of memory")
    return device.cpu.model or f"{device.host.architecture} CPU of an unknown model", " · ".join(parts)


def groups(device: Device, read_s: float | None = None) -> tuple[FactGroup, ...]:
    """Returns the facts that `edgeopt probe` prints, with the instruction sets grouped by purpose.

    Facts that change from moment to moment are in the group of the state, with the time at which they were read.
    """
    found: dict[str, list[Fact]] = {}
    of_the_moment: list[Fact] = []
    for row in rows(device):
        if not _IN_GAUGES.isdisjoint(row.facts):
            continue
        if _USABLE in row.facts:
            of_the_moment.append(Fact("Memory usable", row.value, _source(device, _USABLE)))
            continue
        if row.group == _STATE:
            of_the_moment.append(Fact(_title(row.title), row.value, _source(device, *row.facts)))
            continue
        facts = found.setdefault(row.group, [])
        if _TOTAL in row.facts:
            facts.append(Fact(_title(row.title), units.size(device.memory.total_bytes), _source(device, _TOTAL)))
        elif row.facts != _SETS:
            facts.append(Fact(_title(row.title), row.value, _source(device, *row.facts)))
        elif not any(fact.words for fact in facts):
            source = _source(device, *_SETS)
            facts += (Fact(purpose, " ".join(n), source, words=n) for purpose, n in by_purpose(device.cpu.simd))
    if device.state is not None:
        words = "yes" if device.state.worth_measuring else "not now"
        text = " ".join((f"{words}.", *device.state.reasons)) if device.state.reasons else words
        of_the_moment.append(Fact("Worth measuring", text, _source(device, "state")))
    if of_the_moment:
        found[_STATE if read_s is None else f"{_STATE} at {clock_text(read_s)}"] = of_the_moment
    return tuple(FactGroup(title, tuple(facts)) for title, facts in found.items())


def absent(device: Device) -> FactGroup:
    """Returns the unavailable facts with their reasons, and with a `pip` command to copy where one would help."""
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
