"""A user for one worker where the agent runs as root: it owns nothing, and sees only the folders that it needs."""

import ctypes
import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

_FIRST_USER = 0x70000000
"""Process numbers are added: no system gives these numbers to users, and no two workers have the same."""
_NEW_MOUNTS = 0x00020000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_NO_SET_USER, _NO_DEVICES, _NO_PROGRAMS = 0x2, 0x4, 0x8
_SET_DUMPABLE = 4

_libc = ctypes.CDLL(None, use_errno=True)


def take_own_user(needed: Sequence[Path], devices: Iterable[Path]) -> int:
    """Changes to a user and group of its own; returns the number, or raises OSError and stays the user it is.

    The only groups are those of the devices. The first folder is the release: its files become readable to every
    user. The folder that holds it does not: that and other closed folders are replaced by views of what is needed.
    """
    user = _FIRST_USER + os.getpid()
    groups = sorted(
        {found.st_gid for found in map(os.stat, devices) if found.st_gid and found.st_mode & stat.S_IRGRP}
    )
    _open_for_reading(needed[0])
    needed = [path for path in needed if path.exists()]
    folders = [path.resolve() for path in needed if path.is_dir()]
    if closed := {top for path in folders if (top := _closed_folder(path)) is not None}:
        _view(closed, folders)
    before = os.getgroups()
    os.setgroups(groups)
    try:
        _check_reading(user, needed)
    except OSError:
        os.setgroups(before)
        raise
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # The change closes the process's own files in /proc to itself; runtimes look up their memory there.
    _call(_libc.prctl, _SET_DUMPABLE, 1, 0, 0, 0)
    return user


def _open_for_reading(release: Path) -> None:
    """Lets every user read a release that lies in a closed folder, which keeps them out anyway."""
    if _closed_folder(release.resolve()) is None:
        return
    for path in (release, *release.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            path.chmod(stat.S_IMODE(mode) | 0o555)
        elif stat.S_ISREG(mode):
            path.chmod(stat.S_IMODE(mode) | 0o444)


def _closed_folder(path: Path) -> Path | None:
    """Returns the first folder above a path that not every user may pass."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def _view(closed: Iterable[Path], needed: Iterable[Path]) -> None:
    """Replaces closed folders, for this process only, by empty ones with the needed folders at their places."""
    if _libc.unshare(_NEW_MOUNTS):
        number = ctypes.get_errno()
        raise OSError(number, f"no folders of its own: {os.strerror(number)}")
    _mount(None, "/", _RECURSIVE | _PRIVATE)
    # Opened in the new namespace: those of the old one cannot be mounted here.
    places = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in needed}
    try:
        for top in closed:
            _mount("tmpfs", str(top), _NO_SET_USER | _NO_DEVICES | _NO_PROGRAMS, "tmpfs", "mode=0711,size=1m")
        # Outer folders first: what lies within them is there then.
        for path, place in sorted(places.items()):
            if any(top in path.parents for top in closed) and not _is_same(path, place):
                old_mask = os.umask(0o022)
                path.mkdir(parents=True, exist_ok=True)
                os.umask(old_mask)
                _mount(f"/proc/self/fd/{place}", str(path), _BIND | _RECURSIVE)
    finally:
        for place in places.values():
            os.close(place)


def _is_same(path: Path, place: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(place))
    except FileNotFoundError:
        return False


def _check_reading(user: int, places: Sequence[Path]) -> None:
    """Raises OSError if the user cannot read one of these places, a folder in it, or a file of the first."""
    os.setegid(user)
    os.seteuid(user)
    try:
        for place in (*places, *places[0].rglob("*"), Path(__file__), Path(os.__file__)):
            try:
                inner = [each.path for each in os.scandir(place) if each.is_dir()] if place.is_dir() else []
            except PermissionError:
                inner = []
            for each in (str(place), *inner):
                # Also a link that the view no longer has.
                if not os.access(each, os.R_OK, effective_ids=True):
                    raise OSError(errno.EACCES, f"a user of its own could not read {each}")
    finally:
        os.seteuid(0)
        os.setegid(0)


def _mount(
    source: str | None, target: str, flags: int, kind: str | None = None, options: str | None = None
) -> None:
    words = (None if word is None else word.encode() for word in (source, target, kind))
    source_bytes, target_bytes, kind_bytes = words
    data = None if options is None else options.encode()
    _call(_libc.mount, source_bytes, target_bytes, kind_bytes, ctypes.c_ulong(flags), data)


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments):
        number = ctypes.get_errno() or errno.EPERM
        raise OSError(number, os.strerror(number))
