"""A device record as rows of text: groups, titles, values, and the facts that each row tells."""

from collections.abc import Iterator
from typing import NamedTuple

from edgeopt import units
from edgeopt.cli.peak_rows import peak_rows
from edgeopt.hw.device import Accelerator, Cache, Clock, Cluster, Device, Runtime
from edgeopt.units import count, size

_FAMILIES = (
    ("AVX-512", "avx512", ("avx512-", "avx512")),
    ("AVX10", "avx10", ()),
    ("AMX", "amx", ("amx-",)),
    ("SVE and SME", "s", ()),
)
# Facts of these sections are shown where they are known; that one is not is for those who ask.
_SECTIONS = (
    "host.",
    "cpu.",
    "memory.",
    "limits.",
    "clock",
    "clusters.",
    "caches.",
    "numa.",
    "state.",
    "identity.",
)
_UNKNOWN = "unknown"
_PROVIDER = "ExecutionProvider"


class Row(NamedTuple):
    group: str
    title: str
    value: str
    facts: tuple[str, ...]
    """Their keys in `Device.sources`, or the starts of several."""


def headline(device: Device) -> str:
    """What it is in one line."""
    cpu, limits, memory = device.cpu, device.limits, device.memory
    name = cpu.model or f"a CPU of an unknown model ({device.host.architecture})"
    parts = [name, cpu.simd_level, count(limits.usable_cores, "usable core")]
    if memory.total_bytes:
        parts.append(f"{size(memory.usable_bytes)} of memory usable")
    return " · ".join(parts)


def rows(device: Device) -> Iterator[Row]:
    yield from _system(device)
    yield from _cpu(device)
    yield from _limits(device)
    yield from _memory(device)
    for accelerator in device.accelerators:
        kind = accelerator.kind
        facts = (f"accelerators.{kind}.{accelerator.index}",)
        yield Row(kind.upper(), str(accelerator.index), _accelerator(accelerator), facts)
        if accelerator.note:
            yield Row(kind.upper(), "", accelerator.note, ())
    for runtime in device.runtimes:
        yield from _runtime(runtime)
    if device.peaks:
        for title, value in peak_rows(device.peaks):
            yield Row("Peaks", title, value, ("peaks",))
    yield from _state(device)


def is_detail(name: str) -> bool:
    """Whether it is a single fact of something that is here (`memory.swap_total_bytes`, `gpu.0.clock_hz`)."""
    return name.startswith(_SECTIONS) or any(part.isdigit() for part in name.split("."))


def _system(device: Device) -> Iterator[Row]:
    host = device.host
    if host.board:
        yield Row("System", "board", host.board, ("host.board",))
    kernel = "" if host.kernel == _UNKNOWN else f" {host.kernel}"
    names = [host.distribution, f"{host.os}{kernel}", host.architecture]
    facts = ("host.distribution", "host.os", "host.kernel", "host.architecture")
    yield Row("System", "operating system", ", ".join(n for n in names if n), facts)
    if host.python != _UNKNOWN:
        libc = f", {host.libc}" if host.libc else ""
        yield Row("System", "Python", f"{host.python}{libc}", ("host.python", "host.libc"))
    inside = [f"a virtual machine ({host.virtual_machine})"] if host.virtual_machine else []
    inside += [f"a container ({host.container})"] if host.container else []
    if inside:
        yield Row("System", "runs in", " and ".join(inside), ("host.virtual_machine", "host.container"))
    if device.identity:
        names = [device.identity.host_name, device.identity.machine_id]
        yield Row("System", "identity", ", ".join(n for n in names if n) or _UNKNOWN, ("identity",))


