"""Where edgeopt keeps what is quick to use and slow to make."""

import contextlib
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


def put(file: Path, content: bytes) -> str | None:
    """Replaces a kept file in one step; why it could not, or None."""
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as written:
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
        part.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        return f"cannot write to {file.parent} ({error.strerror})"
    return None
