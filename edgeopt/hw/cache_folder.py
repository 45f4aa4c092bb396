"""Where edgeopt keeps what is quick to use and slow to make."""

import os
from pathlib import Path


def user_cache_folder() -> Path | None:
    """`$XDG_CACHE_HOME/edgeopt`; a relative value is ignored, as the XDG specification asks."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named and Path(named).is_absolute():
        return Path(named) / "edgeopt"
    try:
        return Path.home() / ".cache" / "edgeopt"
    except RuntimeError:
        return None
