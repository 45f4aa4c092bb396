"""Which CPUs are on, and which of them share a core."""

from edgeopt.hw import kernel_text
from edgeopt.hw.host import Host

CPU_FOLDER = "/sys/devices/system/cpu"


def logical_cores(host: Host) -> tuple[int, str] | None:
    """How many CPUs are on, and what says so."""
    online = kernel_text.cpu_list(host.read(f"{CPU_FOLDER}/online"))
    if online:
        return len(online), f"{CPU_FOLDER}/online"
    listed = len(kernel_text.values(kernel_text.blocks(host.read("/proc/cpuinfo") or ""), "processor"))
    if listed:
        return listed, "/proc/cpuinfo: processor"
    counted = host.call("os", "cpu_count")
    return (counted, "os.cpu_count()") if isinstance(counted, int) and counted > 0 else None


def physical_cores(host: Host) -> tuple[int, str] | None:
    """How many cores these CPUs are, hyper-threads counted once."""
    online = kernel_text.cpu_list(host.read(f"{CPU_FOLDER}/online"))
    cores = {group for cpu in online if (group := _core_group(host, cpu))}
    if cores:
        return len(cores), f"{CPU_FOLDER}/cpu*/topology"
    found = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    pairs = {(b["physical id"], b["core id"]) for b in found if {"physical id", "core id"} <= b.keys()}
    if pairs:
        return len(pairs), "/proc/cpuinfo: physical id, core id"
    counted = host.call("psutil", "cpu_count", False)
    return (counted, "psutil.cpu_count(logical=False)") if isinstance(counted, int) and counted > 0 else None


def _core_group(host: Host, cpu: int) -> tuple[int, ...]:
    # core_cpus_list is the newer name of thread_siblings_list (Documentation/admin-guide/cputopology.rst).
    folder = f"{CPU_FOLDER}/cpu{cpu}/topology"
    return kernel_text.cpu_list(
        host.read(f"{folder}/core_cpus_list") or host.read(f"{folder}/thread_siblings_list")
    )
