"""What the operating system or a container allows this process: CPUs, CPU time, memory."""

import math

from edgeopt.hw import cgroup, topology
from edgeopt.hw.device import Limits
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host


def probe(host: Host) -> Facts:
    sources: dict[str, str] = {}
    affinity, sources["limits.affinity_cores"] = _affinity(host)
    quota, memory = cgroup.cpu_quota(host), cgroup.memory_limit(host)
    sources["limits.usable_cores"] = sources["limits.affinity_cores"]
    if quota:
        sources["limits.cgroup_cores"] = quota[1]
        if quota[0] < affinity:
            sources["limits.usable_cores"] = f"CPU quota, rounded down ({quota[1]})"
    if memory:
        sources["limits.cgroup_memory_bytes"] = memory.source
    return Facts(
        Limits(
            affinity_cores=affinity,
            cgroup_cores=quota[0] if quota else None,
            cgroup_memory_bytes=memory.limit_bytes if memory else None,
            usable_cores=usable_cores(affinity, quota[0] if quota else None),
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


def _affinity(host: Host) -> tuple[int, str]:
    mask = host.call("os", "sched_getaffinity", 0)
    if isinstance(mask, list) and mask:
        return len(mask), "os.sched_getaffinity(0)"
    return topology.logical_cores(host) or (1, "this process runs, so there is one")
