"""Topology of the CPUs: which are online, share a core or socket, or are alike; clocks; the CPUs to use."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeGuard, get_args

from edgeopt.errors import UsageError
from edgeopt.hw import cpu_models, kernel_text
from edgeopt.hw.device import Cluster, Device
from edgeopt.hw.host import Host
from edgeopt.hw.kernel_text import cpu_list

CPU_FOLDER = "/sys/devices/system/cpu"
NODE_FOLDER = "/sys/devices/system/node"
# The kernel's own limit on x86 (CONFIG_NR_CPUS with MAXSMP); a file that tells of more is damaged.
_MAX_CPUS = 8192
# POWER has 8, Xeon Phi 4; a list with more is damaged.
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class Groups:
    """CPUs by what they share: a core or a socket."""

    cpus: tuple[tuple[int, ...], ...]
    source: str


def online(host: Host) -> tuple[tuple[int, ...], str]:
    """The numbers of the CPUs that are on, and what says so; none where nobody tells."""
    path = f"{CPU_FOLDER}/online"
    listed = kernel_text.cpu_list(host.read(path))
    if 0 < len(listed) <= _MAX_CPUS:
        return listed, path
    found = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    numbers = (kernel_text.whole(text) for text in kernel_text.values(found, "processor"))
    known = sorted({n for n in numbers if n is not None and 0 <= n < kernel_text.CPU_NUMBER_LIMIT})
    return tuple(known[:_MAX_CPUS]), "/proc/cpuinfo: processor"


def seen(host: Host) -> tuple[int, ...]:
    """The CPUs that are on and have a folder, so that a damaged list cannot make the probe read for minutes."""
    folders = frozenset(host.list(CPU_FOLDER))
    return tuple(cpu for cpu in online(host)[0] if f"cpu{cpu}" in folders)


def logical_cores(host: Host) -> tuple[int, str] | None:
    """Returns the number of online CPUs, and its source."""
    cpus, source = online(host)
    if cpus:
        return len(cpus), source
    counted = host.call("os", "cpu_count")
    return (counted, "os.cpu_count()") if _is_count(counted) else None


def physical_cores(host: Host, groups: Groups | None = None) -> tuple[int, str] | None:
    """Returns the number of physical cores, with hyper-threads counted once, and its source."""
    groups = groups or cores(host)
    if groups:
        return len(groups.cpus), groups.source
    counted = host.call("psutil", "cpu_count", False)
    return (counted, "psutil.cpu_count(logical=False)") if _is_count(counted) else None


def cores(host: Host) -> Groups | None:
    """The CPUs of each core."""
    # core_cpus_list is the newer name of thread_siblings_list (Documentation/admin-guide/cputopology.rst).
    found = _shared(host, "core_cpus_list", "thread_siblings_list", maximum=_MAX_THREADS)
    if found:
        if _only_looks_like_threads(host, found):
            reason = f"{CPU_FOLDER}/smt/active: 0 (topology/core_id is -1: the kernel does not know the cores)"
            return Groups(tuple((cpu,) for group in found for cpu in group), reason)
        return Groups(found, f"{CPU_FOLDER}/cpu*/topology")
    named = _from_cpuinfo(host, ("physical id", "core id"))
    return named if named and threads_per_core(named) <= _MAX_THREADS else None


def sockets(host: Host) -> Groups | None:
    """The CPUs of each socket."""
    found = _shared(host, "package_cpus_list", "core_siblings_list", maximum=None)
    if not found:
        return _from_cpuinfo(host, ("physical id",))
    if len(found) > 1 and _packages_are_clusters(host, len(found)):
        every = tuple(cpu for group in found for cpu in group)
        return Groups((every,), "the device tree (its clusters are what the kernel lists as packages)")
    return Groups(found, f"{CPU_FOLDER}/cpu*/topology")


def threads_per_core(groups: Groups) -> int:
    """Returns the most threads of any core: efficiency cores often have one and the others two."""
    return max(len(group) for group in groups.cpus)


def _shared(host: Host, name: str, older_name: str, maximum: int | None) -> tuple[tuple[int, ...], ...]:
    """The CPUs grouped by a list in their topology folders; empty where it is missing or contradicts itself."""
    cpus = seen(host)
    if len(cpus) < len(online(host)[0]):
        return ()
    known = frozenset(cpus)
    done: set[int] = set()
    found: list[tuple[int, ...]] = []
    for cpu in cpus:
        if cpu in done:
            continue  # one list speaks for all in it: a file a core and not one a CPU
        folder = f"{CPU_FOLDER}/cpu{cpu}/topology"
        text = host.read(f"{folder}/{name}") or host.read(f"{folder}/{older_name}")
        group = tuple(number for number in kernel_text.cpu_list(text) if number in known)
        if cpu not in group or not done.isdisjoint(group) or (maximum and len(group) > maximum):
            return ()
        done.update(group)
        found.append(group)
    return tuple(found)


def _only_looks_like_threads(host: Host, found: tuple[tuple[int, ...], ...]) -> bool:
    """A device tree without a cpu-map leaves every core id at -1, and equal ids look like one core.

    Then what tells is whether the kernel runs hyper-threads at all (Linux on RISC-V up to 6.x, for example).
    """
    first = next((group for group in found if len(group) > 1), None)
    if first is None:
        return False
    core_id = kernel_text.whole(host.read(f"{CPU_FOLDER}/cpu{first[0]}/topology/core_id"))
    return core_id == -1 and (host.read(f"{CPU_FOLDER}/smt/active") or "").strip() == "0"


def _packages_are_clusters(host: Host, packages: int) -> bool:
    """On Arm, kernels before 6.0 took each cluster of the device tree's cpu-map for a package.

    Machines with several sockets have a NUMA node for each, and firmware tables instead of a device tree.
    """
    found = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    if not kernel_text.values(found, "CPU implementer"):
        return False
    nodes = sum(name[4:].isdigit() for name in host.list(NODE_FOLDER) if name.startswith("node"))
    return nodes < packages


def _from_cpuinfo(host: Host, keys: tuple[str, ...]) -> Groups | None:
    groups: dict[tuple[str, ...], list[int]] = {}
    for block in kernel_text.blocks(host.read("/proc/cpuinfo") or ""):
        cpu = kernel_text.whole(block.get("processor"))
        if cpu is None or not all(kernel_text.whole(block.get(key)) is not None for key in keys):
            continue
        groups.setdefault(tuple(block[key] for key in keys), []).append(cpu)
    if not groups:
        return None
    return Groups(tuple(tuple(group) for group in groups.values()), f"/proc/cpuinfo: {', '.join(keys)}")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_CPUS


# The kernel has a performance counter unit for each kind of core of Intel's hybrid CPUs
# (Documentation/admin-guide/perf/ and arch/x86/events/intel/core.c).
HYBRID_FILES = (
    ("performance", "/sys/devices/cpu_core/cpus"),
    ("efficiency", "/sys/devices/cpu_atom/cpus"),
    ("low-power", "/sys/devices/cpu_lowpower/cpus"),
)
ALL_CORES = "all"
# On x86 the best cores of one kind clock some percent higher than their sisters, step by step from core to
# core; another kind (Zen 5c beside Zen 5, the low-power cores of a Core Ultra) is a gap wider than this.
_GAP_X86 = 0.85
# On Arm clusters of one core have a clock or capacity each; the same for all cores in them.
_GAP = 0.97
# Slower than this beside the fastest, and a core of an unknown kind counts as an efficiency core.
_EFFICIENCY = 0.5


@dataclass(frozen=True, slots=True)
class Core:
    """One logical CPU as far as it matters for its kind."""

    cpu: int
    model: str | None
    speed: int | None
    """Capacity where the kernel tells it for all, else the highest clock."""


def of_hybrid(host: Host) -> dict[int, str]:
    """The kind of each CPU of an Intel hybrid; empty on all others."""
    found: dict[int, str] = {}
    for kind, path in HYBRID_FILES:
        for cpu in kernel_text.cpu_list(host.read(path)):
            found.setdefault(cpu, kind)
    return found if len(set(found.values())) > 1 else {}


def arm_models(host: Host, cpus: tuple[int, ...]) -> dict[int, str]:
    """The part of each CPU, from /proc/cpuinfo, else from the registers that the kernel shows."""
    blocks = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    if not kernel_text.values(blocks, "CPU implementer"):
        return {}
    found: dict[int, str] = {}
    for block in blocks:
        cpu = kernel_text.whole(block.get("processor"))
        name = cpu_models.arm_model(block.get("CPU implementer"), block.get("CPU part"))
        if cpu is not None and name:
            found[cpu] = name
    if not found:
        # Kernels before 3.8 tell the part once for all, in a block of its own.
        name = next(
            (n for b in blocks if (n := cpu_models.arm_model(b.get("CPU implementer"), b.get("CPU part")))), None
        )
        return dict.fromkeys(cpus, name) if name else {}
    for cpu in cpus:
        if cpu not in found:
            path = f"{CPU_FOLDER}/cpu{cpu}/regs/identification/midr_el1"
            numbers = cpu_models.of_midr(host.read(path))
            if numbers and (name := cpu_models.arm_model(*numbers)):
                found[cpu] = name
    return found


def kind_groups(cores: tuple[Core, ...], *, x86: bool) -> list[list[Core]]:
    """Cores of one model and about one speed, the fastest group first."""
    by_model: dict[str | None, list[Core]] = {}
    for core in cores:
        by_model.setdefault(core.model, []).append(core)
    found: list[list[Core]] = []
    for members in by_model.values():
        if any(core.speed is None for core in members):
            found.append(members)
            continue
        current: list[Core] = []
        for core in sorted(members, key=lambda c: -(c.speed or 0)):
            if current and (core.speed or 0) < (_GAP_X86 if x86 else _GAP) * (current[-1].speed or 0):
                found.append(current)
                current = []
            current.append(core)
        found.append(current)
    return sorted(found, key=_slowness)


def kind_names(found: list[list[Core]]) -> list[str]:
    """`prime`, `performance`, `efficiency` for groups that come fastest first; `all` for a single one."""
    if len(found) < 2:
        return [ALL_CORES] * len(found)
    fastest = max((core.speed or 0 for core in found[0]), default=0)
    small = [
        place > 0 and (group[0].model in cpu_models.LITTLE or (group[0].speed or fastest) < _EFFICIENCY * fastest)
        for place, group in enumerate(found)
    ]
    if not any(small) and len(found) == 2 and found[0][0].model == found[1][0].model is None:
        small[1] = True  # two kinds of x86 core of one make: the compact ones
    others = any(not is_small for is_small in small[1:])
    return [
        "efficiency" if is_small else "prime" if place == 0 and others else "performance"
        for place, is_small in enumerate(small)
    ]


def _slowness(group: list[Core]) -> tuple[int, bool, int]:
    return (
        -max(core.speed or 0 for core in group),
        group[0].model in cpu_models.LITTLE,
        min(c.cpu for c in group),
    )


_LOWEST_HZ, _HIGHEST_HZ = 1_000_000, 20_000_000_000


def cpufreq_folder(cpu: int) -> str:
    return f"{CPU_FOLDER}/cpu{cpu}/cpufreq"


def max_hz(host: Host, cpu: int) -> int | None:
    return hertz(host.read(f"{cpufreq_folder(cpu)}/cpuinfo_max_freq"), 1000)


def min_hz(host: Host, cpu: int) -> int | None:
    return hertz(host.read(f"{cpufreq_folder(cpu)}/cpuinfo_min_freq"), 1000)


def base_hz(host: Host, cpu: int) -> tuple[int, str] | None:
    """Returns the base clock and its source: intel_pstate (in kHz), or the firmware's CPPC tables (in MHz)."""
    for path, unit in (
        (f"{cpufreq_folder(cpu)}/base_frequency", 1000),
        (f"{CPU_FOLDER}/cpu{cpu}/acpi_cppc/nominal_freq", 1_000_000),
    ):
        if clock := hertz(host.read(path), unit):
            return clock, path
    return None


