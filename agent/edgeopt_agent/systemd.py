"""Exchanges with systemd: notifications (sd_notify), and sockets that it keeps across restarts."""

import array
import asyncio
import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress

from edgeopt.errors import legible

FAILED_START_PAUSE_S = 5.0
FIRST_INHERITED = 3
"""The first descriptor that is passed on: SD_LISTEN_FDS_START."""


def notify(*assignments: str, descriptors: Iterable[int] = ()) -> bool:
    """Sends lines such as `READY=1`, and descriptors beside them; False where nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return False
    # A leading @ stands for the NUL of Linux's abstract names.
    place = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker, suppress(OSError):
        speaker.setblocking(False)  # a manager that does not read must not hold up serving
        passed = array.array("i", descriptors)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if passed else []
        speaker.sendmsg(["\n".join(assignments).encode()], rights, 0, place)
        return True
    return False


def ready(status: str) -> bool:
    """Reports that the agent serves; `systemctl status` shows `status`."""
    return notify("READY=1", f"STATUS={_line(status)}")


def status(text: str) -> bool:
    """Sets the line that `systemctl status` shows from now on."""
    return notify(f"STATUS={_line(text)}")


def stopping(status: str = "Finishing what is in flight.") -> bool:
    """Reports that the agent ends, so that its silence counts as no fault from now on."""
    return notify("STOPPING=1", f"STATUS={_line(status)}")


def delay_restart() -> None:
    """Waits if systemd would start the agent again at once: starts that fail must not load the device."""
    if os.environ.get("NOTIFY_SOCKET"):
        time.sleep(FAILED_START_PAUSE_S)


def inherited_sockets() -> tuple[tuple[str, socket.socket], ...]:
    """Returns the sockets, with their names, that a supervisor passes to this process (sd_listen_fds).

    Only the first call returns them, and no child inherits them. Raises OSError if a descriptor is no socket.
    """
    meant_for, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    names = os.environ.pop("LISTEN_FDNAMES", "").split(":")
    if meant_for != str(os.getpid()) or not count.isdecimal():
        return ()
    numbers = range(FIRST_INHERITED, FIRST_INHERITED + int(count))
    for number in numbers:
        os.set_inheritable(number, False)
    names += [""] * (len(numbers) - len(names))
    return tuple((name, socket.socket(fileno=number)) for name, number in zip(names, numbers, strict=False))


def store_sockets(name: str, sockets: Iterable[socket.socket]) -> bool:
    """Lets systemd keep sockets and pass them to the next start of this service (FileDescriptorStoreMax=)."""
    return notify("FDSTORE=1", f"FDNAME={name}", descriptors=[each.fileno() for each in sockets])


def forget_sockets(name: str) -> bool:
    """Lets systemd close the sockets that it keeps by this name."""
    return notify("FDSTOREREMOVE=1", f"FDNAME={name}")


def watchdog_interval_s() -> float | None:
    """Returns the interval of watchdog notifications: half of systemd's limit."""
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
    return legible(" ".join(text.split()))
