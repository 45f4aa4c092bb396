"""Probe of the limits that the operating system or a container sets for this process: CPUs, CPU time, memory."""

import math

from edgeopt.hw import cgroup, kernel_text, topology, windows_facts
from edgeopt.hw.device import DeviceLimits, Facts
from edgeopt.hw.host import Host

_STATUS = "/proc/self/status"


def probe(host: Host) -> Facts:
    sources: dict[str, str] = {}
    count, cpus, sources["limits.affinity_cores"] = _affinity(host)
    quota, memory, version = cgroup.cpu_quota(host), cgroup.memory_limit(host), cgroup.version(host)
    sources["limits.usable_cores"] = sources["limits.affinity_cores"]
    if cpus:
        sources["limits.affinity"] = sources["limits.affinity_cores"]
    if quota:
        sources["limits.cgroup_cores"] = quota[1]
        if quota[0] < count:
            sources["limits.usable_cores"] = f"CPU quota, rounded down ({quota[1]})"
    if memory:
        sources["limits.cgroup_memory_bytes"] = memory.source
    if version:
        sources["limits.cgroup_version"] = version[1]
    return Facts(
        DeviceLimits(
            affinity_cores=count,
            cgroup_cores=quota[0] if quota else None,
            cgroup_memory_bytes=memory.limit_bytes if memory else None,
            usable_cores=usable_cores(count, quota[0] if quota else None),
            affinity=kernel_text.as_list(cpus) or None,
            cgroup_version=version[0] if version else None,
        ),
        sources,
    )


def usable_cores(affinity_cores: int, cgroup_cores: float | None) -> int:
    """The CPUs of the affinity mask, but no more than the quota rounded down, and at least 1.

    Down, because threads beyond the quota use it up before its period ends, and then all of them stand still
    for the rest of it: tens of milliseconds that a median does not show. Hyper-threads count: whether the
    second one of a core helps is for a measurement to say.
    """
    allowed = affinity_cores if cgroup_cores is None else min(affinity_cores, math.floor(cgroup_cores))
    return max(1, allowed)


def _affinity(host: Host) -> tuple[int, tuple[int, ...], str]:
    """The number of CPUs, which ones if that is reported, and the source."""
    online, online_source = topology.online(host)
    for mask, source in (
        (_numbers(host.call("os", "sched_getaffinity", 0)), "os.sched_getaffinity(0)"),
        (_allowed(host), f"{_STATUS}: Cpus_allowed_list"),
        (_numbers(_of_windows(host)), f"{windows_facts.FACTS_MODULE}.affinity()"),
        (cgroup.cpuset(host), "cpuset.cpus of the control group"),
    ):
        # The mask of a process may name CPUs that are off or not there.
        on = tuple(cpu for cpu in mask if not online or cpu in frozenset(online))
        if on:
            return len(on), on, source
    if online:
        return len(online), online, online_source
    counted = topology.logical_cores(host)
    return (counted[0], (), counted[1]) if counted else (1, (), "this process runs, so there is one")


def _allowed(host: Host) -> tuple[int, ...]:
    for line in (host.read(_STATUS) or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return kernel_text.cpu_list(value)
    return ()


def _of_windows(host: Host) -> object:
    return (
        host.call(windows_facts.FACTS_MODULE, "affinity") if host.call("platform", "system") == "Windows" else None
    )


def _numbers(mask: object) -> tuple[int, ...]:
    if not isinstance(mask, list):
        return ()
    return tuple(cpu for cpu in mask if isinstance(cpu, int) and 0 <= cpu < kernel_text.CPU_NUMBER_LIMIT)
