"""Limits of the control groups around this process, versions 2 and 1, nested ones included.

A limit of any group from the process's own up to the root binds, so the tightest of them counts.
"""

from dataclasses import dataclass

from edgeopt.hw import kernel_text
from edgeopt.hw.host import Host

# Version 1 writes "no limit" as the largest multiple of the page size; nothing real comes near.
_NO_LIMIT_BYTES = 1 << 60
_USUAL_MOUNTS = {
    "": ("/sys/fs/cgroup",),
    "cpu": ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"),
    "cpuset": ("/sys/fs/cgroup/cpuset",),
    "memory": ("/sys/fs/cgroup/memory",),
}


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    limit_bytes: int
    remaining_bytes: int
    source: str


def cpu_quota(host: Host) -> tuple[float, str] | None:
    """Returns the CPU time that the groups allow, in CPUs, and the file that says so; None: no limit."""
    found: list[tuple[float, str]] = []
    for folder in _folders(host, ""):
        quota, _, period = (host.read(f"{folder}/cpu.max") or "").strip().partition(" ")
        _add_quota(found, quota, period or "100000", f"{folder}/cpu.max")
    for folder in _folders(host, "cpu"):
        quota = host.read(f"{folder}/cpu.cfs_quota_us") or ""
        _add_quota(found, quota, host.read(f"{folder}/cpu.cfs_period_us") or "", f"{folder}/cpu.cfs_quota_us")
    return min(found, default=None)


def throttling_files(host: Host) -> tuple[str, ...]:
    """Returns the files that count how long groups were throttled by their quota of CPU time; empty: no quota."""
    if cpu_quota(host) is None:
        return ()
    folders = (*_folders(host, ""), *_folders(host, "cpu"))
    return tuple(f"{f}/cpu.stat" for f in folders if _throttled_us(host, f"{f}/cpu.stat") is not None)


def throttled_us(host: Host, files: tuple[str, ...]) -> int | None:
    """Returns how long, in us, all threads together have waited for quota since the groups were made."""
    read = [throttled for path in files if (throttled := _throttled_us(host, path)) is not None]
    return max(read, default=None)


def _throttled_us(host: Host, path: str) -> int | None:
    counts = kernel_text.counters(host.read(path))
    if "throttled_usec" in counts:
        return counts["throttled_usec"]
    nanoseconds = counts.get("throttled_time")  # of version 1
    return None if nanoseconds is None else nanoseconds // 1000


def cpuset(host: Host) -> tuple[int, ...]:
    """The CPUs that the process's own group may use; empty where no group says."""
    for controller, names in (
        ("", ("cpuset.cpus.effective",)),
        ("cpuset", ("cpuset.effective_cpus", "cpuset.cpus")),
    ):
        for folder in _folders(host, controller)[:1]:
            for name in names:
                if cpus := kernel_text.cpu_list(host.read(f"{folder}/{name}")):
                    return cpus
    return ()


def version(host: Host) -> tuple[int, str] | None:
    """Returns the version of control groups that limits CPU time and memory, and its source; None: no groups."""
    path = "/proc/self/mountinfo"
    if host.read(path) is None:
        return None
    # A hybrid system mounts both; the controllers then are in version 1.
    if _mounts(host, "cpu") or _mounts(host, "memory"):
        return 1, path
    return (2, path) if _mounts(host, "") else None


def memory_limit(host: Host) -> MemoryLimit | None:
    """The tightest limit, and the least that any group still allows."""
    found: list[MemoryLimit] = []
    for folder in _folders(host, ""):
        # Above memory.high a process is slowed down until it gives memory back, so it is a limit as well.
        for name in ("memory.max", "memory.high"):
            _add_limit(found, host, f"{folder}/{name}")
    for folder in _folders(host, "memory"):
        _add_limit(found, host, f"{folder}/memory.limit_in_bytes")
    if not found:
        return None
    tightest = min(found, key=lambda entry: entry.limit_bytes)
    remaining = min(entry.remaining_bytes for entry in found)
    return MemoryLimit(tightest.limit_bytes, remaining, tightest.source)


def unreclaimable_bytes(host: Host, source: str) -> int:
    """Returns the memory of the group with this limit (`MemoryLimit.source`) that cannot be freed at once."""
    folder, _, name = source.rpartition("/")
    old = name == "memory.limit_in_bytes"
    used = kernel_text.whole(host.read(f"{folder}/{'memory.usage_in_bytes' if old else 'memory.current'}"))
    # File pages that nobody used lately count as used, but the kernel drops them on demand.
    statistics = kernel_text.counters(host.read(f"{folder}/memory.stat"))
    cache = statistics.get("total_inactive_file" if old else "inactive_file", 0)
    return max(0, (used or 0) - max(0, cache))


def _add_quota(found: list[tuple[float, str]], quota: str, period: str, source: str) -> None:
    quota_us, period_us = kernel_text.whole(quota), kernel_text.whole(period)
    if quota_us and period_us and quota_us > 0 and period_us > 0:
        # Rounded so that a broken file with huge numbers cannot overflow a float.
        found.append((min(quota_us, 10**12) / min(period_us, 10**12), source))


def _add_limit(found: list[MemoryLimit], host: Host, source: str) -> None:
    limit = kernel_text.whole(host.read(source))
    if limit is None or not 0 <= limit < _NO_LIMIT_BYTES:
        return
    found.append(MemoryLimit(limit, max(0, limit - unreclaimable_bytes(host, source)), source))


def _folders(host: Host, controller: str) -> tuple[str, ...]:
    """The folders of the process's group and of all groups above it; "" is version 2."""
    own = _own_group(host, controller)
    found: dict[str, None] = {}
    for mount, root in _mounts(host, controller):
        below = own[len(root.rstrip("/")) :] if own == root or own.startswith(root.rstrip("/") + "/") else own
        parts = [part for part in below.split("/") if part and part != "."]
        if ".." in parts:  # the group lies outside of this namespace: only the mount itself can be seen
            parts = []
        for count in range(len(parts), -1, -1):
            found["/".join((mount, *parts[:count]))] = None
    return tuple(found)


def _own_group(host: Host, controller: str) -> str:
    for line in (host.read("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(",") and (controller or number == "0"):
            return path.strip() or "/"
    return "/"


def _mounts(host: Host, controller: str) -> tuple[tuple[str, str], ...]:
    """(mount point, the group it shows) from mountinfo, or the usual places where that cannot be read."""
    text = host.read("/proc/self/mountinfo")
    if text is None:
        return tuple((mount, "/") for mount in _USUAL_MOUNTS[controller])
    found = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or not kind:
            continue
        if (kind[0] == "cgroup2" and not controller) or (
            kind[0] == "cgroup" and controller and controller in kind[-1].split(",")
        ):
            found.append((fields[4].rstrip("/"), fields[3]))
    return tuple(found)
