"""CPU use of processes, from /proc: other processes that keep cores busy, and the CPU time of a family."""

import os
import time
from collections.abc import Iterable

from edgeopt.hw.host import Host, LocalHost
from edgeopt.hw.sensors import is_count

_LONGEST_S = 0.012
_MUCH_PERCENT = 50.0
_OLD_ENOUGH_S = 2.0
_MAX_NAMED = 8
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of include/linux/sched.h
_MAX_THREADS = 32
"""Maximum number of threads of one process that are searched for child processes."""


def busiest() -> list[str] | None:
    """`python3 97 %`, the busiest first, for this machine; None where there is no /proc."""
    if not hasattr(os, "sysconf"):
        return None  # on Windows
    return look(LocalHost(cache_folder=None), os.getpid(), os.sysconf("SC_CLK_TCK"))


def cores_busy_percent() -> float:
    """Returns how busy all cores together are, over 0.1 s; for systems without a load average."""
    import psutil

    return float(psutil.cpu_percent(interval=0.1))


def family_ticks(host: Host, roots: Iterable[int]) -> int | None:
    """CPU time of these processes and their descendants, those that ended included, in the kernel's ticks.

    Ended processes count under the parent that waited for them. None where there is no /proc.
    """
    waiting, seen, ticks = list(roots), set[int](), None
    children: dict[int, list[int]] | None = None
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        _, fields = _stat(host.read(f"/proc/{pid}/stat"))
        # Of proc_pid_stat(5), less the two before: user and system time, of itself and of ended children.
        if len(fields) < 15 or not all(is_count(word) for word in fields[11:15]):
            continue
        ticks = (ticks or 0) + sum(int(word) for word in fields[11:15])
        started = _started_by(host, pid)
        if started is None:  # a kernel without CONFIG_PROC_CHILDREN: all processes are looked at, once
            children = _children(host) if children is None else children
            started = children.get(pid, [])
        waiting += started
    return ticks


def family_seconds(*roots: int) -> float:
    """The same in seconds, for systems without /proc; what ended there does not count."""
    import psutil

    seconds, seen = 0.0, set[int]()
    for pid in roots:
        try:
            root = psutil.Process(pid)
            family = [root, *root.children(recursive=True)]
        except psutil.Error:
            continue
        for process in family:
            if process.pid in seen:
                continue
            seen.add(process.pid)
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            seconds += times.user + times.system
    return seconds


def look(host: Host, own: int, ticks_a_second: int) -> list[str] | None:
    """A process is busy when it runs just now, or took half of a core or more since it began."""
    uptime_s = _seconds(host.read("/proc/uptime"))
    if uptime_s is None:
        return None
    end_s = time.monotonic() + _LONGEST_S
    parents: dict[int, int] = {}
    found: dict[int, tuple[float, str]] = {}
    # The newest first: of very many processes not all can be looked at.
    for pid in sorted((int(name) for name in host.list("/proc") if is_count(name)), reverse=True):
        name, fields = _stat(host.read(f"/proc/{pid}/stat"))
        if len(fields) < 20 or not all(is_count(fields[index]) for index in (1, 6, 11, 12, 19)):
            continue
        # Of proc_pid_stat(5), less the two before: state, parent, flags, time in user and system mode, start.
        parents[pid] = int(fields[1])
        lived_s = uptime_s - int(fields[19]) / ticks_a_second
        used_s = (int(fields[11]) + int(fields[12])) / ticks_a_second
        percent = 100 * used_s / lived_s if lived_s > 0 else 0.0
        runs = fields[0] == "R" and not int(fields[6]) & _KERNEL_THREAD
        if (percent >= _MUCH_PERCENT and lived_s >= _OLD_ENOUGH_S) or runs:
            found[pid] = (
                percent,
                f"{name} {percent:.0f} %" if percent >= _MUCH_PERCENT else f"{name} running now",
            )
        if time.monotonic() > end_s:
            break
    for pid in _with_parents(own, parents):
        found.pop(pid, None)
    return [words for _, words in sorted(found.values(), reverse=True)][:_MAX_NAMED]


def _started_by(host: Host, pid: int) -> list[int] | None:
    """The children of all threads of a process; None where the kernel does not list them."""
    found: list[int] = []
    for thread in host.list(f"/proc/{pid}/task")[:_MAX_THREADS]:
        text = host.read(f"/proc/{pid}/task/{thread}/children")
        if text is None and thread == str(pid):
            return None
        found += [int(word) for word in (text or "").split() if is_count(word)]
    return found


def _children(host: Host) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for name in host.list("/proc"):
        if is_count(name):
            _, fields = _stat(host.read(f"/proc/{name}/stat"))
            if len(fields) > 1 and is_count(fields[1]):
                found.setdefault(int(fields[1]), []).append(int(name))
    return found


def _stat(text: str | None) -> tuple[str, list[str]]:
    # The name is in brackets and may contain brackets and spaces itself.
    head, _, rest = (text or "").rpartition(")")
    return head.partition("(")[2][:15], rest.split()


def _with_parents(pid: int, parents: dict[int, int]) -> set[int]:
    """They wait for this process, so what they did before takes nothing away from a measurement."""
    family: set[int] = set()
    while pid and pid not in family:
        family.add(pid)
        pid = parents.get(pid, 0)
    return family


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float((text or "").split()[0])
    except (IndexError, ValueError):
        return None
    return seconds if 0 < seconds < 1e12 else None
