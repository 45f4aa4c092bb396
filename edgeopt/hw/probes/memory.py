"""Main memory: what there is, what is free, and what a container leaves of that."""

import re
from typing import NamedTuple

from edgeopt.hw import cgroup, kernel_text
from edgeopt.hw.device import Facts, SystemMemory
from edgeopt.hw.host import Host

MEMINFO = "/proc/meminfo"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
_MAX_BYTES = 1 << 60
_PAGES = (
    ("huge_page_bytes", "Hugepagesize"),
    ("huge_pages_total", "HugePages_Total"),
    ("huge_pages_free", "HugePages_Free"),
)
_ABSENT = {
    "swap_total_bytes": "neither /proc/meminfo nor psutil reports it",
    "huge_page_bytes": "/proc/meminfo lists no huge pages",
    "transparent_huge_pages": f"no {THP}",
}


class _Amount(NamedTuple):
    total: int
    free: int
    source: str


def probe(host: Host) -> Facts:
    counters = {key: n for key, n in kernel_text.counters(host.read(MEMINFO)).items() if 0 <= n < _MAX_BYTES}
    main, swap = _main(host, counters), _swap(host, counters)
    if main is None:
        reason = "neither /proc/meminfo nor psutil reports it"
        return Facts(SystemMemory(total_bytes=0, available_bytes=0, usable_bytes=0), {}, {"memory": reason})
    limit = cgroup.memory_limit(host)
    pages = {name: counters[key] for name, key in _PAGES if key in counters}
    mode = re.search(r"\[(always|madvise|never)\]", host.read(THP) or "")
    sources = dict.fromkeys(("total_bytes", "available_bytes"), main.source)
    sources["usable_bytes"] = _rule(main.source, limit.source if limit else None)
    sources |= dict.fromkeys(("swap_total_bytes", "swap_free_bytes"), swap.source) if swap else {}
    sources |= dict.fromkeys(pages, MEMINFO) | ({"transparent_huge_pages": THP} if mode else {})
    return Facts(
        SystemMemory(
            total_bytes=main.total,
            available_bytes=main.free,
            usable_bytes=min(main.free, limit.remaining_bytes) if limit else main.free,
            swap_total_bytes=swap.total if swap else None,
            swap_free_bytes=swap.free if swap else None,
            transparent_huge_pages=mode[1] if mode else None,
            **pages,
        ),
        {f"memory.{name}": source for name, source in sources.items()},
        {f"memory.{name}": reason for name, reason in _ABSENT.items() if name not in sources},
    )


def _rule(available: str, limit: str | None) -> str:
    """Returns the rule by which "usable for a model" is computed."""
    if limit is None:
        return f"available memory ({available}); no container limits it"
    return f"the smaller of the available memory ({available}) and the rest of the container's limit ({limit})"


def _main(host: Host, counters: dict[str, int]) -> _Amount | None:
    # MemAvailable came with Linux 3.14; before that, free memory is the safe value.
    total, available = counters.get("MemTotal"), counters.get("MemAvailable", counters.get("MemFree"))
    if total and available is not None and available <= total:
        return _Amount(total, available, MEMINFO)
    amount = _from_psutil(host, "virtual_memory", "available")
    return amount if amount and amount.total else None


def _swap(host: Host, counters: dict[str, int]) -> _Amount | None:
    total, free = counters.get("SwapTotal"), counters.get("SwapFree")
    if total is None and not counters:
        return _from_psutil(host, "swap_memory", "free")
    return None if total is None or free is None or free > total else _Amount(total, free, MEMINFO)


def _from_psutil(host: Host, function: str, free_key: str) -> _Amount | None:
    """Returns the amount that psutil reports, for systems without /proc/meminfo: macOS, Windows."""
    answer = host.call("psutil", function)
    total, free = (answer.get("total"), answer.get(free_key)) if isinstance(answer, dict) else (None, None)
    if not isinstance(total, int) or not isinstance(free, int) or not 0 <= free <= total < _MAX_BYTES:
        return None
    return _Amount(total, free, f"psutil.{function}()")
