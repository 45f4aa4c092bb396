"""Hardware and kernel events of this process, counted by Linux (perf_event_open(2)) without any library.

Counters follow the thread that opens them and the threads that it starts afterwards: open them before the runtime
starts its own.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import Host, LocalHost

PARANOID = "/proc/sys/kernel/perf_event_paranoid"
LINE_BYTES = 64
# arch/*/include of the kernel: asm/unistd_64.h of x86, asm-generic/unistd.h, and Arm's own table for 32 bits.
_SYSCALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "armv7l": 364, "armv6l": 364}
_CLOSE_ON_EXEC = 8
# Fields of struct perf_event_attr as of its first version, of 64 bytes, which every kernel takes.
_ATTR = struct.Struct("=IIQQQQQIIQ")
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3
_LAST_LEVEL_LOADS, _MISSED = 2, 1 << 16


class _Event(NamedTuple):
    kind: int
    config: int
    in_kernel: bool = False
    """Whether the event happens only in the kernel, so it counts nothing if the kernel is excluded."""


EVENTS = {
    "cycles": _Event(_HARDWARE, 0),
    "instructions": _Event(_HARDWARE, 1),
    "cache_references": _Event(_HARDWARE, 2),
    "cache_misses": _Event(_HARDWARE, 3),
    "branch_misses": _Event(_HARDWARE, 5),
    "llc_loads": _Event(_CACHE, _LAST_LEVEL_LOADS),
    "llc_load_misses": _Event(_CACHE, _LAST_LEVEL_LOADS | _MISSED),
    "task_clock_ns": _Event(_SOFTWARE, 1),
    "page_faults": _Event(_SOFTWARE, 2),
    "context_switches": _Event(_SOFTWARE, 3, in_kernel=True),
    "cpu_migrations": _Event(_SOFTWARE, 4, in_kernel=True),
}

Open = Callable[[bytes], int]
"""Opens a counter for a perf_event_attr and returns its file descriptor; raises OSError."""


@dataclass(slots=True)
class _Counter:
    descriptor: int
    seen: tuple[int, int, int] = (0, 0, 0)
    """Value, time enabled and time running, as last taken into the total."""
    total: float = 0.0
    ran: bool = False


@dataclass(slots=True)
class Counters:
    """Open counters; close them, or let the process end."""

    missing: dict[str, str]
    """The events that are not counted here, each with its reason."""
    user_only: bool
    """Whether the kernel's work for this process is excluded."""
    _counters: dict[str, _Counter] = field(repr=False, default_factory=dict)

    def read(self) -> dict[str, int]:
        """Returns the totals so far by event; the difference of two answers is the count in between.

        Where there are more events than the CPU has counters, each counts for a part of the time and is scaled up.
        """
        return {
            name: round(counter.total)
            for name, counter in self._counters.items()
            if _updated(counter) or counter.ran
        }

    def close(self) -> None:
        for counter in self._counters.values():
            os.close(counter.descriptor)
        self._counters.clear()


def open_counters(open_one: Open | None = None, host: Host | None = None) -> Counters | Unavailable:
    """Opens all counters that this kernel permits, or returns `Unavailable` if it permits none."""
    host = host or LocalHost(cache_folder=None)
    if open_one is None:
        found = _system_call()
        if isinstance(found, Unavailable):
            return found
        open_one = found
    paranoid = (host.read(PARANOID) or "").strip()
    opened: dict[str, _Counter] = {}
    failed: dict[str, int] = {}
    user_only = False
    for name, event in EVENTS.items():
        try:
            opened[name] = _Counter(open_one(_attr(event, _INHERIT)))
        except OSError as refusal:
            failed[name] = refusal.errno or errno.EINVAL
    refused = [name for name, number in failed.items() if number in {errno.EACCES, errno.EPERM}]
    for name in refused:
        # From perf_event_paranoid 2 on, unprivileged users may count user-space events only.
        if EVENTS[name].in_kernel:
            continue
        try:
            opened[name] = _Counter(
                open_one(_attr(EVENTS[name], _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR))
            )
        except OSError as refusal:
            failed[name] = refusal.errno or errno.EINVAL
        else:
            user_only = True
            del failed[name]
    missing = {name: _reason(number, EVENTS[name], paranoid) for name, number in failed.items()}
    if not opened:
        return Unavailable(next(iter(missing.values())))
    return Counters(missing, user_only, {name: opened[name] for name in EVENTS if name in opened})


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Returns the counts between two answers of `Counters.read`."""
    return {name: max(0, count - before.get(name, 0)) for name, count in after.items()}


def memory_bytes_estimate(counters: Mapping[str, float], line_bytes: int = LINE_BYTES) -> float | None:
    """Estimates the bytes read from memory: a line for each load that missed the last-level cache.

    Prefetched and written data is not included, so the true traffic is higher.
    """
    misses = counters.get("llc_load_misses", counters.get("cache_misses"))
    return None if misses is None else misses * line_bytes


def _updated(counter: _Counter) -> bool:
    """Adds the counts since the latest reading to the total; returns whether the counter ran in between."""
    value, enabled, running = struct.unpack("=QQQ", os.read(counter.descriptor, 24))
    before, before_enabled, before_running = counter.seen
    was_running = running - before_running
    if was_running <= 0:
        return False  # it has not been scheduled: the next reading scales for this time as well
    counter.total += (value - before) * max(1.0, (enabled - before_enabled) / was_running)
    counter.seen, counter.ran = (value, enabled, running), True
    return True


def _attr(event: _Event, flags: int) -> bytes:
    # type, size, config, sample period and type, read format, flags, wake-ups, breakpoint type, config1
    return _ATTR.pack(event.kind, _ATTR.size, event.config, 0, 0, _TIMES, flags, 0, 0, 0)


def _system_call() -> Open | Unavailable:
    if not sys.platform.startswith("linux"):
        return Unavailable(
            f"hardware events are counted through Linux's perf_event_open, and this is {sys.platform}"
        )
    machine = platform.machine()
    if machine == "aarch64" and sys.maxsize < 2**32:
        machine = "armv7l"
    number = _SYSCALLS.get(machine)
    if number is None:
        return Unavailable(f"perf_event_open is not supported on {machine}")
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long

    def open_one(attr: bytes) -> int:
        this_thread, any_cpu, no_group = ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1)
        descriptor = int(
            function(
                ctypes.c_long(number),
                ctypes.c_char_p(attr),
                this_thread,
                any_cpu,
                no_group,
                ctypes.c_ulong(_CLOSE_ON_EXEC),
            )
        )
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")
        return descriptor

    return open_one


def _reason(number: int, event: _Event, paranoid: str) -> str:
    if number in {errno.EACCES, errno.EPERM}:
        level = int(paranoid) if paranoid.lstrip("-").isdigit() else None
        if level is not None and level >= 2:
            needed = 1 if event.in_kernel else 2
            if level > needed:
                return (
                    f"the kernel lets only root count events (kernel.perf_event_paranoid is {level}): "
                    f"sudo sysctl kernel.perf_event_paranoid={needed}"
                )
        return (
            "perf_event_open is forbidden here, as the default seccomp profile of containers does: "
            "start the container with --cap-add PERFMON, or with a seccomp profile that allows it"
        )
    if number == errno.ENOSYS:
        return "this kernel is built without perf events, or a sandbox hides them"
    if number in {errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV} and event.kind != _SOFTWARE:
        return "this CPU or virtual machine has no such hardware counter"
    if number == errno.EMFILE:
        return "too many open files (ulimit -n)"
    return f"the kernel refused: {os.strerror(number)}"
