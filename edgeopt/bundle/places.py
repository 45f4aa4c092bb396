"""Options of a runtime that name files, folders or libraries: they are a device's own, and never a bundle's."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeopt.backends.base import Options

# In the names of such options, and in the keys that `entries` and `load_config` hold.
_WORDS = ("_dir", "path", "folder", "directory", "librar", "plugin", "file_name")


def place_named(options: "Options") -> str | None:
    """The first option that names a place: by it a bundle could have what lies there read, written or run."""
    for name, value in options.items():
        if not isinstance(value, str) or not value:
            continue
        text = f"{name}={value}".lower()
        if "/" in value or "\\" in value or any(word in text for word in _WORDS):
            return name
    return None
