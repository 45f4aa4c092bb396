"""The home folder of the user."""

from pathlib import Path

from edgeopt.errors import UsageError


def home_folder() -> Path | None:
    """None for a user without one, such as a bare user id in a container."""
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
