"""`edgeopt probe`: what this device is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.hw.device import Device

if TYPE_CHECKING:
    from rich.console import Console


class Row(NamedTuple):
    title: str
    value: str
    facts: tuple[str, ...]
    """Their keys in `Device.sources`, or the starts of several."""


def probe(
    explain: Annotated[bool, typer.Option("--explain", help="Show where each fact comes from.")] = False,
    json: JsonFlag = False,
) -> None:
    """Shows what this device is: CPU, limits, memory, accelerators, runtimes.

    \b
    Examples:
      edgeopt probe
      edgeopt probe --explain                where each fact comes from
      edgeopt probe --json | jq .data.cpu
    """
    from edgeopt.hw.probe import probe as probe_device

    execute(
        "probe",
        work=lambda _: probe_device(),
        show=lambda device, console: show(device, console, explain),
        json=json,
    )


def show(device: Device, console: "Console", explain: bool = False) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=explain, pad_edge=False)
    table.add_column("Fact", style="bold", no_wrap=True)
    table.add_column("Value", overflow="fold")
    if explain:
        table.add_column("Source", style="dim", overflow="fold")
    for row in rows(device):
        cells = [Text(row.title), Text(row.value)]
        if explain:
            cells.append(Text(_source(device, row.facts)))
        table.add_row(*cells)
    console.print(table)
    if device.unavailable:
        console.print(Text("\nNot here", style="bold"))
        absent = Table(box=None, show_header=False, pad_edge=False)
        for name, reason in device.unavailable.items():
            absent.add_row(Text(name), Text(reason, style="dim"))
        console.print(absent)


def rows(device: Device) -> Iterator[Row]:
    host, cpu, limits, memory = device.host, device.cpu, device.limits, device.memory
    yield Row(
        "System",
        f"{host.os} {host.kernel}, {host.architecture}",
        ("host.os", "host.kernel", "host.architecture"),
    )
    yield Row("Python", host.python, ("host.python",))
    yield Row("CPU", cpu.model or "unknown", ("cpu.model",))
    yield Row("Vendor", cpu.vendor or "unknown", ("cpu.vendor",))
    yield Row("SIMD level", cpu.simd_level, ("cpu.simd_level",))
    yield Row("SIMD sets", " ".join(cpu.simd) or "none found", ("cpu.simd",))
    physical = "unknown" if cpu.physical_cores is None else str(cpu.physical_cores)
    yield Row(
        "Cores",
        f"{physical} physical, {cpu.logical_cores} logical",
        ("cpu.physical_cores", "cpu.logical_cores"),
    )
    yield Row("Usable cores", str(limits.usable_cores), ("limits.usable_cores",))
    if limits.cgroup_cores is not None:
        yield Row("CPU quota", f"{limits.cgroup_cores:g} cores", ("limits.cgroup_cores",))
    if "memory" not in device.unavailable:
        total, available, usable = memory.total_bytes, memory.available_bytes, memory.usable_bytes
        yield Row(
            "Memory",
            f"{_size(total)}, {_size(available)} available",
            ("memory.total_bytes", "memory.available_bytes"),
        )
        yield Row("Usable memory", _size(usable), ("memory.usable_bytes",))
    if limits.cgroup_memory_bytes is not None:
        yield Row("Memory limit", _size(limits.cgroup_memory_bytes), ("limits.cgroup_memory_bytes",))
    for accelerator in device.accelerators:
        driver = f" (driver {accelerator.driver})" if accelerator.driver else ""
        yield Row(accelerator.kind.upper(), f"{accelerator.name}{driver}", (f"accelerators.{accelerator.kind}",))
    for runtime in device.runtimes:
        providers = f": {', '.join(runtime.providers)}" if runtime.providers else ""
        yield Row(runtime.name, f"{runtime.version}{providers}", (f"runtimes.{runtime.name}",))


def _source(device: Device, facts: tuple[str, ...]) -> str:
    found = (
        source
        for name, source in device.sources.items()
        if any(name == fact or name.startswith(f"{fact}.") for fact in facts)
    )
    return "; ".join(dict.fromkeys(found))


def _size(size_bytes: int) -> str:
    gibibytes = size_bytes / 2**30
    return f"{gibibytes:.1f} GiB" if gibibytes >= 1 else f"{size_bytes / 2**20:.0f} MiB"
