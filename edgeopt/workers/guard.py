"""Guards the memory of a process group and the size of its log."""

import os
import time

from edgeopt.platform.files import read_end
from edgeopt.platform.memory import own_share_bytes, resident_bytes
from edgeopt.platform.processes import group_members

# Twenty checks a second take a thousandth of a core; a search for new members reads /proc of every process.
_LOOK_EVERY_S = 0.05
_SEARCH_EVERY_S = 1.0
_SHARE_OF_AVAILABLE = 0.8
LONGEST_LOG_BYTES = 64 << 20
_KEPT_LOG_BYTES = 64 << 10


class Guard:
    """Guard of the process group of one leader; it notices an excess of memory only when `look` is called."""

    def __init__(self, leader: int, limit_bytes: int | None, log: int) -> None:
        self.limit_bytes = limit_bytes
        self.resident_bytes: int | None = None
        """Resident memory of the group at the latest check, in bytes; None if the system does not report it."""
        self.peak_bytes: int | None = None
        self._leader, self._log = leader, log
        self._members = [leader]
        self._looked = self._searched = time.monotonic()

    def due_in_s(self) -> float:
        return max(0.0, self._looked + _LOOK_EVERY_S - time.monotonic())

    def look(self) -> bool:
        """Whether the group's memory is over its limit now; also keeps the log from filling the disk."""
        self._looked = now = time.monotonic()
        if now >= self._searched + _SEARCH_EVERY_S:
            self._searched = now
            self._members = group_members(self._leader) or [self._leader]
        trim(self._log)
        held = self._held_bytes()
        if held is not None:
            self.resident_bytes = held
            self.peak_bytes = max(held, self.peak_bytes or 0)
        return held is not None and self.limit_bytes is not None and held > self.limit_bytes

    def _held_bytes(self) -> int | None:
        # A process that has ended, but is not reaped yet, has 0.
        sizes = [size for pid in self._members if (size := resident_bytes(pid))]
        if not sizes:
            return None
        held = sum(sizes)
        if len(sizes) > 1 and self.limit_bytes is not None and held > self.limit_bytes:
            # A forked process shares its memory with its parent, so the sum of both must not end them.
            shares = [own_share_bytes(pid) for pid in self._members]
            if all(share is not None for share in shares):
                return sum(share or 0 for share in shares)
        return held


def trim(log: int) -> None:
    """Removes all but the end of a log that has grown too long; the log must be open for appending."""
    size = os.fstat(log).st_size
    if size <= LONGEST_LOG_BYTES:
        return
    kept = read_end(log, _KEPT_LOG_BYTES)
    os.ftruncate(log, 0)
    os.write(log, kept)


def usual_limit_bytes() -> int | None:
    """Returns the default memory limit: most of the bytes available now to this system or container."""
    from edgeopt.hw import cgroup, kernel_text
    from edgeopt.hw.host import LocalHost

    host = LocalHost(cache_folder=None)
    available = kernel_text.counters(host.read("/proc/meminfo")).get("MemAvailable")
    if available is None:
        import psutil

        available = int(psutil.virtual_memory().available)
    limit = cgroup.memory_limit(host)
    if limit is not None:
        available = min(available, limit.remaining_bytes)
    return int(available * _SHARE_OF_AVAILABLE)
