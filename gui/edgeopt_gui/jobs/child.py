"""The process of a job: the command line of edgeopt, which ends when the app does, however that ends.

The app holds the other end of this process's stdin and never writes to it.
"""

import os
import sys
import threading
import time
from pathlib import Path

from edgeopt import events
from edgeopt.cli.main import main
from edgeopt.errors import EXIT_CANCELLED
from edgeopt.platform import processes, signals
from edgeopt.platform.files import try_lock
from edgeopt_gui.jobs.command import LOCK_VARIABLE

_PATIENCE_S = 3.0
_RETRY_S = 0.2
_WAITING = events.Progress("waiting for another search or measurement on this device")


def _follow_the_app() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    signals.terminate_self()  # the command unwinds and removes what it left on the disk
    time.sleep(_PATIENCE_S)
    processes.end_own_group()


def _wait_for_the_device() -> None:
    """Waits until no other window measures on this device; the lock is held until this process ends."""
    name = os.environ.pop(LOCK_VARIABLE, "")
    if not name:
        return
    try:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return  # without a folder for caches, windows do not know of each other
    waiting = False
    while not try_lock(lock):
        if not waiting:
            _write(_WAITING)
        waiting = True
        time.sleep(_RETRY_S)


def _write(event: events.Event) -> None:
    sys.stdout.write(f"{events.encode(event)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    threading.Thread(target=_follow_the_app, daemon=True, name="follow-the-app").start()
    try:
        _wait_for_the_device()
    except KeyboardInterrupt:
        _write(events.Error("cancelled", "Cancelled; nothing was changed."))
        sys.exit(EXIT_CANCELLED)
    main()