def hertz(text: str | None, unit: int) -> int | None:
    number = kernel_text.whole(text)
    clock = None if number is None else number * unit
    return clock if clock is not None and _LOWEST_HZ <= clock <= _HIGHEST_HZ else None


CoreWord = Literal["usable", "physical", "performance"]
CORE_WORDS: tuple[CoreWord, ...] = get_args(CoreWord)


class Cores(NamedTuple):
    threads: int
    cores: tuple[int, ...]
    """The logical cores to keep to, both threads of each; empty: wherever the system puts them."""


def cores_for(word: str, device: Device) -> Cores:
    """`usable`: each thread that may really run at once; `physical`: one for each core of any kind; `performance`:
    one for each core of the faster kinds, and on these cores only.

    What a container or an affinity takes away is taken away here as well.
    """
    if word not in CORE_WORDS:
        raise UsageError(
            f"Unknown choice of cores '{word}'.", f"Give a number of threads, or one of: {', '.join(CORE_WORDS)}."
        )
    usable = device.limits.usable_cores
    if word == "usable":
        return Cores(usable, ())
    allowed = set(cpu_list(device.limits.affinity))
    clusters = _fast(device.clusters) if word == "performance" else device.clusters
    kept = {cluster: _within(cluster, allowed) for cluster in clusters}
    # Two threads of one core that an affinity leaves count as two: the record does not say which are siblings.
    counted = sum(min(cluster.cores, len(cores)) for cluster, cores in kept.items())
    physical = counted or device.cpu.physical_cores or device.cpu.logical_cores
    threads = max(1, min(usable, physical))
    if len(clusters) == len(device.clusters):
        return Cores(threads, ())
    return Cores(threads, tuple(core for cores in kept.values() for core in cores))


def _within(cluster: Cluster, allowed: set[int]) -> tuple[int, ...]:
    return tuple(core for core in cpu_list(cluster.cpus) if not allowed or core in allowed)


def _fast(clusters: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
    """All but those for efficiency: a `prime` core works with the performance cores."""
    return tuple(cluster for cluster in clusters if cluster.name != "efficiency") or clusters
