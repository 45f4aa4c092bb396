"""Main memory: what there is, what is free, and what a container leaves of that."""

from edgeopt.hw import cgroup, kernel_text
from edgeopt.hw.device import Memory
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host


def probe(host: Host) -> Facts:
    total, available, source = _read(host)
    if total is None or available is None:
        reason = "neither /proc/meminfo nor psutil tells how much there is"
        return Facts(Memory(total_bytes=0, available_bytes=0, usable_bytes=0), {}, {"memory": reason})
    limit = cgroup.memory_limit(host)
    usable = min(available, limit.remaining_bytes) if limit else available
    return Facts(
        Memory(total_bytes=total, available_bytes=available, usable_bytes=usable),
        {
            "memory.total_bytes": source,
            "memory.available_bytes": source,
            "memory.usable_bytes": limit.source if limit and usable < available else source,
        },
    )


def _read(host: Host) -> tuple[int | None, int | None, str]:
    found = kernel_text.counters(host.read("/proc/meminfo"))
    total, free = found.get("MemTotal"), found.get("MemFree")
    # MemAvailable came with Linux 3.14; what is free is the safe answer before that.
    available = found.get("MemAvailable", free)
    if total and total > 0 and available is not None and 0 <= available <= total:
        return total, available, "/proc/meminfo"
    answer = host.call("psutil", "virtual_memory")
    if isinstance(answer, dict) and isinstance(answer.get("total"), int):
        available = answer.get("available")
        return answer["total"], available if isinstance(available, int) else None, "psutil.virtual_memory()"
    return None, None, ""
