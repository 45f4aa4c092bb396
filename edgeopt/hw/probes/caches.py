"""Caches: for each level and kind the size, the number, and how many logical cores share one."""

from collections import Counter
from typing import Literal

from edgeopt.hw import kernel_text, sysctl, topology, windows_facts
from edgeopt.hw.device import Cache, Facts, Unavailable
from edgeopt.hw.host import Host

_KINDS: dict[str, Literal["data", "instruction", "unified"]] = {
    "Data": "data",
    "Instruction": "instruction",
    "Unified": "unified",
}
_LARGEST_BYTES = 1 << 40
_MAX_LEVELS = 5


def probe(host: Host) -> Facts | Unavailable:
    found: Counter[tuple[int, str, int, int]] = Counter()
    done: set[tuple[int, str, int]] = set()
    cpus = topology.seen(host)
    known = frozenset(cpus)
    without_size: set[int] = set()
    for cpu in cpus:
        if (1, "Data", cpu) in done:
            continue  # CPUs that share the first level share the others too, which saves a read per hyper-thread
        folder = f"{topology.CPU_FOLDER}/cpu{cpu}/cache"
        for index in host.list(folder):
            if not index.startswith("index"):
                continue
            entry = _entry(host, f"{folder}/{index}", cpu, known, done)
            if isinstance(entry, tuple):
                found[entry] += 1
            elif entry is not None:
                without_size.add(entry)
    if found:
        rows = [
            Cache(lvl, _KINDS[kind], size, count, shared) for (lvl, kind, size, shared), count in found.items()
        ]
        rows.sort(key=lambda cache: (cache.level, cache.kind, -cache.size_bytes, cache.shared_by))
        return Facts(tuple(rows), {"caches": f"{topology.CPU_FOLDER}/cpu*/cache"})
    if without_size:
        levels = ", ".join(f"L{level}" for level in sorted(without_size))
        return Unavailable(
            f"the kernel names the levels ({levels}) but no sizes ({topology.CPU_FOLDER}/cpu*/cache)"
        )
    if rows_of_mac := sysctl.caches(sysctl.read(host)):
        return Facts(rows_of_mac, {"caches": "sysctl hw.perflevel*, hw.l*cachesize"})
    if windows_facts.read(host):
        return Unavailable(windows_facts.NOT_ASKED)
    return Unavailable(f"the kernel lists none ({topology.CPU_FOLDER}/cpu0/cache is missing)")


def _entry(
    host: Host, folder: str, cpu: int, known: frozenset[int], done: set[tuple[int, str, int]]
) -> tuple[int, str, int, int] | int | None:
    """One cache that was not counted before; only its level if no size is reported; None for all others."""
    level = kernel_text.whole(host.read(f"{folder}/level"))
    kind = (host.read(f"{folder}/type") or "").strip()
    if level is None or not 0 < level <= _MAX_LEVELS or kind not in _KINDS or (level, kind, cpu) in done:
        return None
    shared = kernel_text.cpu_list(host.read(f"{folder}/shared_cpu_list"))
    shared = shared or kernel_text.cpu_mask(host.read(f"{folder}/shared_cpu_map"))
    sharers = known.intersection(shared)
    if cpu not in sharers:
        return None
    done.update((level, kind, other) for other in sharers)
    size = kernel_text.size_bytes(host.read(f"{folder}/size"))
    if size is None or size > _LARGEST_BYTES:
        return level
    return level, kind, size, len(sharers)
