"""Which CPUs are on, which of them share a core, and which a socket."""

from dataclasses import dataclass
from typing import TypeGuard

from edgeopt.hw import kernel_text
from edgeopt.hw.host import Host

CPU_FOLDER = "/sys/devices/system/cpu"
NODE_FOLDER = "/sys/devices/system/node"
# The kernel's own limit on x86 (CONFIG_NR_CPUS with MAXSMP); a file that tells of more is damaged.
_MOST_CPUS = 8192
# POWER has 8, Xeon Phi 4; a list with more is damaged.
_MOST_THREADS = 8


@dataclass(frozen=True, slots=True)
class Groups:
    """CPUs by what they share: a core or a socket."""

    cpus: tuple[tuple[int, ...], ...]
    source: str


def online(host: Host) -> tuple[tuple[int, ...], str]:
    """The numbers of the CPUs that are on, and what says so; none where nobody tells."""
    path = f"{CPU_FOLDER}/online"
    listed = kernel_text.cpu_list(host.read(path))
    if 0 < len(listed) <= _MOST_CPUS:
        return listed, path
    found = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    numbers = (kernel_text.whole(text) for text in kernel_text.values(found, "processor"))
    known = sorted({n for n in numbers if n is not None and 0 <= n < kernel_text.CPU_NUMBER_LIMIT})
    return tuple(known[:_MOST_CPUS]), "/proc/cpuinfo: processor"


def seen(host: Host) -> tuple[int, ...]:
    """The CPUs that are on and have a folder, so that a damaged list cannot make the probe read for minutes."""
    folders = frozenset(host.list(CPU_FOLDER))
    return tuple(cpu for cpu in online(host)[0] if f"cpu{cpu}" in folders)


def logical_cores(host: Host) -> tuple[int, str] | None:
    """How many CPUs are on, and what says so."""
    cpus, source = online(host)
    if cpus:
        return len(cpus), source
    counted = host.call("os", "cpu_count")
    return (counted, "os.cpu_count()") if _is_count(counted) else None


def physical_cores(host: Host, groups: Groups | None = None) -> tuple[int, str] | None:
    """How many cores these CPUs are, hyper-threads counted once."""
    groups = groups or cores(host)
    if groups:
        return len(groups.cpus), groups.source
    counted = host.call("psutil", "cpu_count", False)
    return (counted, "psutil.cpu_count(logical=False)") if _is_count(counted) else None


def cores(host: Host) -> Groups | None:
    """The CPUs of each core."""
    # core_cpus_list is the newer name of thread_siblings_list (Documentation/admin-guide/cputopology.rst).
    found = _shared(host, "core_cpus_list", "thread_siblings_list", most=_MOST_THREADS)
    if found:
        if _only_looks_like_threads(host, found):
            reason = f"{CPU_FOLDER}/smt/active: 0 (topology/core_id is -1: the kernel does not know the cores)"
            return Groups(tuple((cpu,) for group in found for cpu in group), reason)
        return Groups(found, f"{CPU_FOLDER}/cpu*/topology")
    named = _from_cpuinfo(host, ("physical id", "core id"))
    return named if named and threads_per_core(named) <= _MOST_THREADS else None


def sockets(host: Host) -> Groups | None:
    """The CPUs of each socket."""
    found = _shared(host, "package_cpus_list", "core_siblings_list", most=None)
    if not found:
        return _from_cpuinfo(host, ("physical id",))
    if len(found) > 1 and _packages_are_clusters(host, len(found)):
        every = tuple(cpu for group in found for cpu in group)
        return Groups((every,), "the device tree (its clusters are what the kernel lists as packages)")
    return Groups(found, f"{CPU_FOLDER}/cpu*/topology")


def threads_per_core(groups: Groups) -> int:
    """Of the cores that have most: efficiency cores often have one where the others have two."""
    return max(len(group) for group in groups.cpus)


def _shared(host: Host, name: str, older_name: str, most: int | None) -> tuple[tuple[int, ...], ...]:
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
        if cpu not in group or not done.isdisjoint(group) or (most and len(group) > most):
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
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_CPUS
