"""Landlock: which files this process may open and where it may connect, from now on (Linux 5.13 and later)."""

import ctypes
import errno
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# The same numbers on every architecture that edgeopt runs on.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_USE = _READ_FILE | _READ_DIR | _WRITE_FILE | _DEVICE_CONTROL
_CHANGE = _READ_FILE | _READ_DIR | _WRITE_FILE | _REMOVE_AND_MAKE | _REFER | _TRUNCATE

_PROCESSES = Path("/proc")

NETWORK_ABI, SCOPES_ABI = 4, 6
"""The first version that knows TCP, and the first that knows signals and abstract sockets."""

_WHY_NOT = {
    errno.ENOSYS: "the kernel has no Landlock",
    errno.EOPNOTSUPP: "Landlock is off in this kernel",
    # The kernel itself answers this question to every process: only a filter denies it.
    errno.EPERM: "Landlock is denied by the service's system call filter",
}

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """Returns the version of the kernel's interface; 0 if it cannot be used."""
    try:
        return _version()
    except OSError:
        return 0


def _version() -> int:
    """Returns the version of the kernel's interface; raises OSError with the reason if it cannot be used."""
    found = int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(_WHY_NOT.get(number, f"Landlock cannot be used: {os.strerror(number)}"))
    return found


class Files(NamedTuple):
    """The files that a process may open, each with what lies below it."""

    readable: tuple[Path, ...]
    listed: tuple[Path, ...]
    devices: tuple[Path, ...]
    writable: tuple[Path, ...]


def restrict(files: Files) -> int:
    """Denies all other files, and what else the kernel's version of Landlock can; returns that or raises OSError.

    That is TCP, abstract sockets and signals to other processes. It holds for the calling thread and those that it
    starts, so it comes before any other thread.
    """
    abi = _version()
    handled = _handled(abi)
    attributes = struct.pack("<Q", handled)
    if abi >= NETWORK_ABI:
        attributes += struct.pack("<Q", _BIND_TCP | _CONNECT_TCP)
    if abi >= SCOPES_ABI:
        attributes += struct.pack("<Q", _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
    rules = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        for paths, access in zip(files, (_READ, _READ_DIR, _USE, _CHANGE), strict=True):
            for path in paths:
                with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    _allow(rules, path, access & handled)
        if _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise _failure()
        _call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)
    return abi


def _handled(abi: int) -> int:
    """Returns every access to files that this version of the interface knows."""
    newer = ((2, _REFER), (3, _TRUNCATE), (5, _DEVICE_CONTROL))
    known = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _REMOVE_AND_MAKE
    return known | sum(access for since, access in newer if abi >= since)


def _allow(rules: int, path: Path, access: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not path.is_dir():
            access &= _OF_FILES
        _call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("<Qi", access, place), 0)
    finally:
        # The kernel makes the files of /proc again once it has reclaimed their memory; the rule would not hold for
        # the new ones. A descriptor keeps them.
        if _PROCESSES not in path.parents:
            os.close(place)


def _call(number: int, *arguments: object) -> int:
    found = int(_libc.syscall(number, *arguments))
    if found < 0:
        raise _failure()
    return found


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
