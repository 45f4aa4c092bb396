"""The log that a child's stderr goes to: a file that several processes append to, and its last line."""

import os

_TAIL_BYTES = 4096
_LONGEST = 200


def append_only(log: int) -> None:
    """Writers append at its end, also after it was cut."""
    if os.name == "posix":
        import fcntl

        fcntl.fcntl(log, fcntl.F_SETFL, fcntl.fcntl(log, fcntl.F_GETFL) | os.O_APPEND)


def last_words(log: int) -> str:
    """The last line with text; empty if there is none, or the file cannot be read."""
    try:
        size = os.fstat(log).st_size
        tail = os.pread(log, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    except OSError:
        return ""
    lines = tail.decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:_LONGEST] if lines else ""
