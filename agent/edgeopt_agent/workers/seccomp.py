"""seccomp: system calls by which a worker could reach other processes, the network or the kernel's settings."""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from edgeopt_agent.workers.system_calls import ARCHITECTURES, FIRST_UNKNOWN, NUMBERS

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
"""The same by the newer system call."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
"""Instructions of the kernel's filters: load a word, jump if it is equal, at least or has a bit, mask it, end."""
_ALLOW, _ASK, _ERROR = 0x7FFF0000, 0x7FC00000, 0x00050000
_NUMBER_PLACE, _ARCHITECTURE_PLACE, _ARGUMENTS_PLACE = 0, 4, 16
_OTHER_ABI = 0x40000000
"""Numbers of system calls from here on are those of x32, a second set on x86-64."""

# Process groups, memory and files of other processes, sockets with a name, what all processes of a system share,
# and what only an administrator needs. Without sockets of its own, a worker has those that it was started with.
_REFUSED = (
    *(
        "setsid",
        "setpgid",
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "process_mrelease",
    ),
    *("kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "migrate_pages"),
    *("socket", "connect", "bind", "listen", "accept", "accept4"),
    *("shmget", "shmat", "shmctl", "semget", "semctl", "semop", "semtimedop"),
    *("msgget", "msgctl", "msgsnd", "msgrcv"),
    *("mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr"),
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at"),
    *("statmount", "listmount", "listns"),
    *("sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    *("swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module"),
    *("delete_module", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup", "iopl", "ioperm", "modify_ldt"),
    *("fanotify_init", "bpf", "userfaultfd", "perf_event_open", "add_key", "request_key", "keyctl"),
)
# Libraries fall back to older calls where the kernel lacks these.
_MISSING = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")

_OF_CHILDREN = frozenset({"setsid", "setpgid", "fcntl", "ioctl"})
"""Calls that a process needs to start others and to end them."""

_PRIORITY_OF_PROCESS, _IO_PRIORITY_OF_PROCESS = 0, 1
# Namespaces of all kinds, and a child that counts as the agent's.
_CLONE_FLAGS = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x8000
_QUERY = 0xFFFFFFFF
# A file that is ready may send a signal to its owner: not to one that the worker names.
_SET_OWNER, _SET_SIGNAL, _SET_OWNER_BY_KIND = 8, 10, 15
_OWN_FILE, _OWN_SOCKET, _TYPE_AHEAD = 0x8901, 0x8902, 0x5412
_KIND = 0xF
"""The bits of a socket's type that are not flags."""
_WHOLE = 0xFFFFFFFF

_Step = tuple[int, int, int, int]


class _Only(NamedTuple):
    """One argument of a system call, and the only values that it may have."""

    argument: int
    values: tuple[int, ...]
    mask: int = _WHOLE


def filters_exist() -> bool:
    """Whether the kernel has filters, and this module one for the machine."""
    if platform.machine() not in ARCHITECTURES:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    # A kernel with filters looks for this one, where none is.
    return bool(libc.prctl(_SET_SECCOMP, _FILTER, None, 0, 0)) and ctypes.get_errno() == errno.EFAULT


def refuse_calls(signals_too: bool, ask_for_cores: bool, children: bool = False) -> int | None:
    """Refuses those system calls from now on; raises OSError where the kernel or the machine has no filters.

    Holds for the calling thread and those that it starts, so it comes before any other thread. Signals to other
    processes are included on request: Landlock knows better which processes are the worker's. Returns a descriptor
    that asks whether a thread may get other cores, if that is wanted and the kernel can (Linux 5.5). With
    `children`, process groups, owners of files and cores stay open, as a search that starts processes needs.
    """
    if children:
        return _apply(_filter(signals_too, _ALLOW, _OF_CHILDREN))
    if ask_for_cores:
        with suppress(OSError):
            return _apply(_filter(signals_too, _ASK), with_listener=True)
    return _apply(_filter(signals_too, _ERROR | errno.EPERM))


def _filter(signals_too: bool, other_cores: int, left_open: frozenset[str] = frozenset()) -> list[_Step]:
    """Returns the instructions; `other_cores` is the answer to a change of the cores of another thread."""
    known = ARCHITECTURES.get(platform.machine())
    if known is None or sys.maxsize < 1 << 32:
        raise OSError(errno.ENOSYS, f"no filter is known for {platform.machine()}")
    architecture, column = known
    refused, missing = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    # A jump counts the instructions that it skips, if so and if not.
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE_PLACE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, refused),
        (_LOAD, 0, 0, _NUMBER_PLACE),
        (_AT_LEAST, 0, 1, _OTHER_ABI),
        (_RETURN, 0, 0, refused),
        (_AT_LEAST, 0, 1, FIRST_UNKNOWN),
        (_RETURN, 0, 0, missing),
    ]
    rules = [
        *((name, [(_RETURN, 0, 0, refused)]) for name in _REFUSED),
        *((name, [(_RETURN, 0, 0, missing)]) for name in _MISSING),
        *((name, _allowing(conditions, refused)) for name, conditions in _conditions(signals_too)),
        ("sched_setaffinity", _allowing((_Only(0, (0, os.getpid())),), other_cores)),
        ("clone", _refusing_bits(_CLONE_FLAGS, refused)),
        ("fcntl", _refusing(1, (_SET_OWNER, _SET_SIGNAL, _SET_OWNER_BY_KIND), refused)),
        ("ioctl", _refusing(1, (_OWN_FILE, _OWN_SOCKET, _TYPE_AHEAD), refused)),
    ]
    if signals_too:
        # By a thread alone, which names no process; the C library's `raise` and `pthread_kill` use `tgkill`.
        rules.append(("tkill", [(_RETURN, 0, 0, refused)]))
    for name, body in rules:
        if name in left_open:
            continue
        number = NUMBERS[name][column]
        if number is not None:
            steps += [(_EQUAL, 0, len(body), number), *body]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _conditions(signals_too: bool) -> Iterable[tuple[str, tuple[_Only, ...]]]:
    """Yields the system calls that a worker may use for itself only; 0 is itself, too."""
    own = (0, os.getpid())
    for name in ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        yield name, (_Only(0, own),)
    yield "move_pages", (_Only(0, own),)
    yield "setpriority", (_Only(0, (_PRIORITY_OF_PROCESS,)), _Only(1, own))
    yield "ioprio_set", (_Only(0, (_IO_PRIORITY_OF_PROCESS,)), _Only(1, own))
    yield "personality", (_Only(0, (_QUERY,)),)
    # Not of datagrams: those can be sent to any name.
    streams = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
    yield "socketpair", (_Only(0, (socket.AF_UNIX,)), _Only(1, streams, _KIND))
    if signals_too:
        yield "kill", (_Only(0, (*own, -os.getpid() & _WHOLE)),)
        for name in ("tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            yield name, (_Only(0, (os.getpid(),)),)


def _allowing(conditions: Iterable[_Only], refused: int) -> list[_Step]:
    """Allows a call if each condition holds."""
    steps: list[_Step] = []
    for argument, values, mask in conditions:
        steps.append(_load(argument))
        if mask != _WHOLE:
            steps.append((_AND, 0, 0, mask))
        steps += [(_EQUAL, len(values) - k, 0, value) for k, value in enumerate(values)]
        steps.append((_RETURN, 0, 0, refused))
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _refusing(argument: int, values: tuple[int, ...], refused: int) -> list[_Step]:
    """Allows a call unless an argument has one of these values."""
    tests = [(_EQUAL, len(values) - k, 0, value) for k, value in enumerate(values)]
    return [_load(argument), *tests, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, refused)]


def _refusing_bits(bits: int, refused: int) -> list[_Step]:
    """Allows a call unless its first argument has one of these bits."""
    return [_load(0), (_ANY_BIT, 1, 0, bits), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, refused)]


def _load(argument: int) -> _Step:
    """Loads the lower half of an argument: the kernel ignores the upper one of all that are tested."""
    return (_LOAD, 0, 0, _ARGUMENTS_PLACE + 8 * argument)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _apply(steps: list[_Step], with_listener: bool = False) -> int | None:
    program = _Program(len(steps), b"".join(struct.pack("=HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise _failure()
    if with_listener:
        number = NUMBERS["seccomp"][ARCHITECTURES[platform.machine()][1]]
        found = int(libc.syscall(number, _SET_FILTER, ctypes.c_ulong(_NEW_LISTENER), ctypes.byref(program)))
        if found < 0:
            raise _failure()
        return found
    if libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise _failure()
    return None


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
