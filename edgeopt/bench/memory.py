"""A process's own memory, as the kernel counts it."""

from pathlib import Path


def status_bytes(field: str, process: str = "self") -> int | None:
    """One `Vm…` field of /proc/PID/status in bytes; None where the system does not tell."""
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


def resident_bytes() -> int | None:
    return status_bytes("VmRSS")


def peak_bytes() -> int | None:
    return status_bytes("VmHWM")
