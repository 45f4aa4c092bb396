"""A device record as rows of text, and on the terminal."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, TypeVar

from edgeopt import units
from edgeopt.hw.device import Accelerator, Cache, Clock, Cluster, ComputePeak, Device, MemoryPeak, Peaks, Runtime
from edgeopt.hw.probe_cache import age_s
from edgeopt.units import count, size
from edgeopt.views.blocks import Block, Listed, Marked, Row, Table, WordsBlock, columns, filled, section
from edgeopt.views.words import ago

Peak = TypeVar("Peak", ComputePeak, MemoryPeak)

_FAMILIES = (
    ("AVX-512", "avx512", ("avx512-", "avx512")),
    ("AVX10", "avx10", ()),
    ("AMX", "amx", ("amx-",)),
    ("SVE and SME", "s", ()),
)
# Missing facts of runtimes and missing peaks are listed, because the user can do something about them.
_LISTED = ("runtimes", "peaks")
_SECTIONS = (*(f"{part}." for part in Device.__struct_fields__ if part not in _LISTED), "clock")
_UNKNOWN = "unknown"
_PROVIDER = "ExecutionProvider"


def peak_rows(peaks: Peaks) -> Iterator[tuple[str, str]]:
    disturbed = ", while the device was busy or throttled" if peaks.disturbed_by else ""
    yield "measured", f"{ago(age_s(peaks))}{disturbed}"
    for (runtime, precision), group in groupby(peaks.compute, lambda peak: (peak.runtime, peak.precision)):
        unit = "GOP/s" if precision == "int8" else "GFLOP/s"
        yield f"{runtime} {precision}", _by_threads(group, lambda peak: peak.operations_per_s, unit)
    for level, group_of_level in groupby(peaks.memory, lambda peak: peak.level):
        ways = list(group_of_level)
        read = _by_threads(ways, lambda peak: peak.read_bytes_per_s, "GB/s")
        copied = _by_threads(ways, lambda peak: peak.copy_bytes_per_s, "GB/s")
        yield level, "; ".join(f"{way} {rate}" for way, rate in (("read", read), ("copy", copied)) if rate)
    if peaks.overheads:
        rate = (f"{each.runtime} {each.overhead_us:.1f} µs" for each in peaks.overheads)
        yield "cost of a run", ", ".join(rate)


def _by_threads(peaks: Iterable[Peak], rate: Callable[[Peak], float | None], unit: str) -> str:
    """`118 GFLOP/s by one core, 229 by 2`."""
    rates = [(peak.threads, value) for peak in peaks if (value := rate(peak)) is not None]
    words: list[str] = []
    for threads, value in rates:
        named = "" if words else f" {unit}"
        words.append(f"{_short(value / 1e9)}{named} by {'one core' if threads == 1 else f'{threads} cores'}")
    return ", ".join(words)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


class FactRow(NamedTuple):
    group: str
    title: str
    value: str
    facts: tuple[str, ...]
    """Their keys in `Device.sources`, or the starts of several."""


def headline(device: Device) -> str:
    """Returns one line that describes the device."""
    cpu, limits, memory = device.cpu, device.limits, device.memory
    name = cpu.model or f"a CPU of an unknown model ({device.host.architecture})"
    parts = [name, cpu.simd_level, count(limits.usable_cores, "usable core")]
    if memory.total_bytes:
        parts.append(f"{size(memory.usable_bytes)} of memory usable")
    return " · ".join(parts)


def rows(device: Device) -> Iterator[FactRow]:
    yield from _system(device)
    yield from _cpu(device)
    yield from _limits(device)
    yield from _memory(device)
    for accelerator in device.accelerators:
        kind = accelerator.kind
        facts = (f"accelerators.{kind}.{accelerator.index}",)
        yield FactRow(kind.upper(), str(accelerator.index), _accelerator(accelerator), facts)
        if accelerator.note:
            yield FactRow(kind.upper(), "", accelerator.note, ())
    for runtime in device.runtimes:
        yield from _runtime(runtime)
    if device.peaks:
        for title, value in peak_rows(device.peaks):
            yield FactRow("Peaks", title, value, ("peaks",))
    yield from _state(device)


def _system(device: Device) -> Iterator[FactRow]:
    host = device.host
    if host.board:
        yield FactRow("System", "board", host.board, ("host.board",))
    kernel = "" if host.kernel == _UNKNOWN else f" {host.kernel}"
    names = [host.distribution, f"{host.os}{kernel}", host.architecture]
    facts = ("host.distribution", "host.os", "host.kernel", "host.architecture")
    yield FactRow("System", "operating system", ", ".join(n for n in names if n), facts)
    if host.python != _UNKNOWN:
        libc = f", {host.libc}" if host.libc else ""
        yield FactRow("System", "Python", f"{host.python}{libc}", ("host.python", "host.libc"))
    inside = [f"a virtual machine ({host.virtual_machine})"] if host.virtual_machine else []
    inside += [f"a container ({host.container})"] if host.container else []
    if inside:
        yield FactRow("System", "runs in", " and ".join(inside), ("host.virtual_machine", "host.container"))
    if device.identity:
        names = [device.identity.host_name, device.identity.machine_id]
        yield FactRow("System", "identity", ", ".join(n for n in names if n) or _UNKNOWN, ("identity",))


def _cpu(device: Device) -> Iterator[FactRow]:
    cpu = device.cpu
    designations = dict.fromkeys((cpu.model or _UNKNOWN, cpu.vendor, cpu.microarchitecture))
    yield FactRow(
        "CPU",
        "model",
        ", ".join(t for t in designations if t),
        ("cpu.model", "cpu.vendor", "cpu.microarchitecture"),
    )
    physical = _UNKNOWN if cpu.physical_cores is None else str(cpu.physical_cores)
    sockets = f" in {cpu.sockets} sockets" if cpu.sockets and cpu.sockets > 1 else ""
    facts = ("cpu.physical_cores", "cpu.logical_cores", "cpu.sockets", "cpu.threads_per_core")
    yield FactRow("CPU", "cores", f"{physical} physical, {cpu.logical_cores} logical{sockets}", facts)
    if len(device.clusters) > 1:
        for cluster in device.clusters:
            yield FactRow("CPU", f"  {cluster.name}", _cluster(cluster), ("clusters",))
    bits = f", vectors of {cpu.vector_bits} bits" if cpu.vector_bits else ""
    yield FactRow("CPU", "SIMD", f"{cpu.simd_level}{bits}", ("cpu.simd_level", "cpu.vector_bits"))
    for family, names in _simd(cpu.simd):
        yield FactRow("CPU", f"  {family}", " ".join(names), ("cpu.simd",))
    if device.caches:
        yield FactRow("CPU", "caches", ", ".join(_cache(cache) for cache in device.caches), ("caches",))
    if len(device.numa) > 1:
        nodes = (
            f"{n.number}: {n.cpus}{f' ({size(n.memory_bytes)})' if n.memory_bytes else ''}" for n in device.numa
        )
        yield FactRow("CPU", "NUMA nodes", "; ".join(nodes), ("numa",))
    if device.clock and (words := _clock(device.clock)):
        yield FactRow("CPU", "clock", words, ("clock",))


def _limits(device: Device) -> Iterator[FactRow]:
    limits = device.limits
    cpus = f" ({limits.affinity})" if limits.affinity else ""
    allowed = f"{limits.affinity_cores} of {device.cpu.logical_cores} allowed{cpus}"
    facts = ("limits.usable_cores", "limits.affinity_cores")
    yield FactRow("Limits", "usable cores", f"{limits.usable_cores}; {allowed}", facts)
    if limits.cgroup_cores is not None:
        yield FactRow("Limits", "CPU quota", f"{limits.cgroup_cores:g} cores", ("limits.cgroup_cores",))
    if limits.cgroup_memory_bytes is not None:
        yield FactRow("Limits", "memory", size(limits.cgroup_memory_bytes), ("limits.cgroup_memory_bytes",))


def _memory(device: Device) -> Iterator[FactRow]:
    memory = device.memory
    if not memory.total_bytes:
        return
    amounts = f"{size(memory.total_bytes)}, {size(memory.available_bytes)} available"
    facts = ("memory.total_bytes", "memory.available_bytes")
    yield FactRow("Memory", "total", amounts, facts)
    yield FactRow("Memory", "usable", size(memory.usable_bytes), ("memory.usable_bytes",))
    if memory.swap_total_bytes is not None:
        free = (
            f", {size(memory.swap_free_bytes)} free" if memory.swap_total_bytes and memory.swap_free_bytes else ""
        )
        total = size(memory.swap_total_bytes) if memory.swap_total_bytes else "none"
        yield FactRow("Memory", "swap", f"{total}{free}", ("memory.swap_total_bytes", "memory.swap_free_bytes"))
    if memory.transparent_huge_pages or memory.huge_page_bytes:
        parts = [f"transparent: {memory.transparent_huge_pages}"] if memory.transparent_huge_pages else []
        if memory.huge_pages_total and memory.huge_page_bytes:
            parts.append(f"{memory.huge_pages_total} of {size(memory.huge_page_bytes)} set aside")
        if parts:
            sources = ("memory.transparent_huge_pages", "memory.huge_page_bytes", "memory.huge_pages_total")
            yield FactRow("Memory", "huge pages", ", ".join(parts), sources)


def _state(device: Device) -> Iterator[FactRow]:
    state = device.state
    if state is None:
        return
    if state.load_1m is not None:
        steal = f", {state.steal_percent:.1f} % stolen" if state.steal_percent else ""
        load = f"{state.load_1m:g} in the last minute{steal}"
        yield FactRow("State", "load", load, ("state.load_1m", "state.steal_percent"))
    if state.clock_hz:
        yield FactRow("State", "clock", units.clock(state.clock_hz), ("state.clock_hz",))
    if state.temperatures_c:
        hottest = max(state.temperatures_c, key=lambda name: state.temperatures_c[name])
        words = f"{state.temperatures_c[hottest]:.0f} °C ({hottest}"
        words += f", the hottest of {len(state.temperatures_c)})" if len(state.temperatures_c) > 1 else ")"
        yield FactRow("State", "temperature", words, ("state.temperatures_c",))
    power = [state.power_source or ""]
    power += [f"{state.battery_percent:.0f} % charged"] if state.battery_percent is not None else []
    power += [f"{state.power_w:.1f} W"] if state.power_w is not None else []
    if any(power):
        facts = ("state.power_source", "state.battery_percent", "state.power_w")
        yield FactRow("State", "power", ", ".join(p for p in power if p), facts)


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


def _runtime(runtime: Runtime) -> Iterator[FactRow]:
    facts = (f"runtimes.{runtime.name}",)
    short = [provider.removesuffix(_PROVIDER) for provider in runtime.providers]
    listed = "" if runtime.devices else ", ".join(short)
    yield FactRow("Runtimes", runtime.name, runtime.version + (f": {listed}" if listed else ""), facts)
    for device, name in runtime.devices.items():
        can = runtime.capabilities.get(device, ())
        yield FactRow("Runtimes", f"  {device}", name + (f" ({', '.join(can)})" if can else ""), facts)


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
        parts.append(f"{f'{units.clock(clock.min_hz)} to ' if clock.min_hz else ''}{units.clock(clock.max_hz)}")
    parts += [f"base {units.clock(clock.base_hz)}"] if clock.base_hz else []
    if clock.governor:
        parts.append(f"governor {clock.governor}" + (f" ({clock.driver})" if clock.driver else ""))
    parts += [f"turbo {'on' if clock.turbo else 'off'}"] if clock.turbo is not None else []
    return ", ".join(parts)


def show(device: Device, explain: bool = False) -> list[Block]:
    found = []
    group = ""
    for row in rows(device):
        source = _source(device, row.facts) if explain else ""
        named = "" if row.group == group else row.group
        cells = (named, Marked(row.title, "accent"), row.value, Marked(source, "faint"))
        found.append(Row(cells, apart=bool(named)))
        group = row.group
    titles = columns("=", "=Fact", "Value", "Source") if explain else columns("=", "=", "", "")
    blocks: list[Block] = [WordsBlock(headline(device), "strong"), filled(Table(titles, tuple(found)))]
    return blocks + _verdict(device) + _absent(device, explain)


def _verdict(device: Device) -> list[Block]:
    state = device.state
    if state is None:
        return []
    ready = WordsBlock("This device is ready for measurements.", "good")
    verdict = (
        ready if state.worth_measuring else WordsBlock("This device is not ready for measurements now:", "warning")
    )
    return [section("", verdict, Listed(tuple(state.reasons)))]


def is_detail(name: str) -> bool:
    """Whether it is a single fact of something that is here (`memory.swap_total_bytes`, `gpu.0.clock_hz`)."""
    return name.startswith(_SECTIONS) or any(part.isdigit() for part in name.split("."))


def _absent(device: Device, explain: bool) -> list[Block]:
    names: dict[str, list[str]] = {}
    for name, reason in device.unavailable.items():
        if explain or not is_detail(name):
            names.setdefault(reason, []).append(name)
    found = tuple(Row((", ".join(same), reason), "faint") for reason, same in names.items())
    return [section("Not available", Table(columns("", ""), found))] if found else []


def _source(device: Device, facts: tuple[str, ...]) -> str:
    found = (
        source
        for name, source in device.sources.items()
        if any(name == fact or name.startswith(f"{fact}.") for fact in facts)
    )
    return "; ".join(dict.fromkeys(found))
