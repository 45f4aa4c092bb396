"""The clocks that cpufreq and CPPC tell of a CPU; what no clock can be is left out."""

from edgeopt.hw import kernel_text
from edgeopt.hw.host import Host
from edgeopt.hw.topology import CPU_FOLDER

_LOWEST_HZ, _HIGHEST_HZ = 1_000_000, 20_000_000_000


def folder(cpu: int) -> str:
    return f"{CPU_FOLDER}/cpu{cpu}/cpufreq"


def max_hz(host: Host, cpu: int) -> int | None:
    return hertz(host.read(f"{folder(cpu)}/cpuinfo_max_freq"), 1000)


def min_hz(host: Host, cpu: int) -> int | None:
    return hertz(host.read(f"{folder(cpu)}/cpuinfo_min_freq"), 1000)


def base_hz(host: Host, cpu: int) -> tuple[int, str] | None:
    """Of intel_pstate in kHz, or of the firmware's CPPC tables in MHz (0 where they leave it out)."""
    for path, unit in (
        (f"{folder(cpu)}/base_frequency", 1000),
        (f"{CPU_FOLDER}/cpu{cpu}/acpi_cppc/nominal_freq", 1_000_000),
    ):
        if clock := hertz(host.read(path), unit):
            return clock, path
    return None


def hertz(text: str | None, unit: int) -> int | None:
    number = kernel_text.whole(text)
    clock = None if number is None else number * unit
    return clock if clock is not None and _LOWEST_HZ <= clock <= _HIGHEST_HZ else None