def _cpu(device: Device) -> Iterator[Row]:
    cpu = device.cpu
    told = dict.fromkeys((cpu.model or _UNKNOWN, cpu.vendor, cpu.microarchitecture))
    yield Row(
        "CPU", "model", ", ".join(t for t in told if t), ("cpu.model", "cpu.vendor", "cpu.microarchitecture")
    )
    physical = _UNKNOWN if cpu.physical_cores is None else str(cpu.physical_cores)
    sockets = f" in {cpu.sockets} sockets" if cpu.sockets and cpu.sockets > 1 else ""
    facts = ("cpu.physical_cores", "cpu.logical_cores", "cpu.sockets", "cpu.threads_per_core")
    yield Row("CPU", "cores", f"{physical} physical, {cpu.logical_cores} logical{sockets}", facts)
    if len(device.clusters) > 1:
        for cluster in device.clusters:
            yield Row("CPU", f"  {cluster.name}", _cluster(cluster), ("clusters",))
    bits = f", vectors of {cpu.vector_bits} bits" if cpu.vector_bits else ""
    yield Row("CPU", "SIMD", f"{cpu.simd_level}{bits}", ("cpu.simd_level", "cpu.vector_bits"))
    for family, names in _simd(cpu.simd):
        yield Row("CPU", f"  {family}", " ".join(names), ("cpu.simd",))
    if device.caches:
        yield Row("CPU", "caches", ", ".join(_cache(cache) for cache in device.caches), ("caches",))
    if len(device.numa) > 1:
        nodes = (
            f"{n.number}: {n.cpus}{f' ({size(n.memory_bytes)})' if n.memory_bytes else ''}" for n in device.numa
        )
        yield Row("CPU", "NUMA nodes", "; ".join(nodes), ("numa",))
    if device.clock and (words := _clock(device.clock)):
        yield Row("CPU", "clock", words, ("clock",))


def _limits(device: Device) -> Iterator[Row]:
    limits = device.limits
    cpus = f" ({limits.affinity})" if limits.affinity else ""
    allowed = f"{limits.affinity_cores} of {device.cpu.logical_cores} allowed{cpus}"
    facts = ("limits.usable_cores", "limits.affinity_cores")
    yield Row("Limits", "usable cores", f"{limits.usable_cores}; {allowed}", facts)
    if limits.cgroup_cores is not None:
        yield Row("Limits", "CPU quota", f"{limits.cgroup_cores:g} cores", ("limits.cgroup_cores",))
    if limits.cgroup_memory_bytes is not None:
        yield Row("Limits", "memory", size(limits.cgroup_memory_bytes), ("limits.cgroup_memory_bytes",))


def _memory(device: Device) -> Iterator[Row]:
    memory = device.memory
    if not memory.total_bytes:
        return
    amounts = f"{size(memory.total_bytes)}, {size(memory.available_bytes)} available"
    facts = ("memory.total_bytes", "memory.available_bytes")
    yield Row("Memory", "total", amounts, facts)
    yield Row("Memory", "usable", size(memory.usable_bytes), ("memory.usable_bytes",))
    if memory.swap_total_bytes is not None:
        free = (
            f", {size(memory.swap_free_bytes)} free" if memory.swap_total_bytes and memory.swap_free_bytes else ""
        )
        total = size(memory.swap_total_bytes) if memory.swap_total_bytes else "none"
        yield Row("Memory", "swap", f"{total}{free}", ("memory.swap_total_bytes", "memory.swap_free_bytes"))
    if memory.transparent_huge_pages or memory.huge_page_bytes:
        parts = [f"transparent: {memory.transparent_huge_pages}"] if memory.transparent_huge_pages else []
        if memory.huge_pages_total and memory.huge_page_bytes:
            parts.append(f"{memory.huge_pages_total} of {size(memory.huge_page_bytes)} set aside")
        if parts:
            yield Row(
                "Memory",
                "huge pages",
                ", ".join(parts),
                ("memory.transparent_huge_pages", "memory.huge_page_bytes", "memory.huge_pages_total"),
            )


