"""Clusters: which cores are of one kind, how fast the kernel knows them to be, and what they are called."""

from edgeopt.hw import cpu_identity, cpu_models, kernel_text, sysctl, topology, windows_facts
from edgeopt.hw.device import Cluster, Facts, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.topology import Core

# The kernel scales capacities so that the fastest core has this (Documentation/scheduler/sched-capacity.rst).
_FULL_CAPACITY = 1024


def probe(host: Host) -> Facts | Unavailable:
    cpus, source = topology.online(host)
    if not cpus:
        return _from_sysctl(host)
    seen = topology.seen(host)
    capacities = _capacities(host, seen)
    clocks = {cpu: hz for cpu in seen if (hz := topology.max_hz(host, cpu))}
    kinds = topology.of_hybrid(host)
    if kinds:
        groups, names, models = _hybrid(host, cpus, kinds, clocks)
        sources = {"clusters": ", ".join(path for _, path in topology.HYBRID_FILES if host.read(path))}
    else:
        groups, names, models = _by_speed(host, cpus, capacities, clocks)
        sources = {"clusters": source if len(groups) == 1 else _origin(models, capacities)}
    threads = topology.cores(host)
    rows = tuple(
        _cluster(name, group, models, threads, capacities, clocks)
        for name, group in zip(names, groups, strict=True)
    )
    if any(row.model for row in rows):
        sources["clusters.model"] = cpu_identity.CPUINFO
    if any(row.capacity for row in rows):
        sources["clusters.capacity"] = f"{topology.CPU_FOLDER}/cpu*/cpu_capacity"
    if any(row.clock_max_hz for row in rows):
        sources["clusters.clock_max_hz"] = f"{topology.CPU_FOLDER}/cpu*/cpufreq/cpuinfo_max_freq"
    if threads:
        sources["clusters.cores"] = threads.source
        return Facts(rows, sources)
    sources["clusters.cores"] = "one per CPU, because no source says which CPUs share a core"
    return Facts(rows, sources)


def _capacities(host: Host, cpus: tuple[int, ...]) -> dict[int, int]:
    """Returns the capacity of each CPU, or nothing unless all have one: capacities are relative to each other."""
    found = {}
    for cpu in cpus:
        capacity = kernel_text.whole(host.read(f"{topology.CPU_FOLDER}/cpu{cpu}/cpu_capacity"))
        if capacity is None or not 0 < capacity <= _FULL_CAPACITY:
            return {}
        found[cpu] = capacity
    return found


def _hybrid(
    host: Host, cpus: tuple[int, ...], kinds: dict[int, str], clocks: dict[int, int]
) -> tuple[list[list[int]], list[str], dict[int, str]]:
    blocks = kernel_text.blocks(host.read(cpu_identity.CPUINFO) or "")
    vendor, family, model, _ = cpu_identity.x86_numbers(blocks)
    cores = cpu_models.hybrid_cores(vendor, family, model)
    groups: list[list[int]] = []
    names: list[str] = []
    models: dict[int, str] = {}
    for kind in ("performance", "efficiency", "low-power"):
        members = tuple(Core(cpu, None, clocks.get(cpu)) for cpu in cpus if kinds.get(cpu) == kind)
        for place, group in enumerate(topology.kind_groups(members, x86=True)):
            # The low-power cores of a Core Ultra are of the same counter unit, but far slower.
            name = "low-power" if kind == "efficiency" and place else kind
            groups.append([core.cpu for core in group])
            names.append(name)
            called = getattr(cores, name.replace("-", "_")) if cores else None
            models |= dict.fromkeys(groups[-1], called) if called else {}
    return groups, names, models


def _by_speed(
    host: Host, cpus: tuple[int, ...], capacities: dict[int, int], clocks: dict[int, int]
) -> tuple[list[list[int]], list[str], dict[int, str]]:
    models = topology.arm_models(host, cpus)
    x86 = bool(kernel_text.values(kernel_text.blocks(host.read(cpu_identity.CPUINFO) or ""), "flags"))
    speeds = capacities if capacities and not x86 else clocks
    cores = tuple(Core(cpu, models.get(cpu), speeds.get(cpu)) for cpu in cpus)
    found = topology.kind_groups(cores, x86=x86)
    return [[core.cpu for core in group] for group in found], topology.kind_names(found), models


def _cluster(
    name: str,
    group: list[int],
    models: dict[int, str],
    threads: topology.Groups | None,
    capacities: dict[int, int],
    clocks: dict[int, int],
) -> Cluster:
    members = frozenset(group)
    cores = sum(not members.isdisjoint(core) for core in threads.cpus) if threads else len(group)
    return Cluster(
        name,
        kernel_text.as_list(group),
        cores=cores or len(group),
        threads=len(group),
        model=models.get(group[0]),
        capacity=max((capacities[cpu] for cpu in group if cpu in capacities), default=None),
        clock_max_hz=max((clocks[cpu] for cpu in group if cpu in clocks), default=None),
    )


def _origin(models: dict[int, str], capacities: dict[int, int]) -> str:
    speed = "cpu_capacity" if capacities else "cpufreq/cpuinfo_max_freq"
    sources = [f"{cpu_identity.CPUINFO}: CPU part"] if len(set(models.values())) > 1 else []
    return " and ".join([*sources, f"{topology.CPU_FOLDER}/cpu*/{speed}"])


def _from_sysctl(host: Host) -> Facts | Unavailable:
    found = sysctl.clusters(sysctl.read(host))
    if not found and windows_facts.read(host):
        return Unavailable(windows_facts.NOT_ASKED)
    if not found:
        return Unavailable("no source distinguishes kinds of cores")
    return Facts(found, {"clusters": "sysctl hw.perflevel*"})
