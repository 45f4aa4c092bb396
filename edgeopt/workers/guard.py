"""Guards the memory of a process group and the size of its log."""

import os
import time
from pathlib import Path

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
        sizes = [size for pid in self._members if (size := _resident_bytes(pid))]
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
    kept = os.pread(log, _KEPT_LOG_BYTES, size - _KEPT_LOG_BYTES)
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


def kills_for_memory() -> int | None:
    """Returns how many processes the kernel has killed for lack of memory; None if it does not report it."""
    try:
        with open("/proc/vmstat", "rb") as file:  # noqa: PTH123 - as the other files of /proc
            lines = file.read().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), None)


def _resident_bytes(pid: int) -> int | None:
    size = quick_resident_bytes(pid)
    if size is not None or os.path.exists("/proc/self/statm"):  # noqa: PTH110 - as above
        return size
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def group_members(group: int) -> list[int]:
    """Returns the processes of a group; an empty list if the system has no /proc."""
    found = []
    for name in os.listdir("/proc") if Path("/proc").exists() else ():  # noqa: PTH208 - hundreds of names, often
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                after_command = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(after_command[2]) == group:
            found.append(int(name))
    return found


def quick_resident_bytes(pid: int) -> int | None:
    """Returns a process's resident bytes in some ten microseconds; may miss the latest pages."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - many times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return None


def own_share_bytes(pid: int) -> int | None:
    """Returns a process's resident bytes, with each shared page divided among its users."""
    return field_bytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def field_bytes(path: Path, field: str) -> int | None:
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None