def _state(device: Device) -> Iterator[Row]:
    state = device.state
    if state is None:
        return
    if state.load_1m is not None:
        steal = f", {state.steal_percent:.1f} % stolen" if state.steal_percent else ""
        yield Row(
            "State",
            "load",
            f"{state.load_1m:g} in the last minute{steal}",
            ("state.load_1m", "state.steal_percent"),
        )
    if state.clock_hz:
        yield Row("State", "clock", units.clock(state.clock_hz), ("state.clock_hz",))
    if state.temperatures_c:
        hottest = max(state.temperatures_c, key=lambda name: state.temperatures_c[name])
        words = f"{state.temperatures_c[hottest]:.0f} °C ({hottest}"
        words += f", the hottest of {len(state.temperatures_c)})" if len(state.temperatures_c) > 1 else ")"
        yield Row("State", "temperature", words, ("state.temperatures_c",))
    power = [state.power_source or ""]
    power += [f"{state.battery_percent:.0f} % charged"] if state.battery_percent is not None else []
    power += [f"{state.power_w:.1f} W"] if state.power_w is not None else []
    if any(power):
        facts = ("state.power_source", "state.battery_percent", "state.power_w")
        yield Row("State", "power", ", ".join(p for p in power if p), facts)


def _accelerator(each: Accelerator) -> str:
    parts = [each.name]
    if each.memory_total_bytes:
        free = f" ({size(each.memory_free_bytes)} free)" if each.memory_free_bytes is not None else ""
        shared = " shared with the CPU" if each.memory_shared else ""
        parts.append(f"{size(each.memory_total_bytes)}{free}{shared}")
    parts += [f"driver {each.driver}"] if each.driver else []
    parts += [f"compute capability {each.compute_capability}"] if each.compute_capability else []
    parts += [f"CUDA {each.cuda_version}"] if each.cuda_version else []
    parts += [f"{each.power_limit_w:g} W"] if each.power_limit_w else []
    parts += [f"{each.temperature_c:.0f} °C"] if each.temperature_c is not None else []
    parts += each.links
    text = ", ".join(parts)
    if each.runtime:
        text += f"; {each.runtime} drives it" + ("" if each.runtime_installed else " (not installed)")
    return text


def _runtime(runtime: Runtime) -> Iterator[Row]:
    facts = (f"runtimes.{runtime.name}",)
    short = [provider.removesuffix(_PROVIDER) for provider in runtime.providers]
    listed = "" if runtime.devices else ", ".join(short)
    yield Row("Runtimes", runtime.name, runtime.version + (f": {listed}" if listed else ""), facts)
    for device, name in runtime.devices.items():
        can = runtime.capabilities.get(device, ())
        yield Row("Runtimes", f"  {device}", name + (f" ({', '.join(can)})" if can else ""), facts)


def _simd(names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The sets by family; the family's name is not said again in each."""
    left = list(names)
    groups = []
    for family, start, prefixes in _FAMILIES:
        mine = [n for n in left if n.startswith(start) and (start != "s" or n.startswith(("sve", "sme")))]
        left = [n for n in left if n not in mine]
        if mine:
            groups.append((family, tuple(_without(n, prefixes) for n in mine)))
    yield from [("basic sets", tuple(left))] if left else []
    yield from groups


def _without(name: str, prefixes: tuple[str, ...]) -> str:
    return next((name.removeprefix(p) for p in prefixes if name.startswith(p) and name != p), name)


def _cluster(cluster: Cluster) -> str:
    model = f"{cluster.model}, " if cluster.model else ""
    clock = f", up to {units.clock(cluster.clock_max_hz)}" if cluster.clock_max_hz else ""
    return f"{model}{count(cluster.cores, 'core')}, {count(cluster.threads, 'thread')} ({cluster.cpus}){clock}"


def _cache(cache: Cache) -> str:
    letter = {"data": "d", "instruction": "i", "unified": ""}[cache.kind]
    times = f"{cache.instances} x " if cache.instances > 1 else ""
    return f"L{cache.level}{letter} {times}{size(cache.size_bytes)}"


def _clock(clock: Clock) -> str:
    parts = []
    if clock.max_hz:
        parts.append(
            f"{units.clock(clock.min_hz)} to {units.clock(clock.max_hz)}"
            if clock.min_hz
            else units.clock(clock.max_hz)
        )
    parts += [f"base {units.clock(clock.base_hz)}"] if clock.base_hz else []
    if clock.governor:
        parts.append(f"governor {clock.governor}" + (f" ({clock.driver})" if clock.driver else ""))
    parts += [f"turbo {'on' if clock.turbo else 'off'}"] if clock.turbo is not None else []
    return ", ".join(parts)
