"""The user's home folder, and the folder in which edgeopt keeps what is quick to use and slow to make."""

import contextlib
import getpass
import os
import sys
from pathlib import Path

from edgeopt.errors import UsageError
from edgeopt.platform.files import replace_path


def home_folder() -> Path | None:
    """Returns the home folder, or None for a user without one, such as a bare user id in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def expanded(path: Path) -> Path:
    """A path with `~` replaced; raises UsageError where there is no such home folder."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise UsageError(f"There is no home folder for '{path}'.", "Write the path without '~'.") from None


def user_name() -> str:
    """Returns the user's name; a container may run under a number without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "?"


VARIABLE = "EDGEOPT_CACHE"
"""Names the folder itself, whatever the system's habits are."""


def user_cache_folder() -> Path | None:
    """`$EDGEOPT_CACHE`, or `edgeopt` in the folder that the system has for such things.

    `$XDG_CACHE_HOME` comes first among those; a relative value is ignored, as the XDG specification asks.
    """
    if own := os.environ.get(VARIABLE, ""):
        return Path(own).absolute()
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named and Path(named).is_absolute():
        return Path(named) / "edgeopt"
    local = os.environ.get("LOCALAPPDATA", "")
    if os.name == "nt" and local:
        return Path(local) / "edgeopt" / "Cache"
    home = home_folder()
    return (
        None if home is None else home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "edgeopt"
    )


def put(file: Path, content: bytes) -> str | None:
    """Replaces a kept file in one step; why it could not, or None."""
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as written:
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
        replace_path(part, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        return f"cannot write to {file.parent} ({error.strerror})"
    return None
