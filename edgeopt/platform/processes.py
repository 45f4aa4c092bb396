"""Processes with all that they start, and the cores that they may use."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_NT_ERROR = 0xC0000000
_NT_CRASHES = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC0000017: "no memory",
    0xC0000094: "division by zero",
    0xC00000FD: "stack overflow",
    0xC0000374: "heap corruption",
    0xC0000409: "abort",
}


def has_groups() -> bool:
    """Whether a process can lead a group that is ended as a whole."""
    return hasattr(os, "killpg")


def program_name(path: Path) -> str:
    """Returns the name that starts a program in a shell: on Windows without `.exe`."""
    return path.stem if sys.platform == "win32" else path.name


def group_options() -> dict[str, Any]:
    """Returns the options of `Popen` for a process that leads a group: Ctrl-C here does not reach it."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def end_group(leader: int) -> None:
    """Kills a process that leads a group, with all that it has started; not to be called after it is reaped."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        return
    _end_tree(leader)


def leads_group() -> bool:
    """Whether this process leads a group of its own; on Windows, where this is unknown, always."""
    return not hasattr(os, "getpgrp") or os.getpgrp() == os.getpid()


def own_group() -> int:
    """Returns the number of this process's group; on Windows, which has no groups, that of the process."""
    return os.getpgrp() if hasattr(os, "getpgrp") else os.getpid()


def end_own_group() -> None:
    """Ends this process and, where it leads a group, every process that it started."""
    if hasattr(os, "killpg"):
        if leads_group():
            os.killpg(0, signal.SIGKILL)
    else:
        _end_tree(os.getpid(), itself=False)
    os._exit(0)


def group_members(group: int) -> list[int]:
    """Returns the processes of a group: from /proc, or else its leader with all that it has started."""
    if not Path("/proc").exists():
        return _tree(group)
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - hundreds of names, often
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


def _tree(root: int) -> list[int]:
    import psutil

    try:
        leader = psutil.Process(root)
        return [root, *(each.pid for each in leader.children(recursive=True))]
    except psutil.Error:
        return []


def _end_tree(root: int, itself: bool = True) -> None:
    import psutil

    # Listed before the first is killed: afterwards nobody knows whose children they were.
    for pid in _tree(root):
        if itself or pid != root:
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()


def was_killed(code: int | None) -> bool:
    """Whether an exit code says that the process was killed; Windows does not say that."""
    return hasattr(signal, "SIGKILL") and code == -signal.SIGKILL


def crash_name(code: int | None) -> str:
    """Returns what a process crashed with, such as SIGSEGV, by its exit code; empty if it did not crash."""
    if code is None or 0 <= code < _NT_ERROR:
        return ""
    if code > 0:
        return _NT_CRASHES.get(code, f"0x{code:08X}")
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def usable_cores() -> set[int] | None:
    """Returns the logical cores that this process may use; None if the system does not report them."""
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def can_pin() -> bool:
    return hasattr(os, "sched_setaffinity")


def pin_thread(cores: Iterable[int]) -> None:
    """Keeps this thread, and those that it starts, to these cores."""
    os.sched_setaffinity(0, cores)


def pin_all_threads(cores: Iterable[int]) -> None:
    """Keeps all threads of this process, and those that they start, to these cores."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)
