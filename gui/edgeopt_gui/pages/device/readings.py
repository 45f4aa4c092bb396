"""Readings of the live gauges for one sample of the device's load."""

from collections.abc import Iterable

from edgeopt import units
from edgeopt.hw.load import LoadSample
from edgeopt_gui.widgets.reading import Reading

NAMES = ("Load", "Memory in use", "Clock", "Temperature")
_NOT_KNOWN = "not known"
_HOTTEST_C = 100.0


def readings(sample: LoadSample) -> tuple[Reading, ...]:
    """Returns a reading for each of `NAMES`, in their order; an unknown value has its reason."""
    return (_load(sample), _memory(sample), _clock(sample), _temperature(sample))


def not_known(found: Iterable[Reading]) -> str:
    """Returns a line for unknown values: `Not known: clock (the kernel has no cpufreq files).`"""
    missing = [reading for reading in found if reading.value is None]
    if not missing:
        return ""
    return f"{_NOT_KNOWN.capitalize()}: {'; '.join(_lower(reading) for reading in missing)}."


def _lower(reading: Reading) -> str:
    return (
        f"{reading.name[:1].lower()}{reading.name[1:]} ({reading.note[:1].lower()}{reading.note[1:].rstrip('.')})"
    )


def _load(sample: LoadSample) -> Reading:
    if sample.load_percent is None:
        return _missing("Load", sample, "load_percent")
    return Reading("Load", f"{sample.load_percent:.0f} %", "of all cores", sample.load_percent, 100.0)


def _memory(sample: LoadSample) -> Reading:
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    if used is None:
        return _missing("Memory in use", sample, "memory_used_bytes")
    note = f"of {units.size(total)}" if total else ""
    return Reading("Memory in use", units.size(used), note, float(used), float(total) if total else None)


def _clock(sample: LoadSample) -> Reading:
    if sample.clock_hz is None:
        return _missing("Clock", sample, "clock_hz")
    return Reading("Clock", units.clock(sample.clock_hz), "mean of the cores", sample.clock_hz)


def _temperature(sample: LoadSample) -> Reading:
    celsius = sample.temperature_c
    if celsius is None:
        return _missing("Temperature", sample, "temperature_c")
    return Reading("Temperature", f"{celsius:.0f} °C", "the hottest sensor", max(0.0, celsius), _HOTTEST_C)


def _missing(name: str, sample: LoadSample, field: str) -> Reading:
    reason = sample.unavailable.get(field, "the device does not report it")
    return Reading(name, _NOT_KNOWN, f"{reason[:1].upper()}{reason[1:]}.")
