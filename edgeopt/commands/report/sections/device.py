"""The device that it was proved on, its state, and what was installed."""

from edgeopt.commands.documents.blocks import Block, Row, Section, Table, Words, columns, rows
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Facts
from edgeopt.hw.device import Cache, Device


def section(facts: Facts) -> Section | None:
    blocks: list[Block] = []
    deployment = facts.deployment
    if facts.device is not None:
        blocks += [Words(facts.device_is), Table(columns("", "what it is"), rows(*_facts(facts.device)))]
        blocks += _state(facts.device)
    elif deployment.machine:
        blocks.append(Table(columns("", "what it is"), rows(*deployment.machine.items())))
    if facts.device is None and "device" in facts.unknown:
        blocks.append(Words(facts.unknown["device"], "faint"))
    if facts.speed and facts.speed.measured_while:
        blocks.append(Words(f"During the proof: {facts.speed.measured_while}"))
    if deployment.runtimes:
        chosen = deployment.run.backend
        listed = tuple(
            Row((name, version), "strong" if chosen.startswith(name) else "")
            for name, version in deployment.runtimes.items()
        )
        blocks.append(Table(columns("installed", "version"), listed))
    return Section("device", "Device and runtimes", tuple(blocks)) if blocks else None


def _facts(device: Device) -> list[tuple[str, str]]:
    host, cpu, limits = device.host, device.cpu, device.limits
    cores = f"{cpu.physical_cores or '?'} cores, {words.several(cpu.logical_cores, 'thread')}"
    if limits.usable_cores != cpu.logical_cores:
        cores += f", {limits.usable_cores} of them usable"
    kind = [each for each in (cpu.model, cpu.microarchitecture) if each]
    found = [
        ("board", host.board or ""),
        ("processor", " · ".join(kind) or "not told"),
        ("cores", cores),
        ("instructions", ", ".join(cpu.simd)),
        ("caches", ", ".join(_cache(each) for each in device.caches if each.kind != "instruction")),
        ("memory", words.size(device.memory.total_bytes)),
        (
            "system",
            " · ".join(each for each in (host.distribution or host.os, host.kernel, host.architecture) if each),
        ),
        ("virtual machine", host.virtual_machine or ""),
        ("container", host.container or ""),
        ("Python", host.python),
        *((each.kind.upper(), f"{each.name}{_driver(each.driver)}") for each in device.accelerators),
    ]
    return [(name, value) for name, value in found if value]


def _cache(each: Cache) -> str:
    several = f"{each.instances} x " if each.instances > 1 else ""
    return f"L{each.level} {several}{words.size(each.size_bytes)}"


def _driver(version: str | None) -> str:
    return f", driver {version}" if version else ""


def _state(device: Device) -> list[Block]:
    state = device.state
    if state is None:
        return []
    if state.worth_measuring:
        return [Words("At the start, the state of the device allowed reliable measurements.")]
    return [Words(f"At the start: {' '.join(state.reasons)}", "warning")]
