"""Putting files and folders in place so that a crash or a power cut leaves the old state or the new one."""

import contextlib
import shutil
from pathlib import Path

from edgeopt.platform.files import exchange_paths, rename_path, replace_path, sync_path

MARK = ".edgeopt-partial-"
"""Part of the hidden name of an incomplete file, followed by the number of the process that writes it."""
OLD = ".old"
"""Ends the name of what was moved away to make room, where two steps are needed."""


def sync_tree(folder: Path) -> None:
    """Makes sure that every file in a folder, and the folder itself, is on the disk."""
    for path in [*sorted(folder.rglob("*")), folder]:
        sync_path(path)


def publish_folder(ready: Path, target: Path) -> None:
    """Puts a complete folder in the place of `target`, in one step where the system can.

    Both must lie on one file system.
    """
    sync_tree(ready)
    _put(ready, target)


def publish_file(ready: Path, target: Path) -> None:
    """The same for a file, which may take the place of a folder."""
    sync_path(ready)
    _put(ready, target)


def _put(ready: Path, target: Path) -> None:
    if not target.exists():
        rename_path(ready, target)
    elif ready.is_file() and target.is_file():
        replace_path(ready, target)
    elif exchange_paths(ready, target):
        remove(ready)  # the old one; the new one is in its place already
    else:
        old = ready.with_name(ready.name + OLD)
        rename_path(target, old)
        try:
            rename_path(ready, target)
        except OSError:
            rename_path(old, target)
            raise
        remove(old)
    sync_path(target.parent)


def remove(path: Path) -> None:
    """A file, or a folder with all in it; what cannot be removed stays."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
