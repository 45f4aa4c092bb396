"""Notifications to systemd (sd_notify) over its socket; nothing is sent without systemd."""

import asyncio
import os
import socket
from contextlib import suppress


def notify(*assignments: str) -> bool:
    """Sends lines such as `READY=1`; False where nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return False
    # A leading @ stands for the NUL of Linux's abstract names.
    place = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker, suppress(OSError):
        speaker.setblocking(False)  # a manager that does not read must not hold up serving
        speaker.sendto("\n".join(assignments).encode(), place)
        return True
    return False


def ready(status: str) -> bool:
    """It serves; `status` is what `systemctl status` shows."""
    return notify("READY=1", f"STATUS={_line(status)}")


def status(text: str) -> bool:
    """The line that `systemctl status` shows from now on."""
    return notify(f"STATUS={_line(text)}")


def stopping(status: str = "Finishing what is in flight.") -> bool:
    """It ends: from now on its silence is no fault."""
    return notify("STOPPING=1", f"STATUS={_line(status)}")


def watchdog_interval_s() -> float | None:
    """The interval of watchdog notifications: half of systemd's limit."""
    text = os.environ.get("WATCHDOG_USEC", "")
    meant_for = os.environ.get("WATCHDOG_PID", "")
    if not text.isdecimal() or int(text) == 0 or (meant_for and meant_for != str(os.getpid())):
        return None
    return int(text) / 2_000_000


async def keep_watchdog() -> None:
    """Tells systemd until it is cancelled that the event loop still turns; returns at once without a watchdog."""
    interval_s = watchdog_interval_s()
    while interval_s is not None:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


def _line(text: str) -> str:
    return " ".join(text.split())
